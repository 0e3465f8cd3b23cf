// Package worth decides whether loading blocks is quicker than computing them.
//
//	Rates  how fast a drive reads, by size of block and depth of its queue
//	Judge  the decision, which does not flap and keeps measuring
//
// Nothing here reads or waits; time is the caller's, and never goes back.
package worth

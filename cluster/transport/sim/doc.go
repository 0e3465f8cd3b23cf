// Package sim is a network in memory, with seeded faults, for tests. Its nodes are
// transports; time is the time package's, so that in a bubble of testing/synctest a
// network with delays is instant.
//
// What it is true to:
//
//   - A link is a stream: while nothing can pass from one node to the other (Cut, Freeze)
//     what was sent is held, and arrives when the way is free again. Nobody is told.
//   - A sender whose bytes have been held for Config.SilenceMax gives the link up; its peer
//     learns that when the way is free.
//   - A process that dies (Kill) breaks its links, and others learn it within a delay. A
//     machine that dies (Vanish) tells nobody; who starts again at its address does.
//   - A caller whose context has ended is answered at once. What it had sent may still
//     arrive and be served, and the peer's handler hears of it a delay later.
//   - Blocks of a Fetch arrive in any order, each in two parts, at moments of their own.
//     One that is answered Late may be written to until its Released.
//
// Every random decision is drawn in the order in which the calls come, so that a seed
// replays as far as the scheduling of goroutines allows.
//
// Locking: one mutex per Network guards nodes, gates and links; every exchange has one of
// its own for the memory of its caller, and bytes move under it. No callback runs under
// either.
package sim

// Package warm fills a namespace ahead of need, as before traffic moves to a new
// revision of a model.
//
//	Prompts  sends prompts to an engine with OpenAI's interface, which computes and stores their blocks itself
//	Copy     moves blocks from one namespace to another, where the bytes mean the same in both
//	Present  how many of some blocks are there
//
// Everything is bounded: requests at once, their rate, their time, their attempts.
package warm

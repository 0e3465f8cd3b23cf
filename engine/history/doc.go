// Package history runs random histories of a store on a simulated disk and
// judges every answer by a model.
//
// A History is plain data: a configuration and a list of lives. In a life some
// clients run their operations at the same time, while faults come and go; it
// ends by a close, a kill or a power cut, and the next life opens what is left.
// Generate draws one from a seed, Run carries it out in virtual time, Shrink
// makes a failing one smaller. A seed or a stored History replays a run as far
// as the scheduling of goroutines allows.
//
// What the model demands:
//
//  1. A hit is the complete bytes of one put under exactly that key in exactly
//     that namespace, and no delete or drop that began after the put's end was
//     acknowledged before the get began, whatever crashes lie between, and also
//     where the medium loses or changes log records that it had acknowledged as
//     synced (mode Lies).
//  2. No byte outside a destination changes, and none inside after the answer,
//     or, after LATE, after the release; sources never change. Every LATE is
//     released exactly once, and nothing else is.
//  3. Every call returns: at its deadline, or within a bound of virtual time.
//  4. A put acknowledged as durable is there after every crash, a relaxed one
//     after a close, and after a crash if it is older than the interval that
//     Options promise. Whatever is missing must be accounted for by the count
//     of evictions. Damage of the medium, or a client that changes its memory
//     during a put, lifts this; errors of writes and syncs lift it for relaxed
//     puts only.
//  5. As long as the medium does what it says, nothing is called damaged: no
//     torn block, no quarantine, no read error, and before the first power cut no
//     stale read and no miss with a cause.
//  6. A block under a lease is no miss, except for drop, delete, capacity,
//     damage or a restart.
//  7. After a failed sync of the log the store is read-only and says so, and
//     acknowledges no put any more.
//  8. At the end all memory is given back, blocks fit their slots, and the disk
//     use is within the capacity.
package history

// Package rdmatest runs random histories of nodes that fetch blocks from each other by RDMA,
// and judges every byte by a model.
//
// A History is plain data: a configuration, clients with their operations, and a timetable
// of troubles. Generate draws one from a seed; Run carries it out in virtual time, over a
// simulated network for the calls (transport/sim) and simulated devices (fabric/sim).
//
// What the model demands:
//
//  1. A block that is done is exactly the bytes of the one that was asked for, with the
//     checksum that its node gave. Its bytes are made for this one request, and spoiled at
//     its node as soon as that may be.
//  2. Every block is answered once. Memory belongs to the test again when its block is
//     answered, or released if that was late: it is filled with a pattern at once, and
//     nobody writes to it from then on, nor ever to what is around it.
//  3. A Fetch is back when its context ends.
//  4. Without a trouble and a deadline every block arrives.
//  5. When all is healed, blocks come by RDMA again between all nodes that have it.
//  6. No device refuses a write: there is a receive for each immediate, and memory for each
//     address.
//  7. What a node sends it is told to be done with exactly once. At the end nothing is left:
//     no memory in use, no goroutine, no region, no queue pair.
package rdmatest

// Package historytest runs random histories of a whole pool in one process and judges
// every answer by a model.
//
// A History is plain data: a configuration, clients with their operations, and a timetable
// of troubles: cuts of the network, frozen, slow, killed and restarted nodes, power cuts,
// damaged bytes, a membership that is wrong, nodes that come, drain and come back. Generate
// draws one from a seed; Run carries it out in virtual time, over stores on simulated
// drives, a simulated network and a simulated membership; with History.RDMA blocks come
// over a simulated RDMA network beside it. The nodes themselves are the
// caller's (Start): what is between a client's request and package pool is tested too.
//
// What the model demands:
//
//  1. A hit is the complete bytes of one put of exactly that key in exactly that namespace.
//  2. No hit is of a put that had ended before a delete or drop began, if that was
//     acknowledged to a client of this node, or confirmed by this node, before the get
//     began: whatever was cut, killed or moved between. When all is healed, every node
//     knows every acknowledged erasure.
//  3. The incarnation of a namespace never falls on a node, over all its lives.
//  4. A call with a deadline is back by then, every other within a bound of virtual time.
//     A get of blocks that are all here takes the time of the drive, whatever peers do.
//  5. Nothing is written to a destination after its answer or, where that was Late, its
//     release; each Late is released once. A source may change once its put is answered.
//  6. When all is healed, all nodes know the same of what was erased; where no node was
//     killed and nothing was dropped on the way, every block that was acknowledged as
//     stored is found by every node.
//  7. At the end no goroutine is left, and no memory in use.
package historytest

// Package client mounts a node's block pool over its Unix socket
// (docs/format/wire.md).
//
// Memory is shared with the daemon: blocks move between the drive and a Region
// without a copy and without passing the socket. What a program puts into a region
// or gets there it must leave alone between the call and its end.
//
// A pool that is not there costs misses and nothing else: while the daemon is away,
// Match finds nothing, Get answers Miss, Put answers Dropped, all at once, and the
// client connects again in the background. Namespaces and regions are then opened
// again by themselves. Data calls (Match, Get, Put, Touch) return no errors; a mistake of
// the caller (a wrong length, a place outside its region) panics. What must be known to
// have happened (Delete, Drop, a first Namespace, Subscribe, Stats) returns one.
//
// All methods may be called from many goroutines.
package client

// Package node is a daemon's inside: the stores of one machine, and the clients
// that mount them over a Unix socket (docs/format/wire.md).
//
//	Node ── conn: one client's connection: its namespaces, regions, leases, requests
//	   └─── space: a namespace over all stores
//	   └─── drive: a store with its share of the I/O: loads before stores, weighted by namespace
//
// A request lives in its own goroutine, but for what this node's memory alone answers:
// that the connection's reader does in order. Everything is bounded per connection
// and per node; at the bound reads are BUSY, puts DROPPED, other requests are
// refused with a limit. A client's memory is touched only between its request and
// the answer, or, after LATE, the release.
package node

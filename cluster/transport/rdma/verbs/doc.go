// Package verbs is the real fabric.Fabric: RDMA devices through libibverbs.
//
// It is in a build with the tag verbs, on Linux and with cgo. Such a build needs the
// library's headers and is not linked with it: libibverbs.so.1 is loaded when the first
// method is called, and a machine without it, without a driver or without a device gets
// fabric.ErrNone, with what to do in its text. Every other build has the same package, whose
// Ports says that.
//
//	fabric ── device: one port, its protection domain; a goroutine takes its events
//	             ├─ region: pinned memory
//	             └─ queuePair ─┬─ sends:    completion queue and channel
//	                           └─ receives: completion queue and channel
//
// The C side keeps no pointer to memory of Go: work requests name lists by number, and what
// is written inline is copied when it is posted. A waiter parks in Go's poller on the
// channel's descriptor, so that no thread is blocked, and no processor is kept busy.
package verbs

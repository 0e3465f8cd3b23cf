// Package rdma lets blocks of a Fetch come by RDMA: the node that has them writes them
// straight into memory of the node that asked. Everything else (calls, pushes, who may talk
// to whom, TLS) stays with another transport, the control, and so do fetches while RDMA is
// not to be had. It is a transport.Transport; docs/format/rdma.md has its bytes.
//
//	caller                                          server
//	Link.Fetch ── control call "fetch": where to ──> wrap ──> Handler.Fetch
//	   │                                               │ Reply.Block: queue of the sender
//	   │ <── writes: bytes, a record for each block ── sender (bounded, in pieces)
//	   │ <── one write with immediate for a batch ──── │
//	receiver: lines -> fetch                         reaper: sent, memory is let go
//	   └── no use for it any more: "fence" ──────────> nothing more is posted: its word,
//	   │ <── and a mark on each rail, behind all ───── and marks
//	   └── not in time: Destroy
//
// A session is what one link has of it: a queue pair for each port, made by two control
// calls, "open" and "hold". The hold lasts as long as the session: the server's answer to it
// is how the caller learns that a send has failed, and its end is how the server learns that
// the caller has destroyed its side. A session fails as a whole, and another is made after a
// pause; blocks that were on their way are Lost then, and fetches go by the control
// meanwhile.
//
// The race of every push is that the caller gives up and uses the memory again while bytes
// are still to come. A destination therefore belongs to its request until the record for it
// has come, or a fence is passed: the server's word that nothing more of the request is
// posted, with a mark that has come behind all that was; or QueuePair.Destroy.
// docs/format/rdma.md has the whole of it.
package rdma

// Package tcp carries a pool's calls and blocks over TCP, with TLS where it is
// configured. It is a transport.Transport; docs/format/peer.md has its bytes.
//
// A link is one connection for calls and one to four for blocks, all made by the side
// that asks. Messages and blocks go in chunks of at most 256 KiB, those of different
// calls in turn, so no call waits for another's transfer. Without TLS a chunk goes from
// the memory it lies in to the socket, and from the socket to where it belongs, in one
// system call each, without a copy of ours.
//
//	Transport ─┬─ Link (asks) ───┐
//	           └─ guest (serves) ┴─ session ─┬─ conn: the one of calls
//	                                         ├─ conn ...: those of blocks
//	                                         └─ watch: who is silent, or does not read
//
// Memory that belongs to somebody else is touched only through a memory, which can be
// closed at any moment: a system call under way ends (it never waits), and none follows.
// That is how a Fetch lets go of its destinations at its deadline.
package tcp

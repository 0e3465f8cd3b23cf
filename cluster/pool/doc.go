// Package pool makes one block pool of many nodes. A node uses it to find, load, store
// and erase blocks beyond its own drives, and is asked through it by others.
//
//	node ── Pool ── peers: a link to each other node, its breaker and its times
//	          │       match, get: where blocks are, and their bytes
//	          │       put: runs of new blocks and their homes
//	          │       erase: floors, deletions, and who has heard of them
//	          │       move: draining, lost copies, hot runs
//	          └─── Local: the node's own blocks, for those who ask
//
// Location is discovered, not computed: a node asks all others, and remembers the answers
// as hints. So a different view of who is a member costs a duplicate or a miss, never a
// wrong block.
package pool

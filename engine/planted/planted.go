// Package planted names faults that a build with the tag plantedbugs can switch on one
// at a time, to prove that random histories catch each of them: ten of a store, some of a
// pool of nodes, and one of its transports. Without the tag Active is the constant false and the compiler
// removes every trace. Any package may import this leaf.
package planted

// Bug is one planted fault.
type Bug uint8

const (
	None               Bug = iota
	SkipVerify             // engine: a read is answered without checking its bytes
	SkipPin                // engine: an evicted slot is reused while a read of it is in flight
	AckBeforeWrite         // engine: a put is acknowledged before its data write has ended
	ReplayRecycled         // wal: a record left over in a recycled log file is replayed
	PadShortRead           // engine: a short read is padded up to the sector, into the neighbour
	TouchAfterLate         // engine: after LATE without RELEASED the destination is written again
	FreeBeforeRecord       // engine: a slot is reused before its free record is durable
	ForgetIncarnation      // engine: the incarnation is left out of the ID
	TrimEarly              // engine: the log is trimmed before the index has flushed
	CoalesceFromClient     // engine: a coalesced reader is answered from another client's memory
	storeCount
)

const (
	TrustPeerBytes Bug = storeCount + iota // pool: what a peer has sent is not checked
	IgnoreClock                            // pool: a node that knows less of erasures than the caller answers
	TakeStale                              // pool: a copy is taken in whatever was erased since it was read
	SkipEffect                             // pool: what others have erased is remembered, and not erased here
	TellNobody                             // pool: a deletion is acknowledged without having been told
	ForgetErasures                         // pool: deletions are remembered in memory alone
	ReleaseEarly                           // pool: a late block is released while it may still arrive
	WaitForPeers                           // node: a get asks other nodes before it looks at home
	poolCount
)

const (
	SkipFence Bug = poolCount + iota // rdma: a late block is released while the peer may still write there
	bugCount
)

var names = [bugCount]string{
	"none", "skip-verify", "skip-pin", "ack-before-write", "replay-recycled",
	"pad-short-read", "touch-after-late", "free-before-record",
	"forget-incarnation", "trim-early", "coalesce-from-client",
	"trust-peer-bytes", "ignore-clock", "take-stale", "skip-effect", "tell-nobody",
	"forget-erasures", "release-early", "wait-for-peers",
	"skip-fence",
}

func (b Bug) String() string { return names[b] }

// All lists every planted fault of a store.
func All() []Bug { return between(None+1, storeCount) }

// AllOfPools lists every planted fault of a pool of nodes.
func AllOfPools() []Bug { return between(storeCount, poolCount) }

// AllOfTransports lists every planted fault of a way of blocks between nodes.
func AllOfTransports() []Bug { return between(poolCount, bugCount) }

func between(first, end Bug) (bugs []Bug) {
	for b := first; b < end; b++ {
		bugs = append(bugs, b)
	}
	return bugs
}

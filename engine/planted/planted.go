// Package planted names ten faults that a build with the tag plantedbugs can
// switch on one at a time, to prove that the random-history test catches each
// of them. Without the tag Active is the constant false and the compiler
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
	bugCount
)

var names = [bugCount]string{
	"none", "skip-verify", "skip-pin", "ack-before-write", "replay-recycled",
	"pad-short-read", "touch-after-late", "free-before-record",
	"forget-incarnation", "trim-early", "coalesce-from-client",
}

func (b Bug) String() string { return names[b] }

// All lists every planted fault.
func All() []Bug {
	bugs := make([]Bug, 0, bugCount-1)
	for b := None + 1; b < bugCount; b++ {
		bugs = append(bugs, b)
	}
	return bugs
}

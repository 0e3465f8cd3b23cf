package result

// Direction is what an I/O does, in fio's order.
type Direction uint8

// The directions. Nothing here trims: Trim is there because fio's output has it.
const (
	Read Direction = iota
	Write
	Trim
	directionCount
)

var directionNames = [directionCount]string{"read", "write", "trim"}

func (d Direction) String() string { return directionNames[d] }

// Outcome is how an I/O ended. Only Done counts in latencies, rates and bytes;
// the others are counted, each apart.
type Outcome uint8

const (
	// Done: the whole I/O, verified where the job verifies.
	Done Outcome = iota
	// Missed: the store or the pool did not have the block.
	Missed
	// Late: not there at its deadline. A gate must count it as over the budget,
	// since no percentile shows it.
	Late
	// Failed: the target returned an error.
	Failed
	// Unverified: the job verifies, and this I/O could not be checked.
	Unverified
	// Damaged: wrong bytes.
	Damaged
	// Dropped: a put that the store refused, or had no room for.
	Dropped
	// Busy: refused at once because a queue was full.
	Busy
	// Present: a put of a block that was there already; nothing was written.
	Present
	outcomeCount
)

var outcomeNames = [outcomeCount]string{"done", "missed", "late", "failed", "unverified", "damaged", "dropped", "busy", "present"}

func (o Outcome) String() string { return outcomeNames[o] }

// IO is one finished I/O. Times are nanoseconds of one monotonic clock, the same
// for all recorders of a run.
type IO struct {
	Direction Direction
	Outcome   Outcome
	Bytes     int64
	// IntendedNS is when the schedule wanted it: open-loop load only.
	IntendedNS int64
	// IssuedNS is just before the submission, SubmittedNS when the submission had
	// returned (-1 where nobody knows: then slat does not count it), DoneNS when the result was there and
	// verified.
	IssuedNS, SubmittedNS, DoneNS int64
}

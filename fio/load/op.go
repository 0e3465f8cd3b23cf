// Package load says what a benchmark asks of its target, and when: patterns,
// arrivals, traces. A Source makes Ops; package run carries them out.
package load

// Kind is what an I/O does.
type Kind uint8

// Kinds of I/O.
const (
	Read Kind = iota
	Write
	// Kinds is how many there are.
	Kinds = 2
)

func (k Kind) String() string { return [...]string{"read", "write"}[k] }

// Special values of fields of an Op.
const (
	// Anywhere as an Offset: the op names a block. A target without keys puts
	// block b at (b modulo the blocks that fit) times its length.
	Anywhere int64 = -1
	// AtOnce as IntendedNS: the closed loop; due as soon as a worker is free.
	AtOnce int64 = -1
)

// Op is one I/O that a Source asks for. It has no pointers and is copied freely.
type Op struct {
	Kind Kind
	// FillOnMiss: a read that misses is followed by a write of the same block, as an
	// inference engine computes and stores what it did not find.
	FillOnMiss bool
	// Namespace counts the namespaces of the load from 0. A target without
	// keys ignores it.
	Namespace uint16
	// Depth is the block's position in its chain, root 0.
	Depth uint32
	// Chain, if not 0, is the same for all ops of one request. Such of one kind that
	// follow each other may be carried out in one call.
	Chain uint32
	// Bytes is the length. Blocks of different lengths are different blocks.
	Bytes int
	// Offset is the place in the file for targets without keys, or Anywhere. It
	// counts from the start of the job's own range.
	Offset int64
	// Block names the block for targets with keys, within namespace and length.
	Block uint64
	// IntendedNS is when the op is to start, in nanoseconds from the start of the
	// worker's clock, or AtOnce. Latency of the open loop counts from here,
	// however late the worker is.
	IntendedNS int64
	// Tag is the source's own and comes back with Done.
	Tag uint64
}

// Answer is what Next found.
type Answer uint8

// Answers of Next.
const (
	// Ready: op is filled in. If IntendedNS lies ahead the worker waits for it.
	Ready Answer = iota
	// Wait: nothing can begin now. Ask again after the next completion, or at
	// op.IntendedNS if that is not AtOnce, whatever comes first.
	Wait
	// End: no op will come any more.
	End
)

// Source makes the ops of one worker. It belongs to that worker's goroutine:
// no method is called by two at a time. Neither method may allocate, wait, or
// make a system call for each op.
type Source interface {
	// Next fills in op, every field of it. nowNS is the worker's clock. A worker asks
	// when it is able to begin an op, and begins a Ready one, in order.
	Next(nowNS int64, op *Op) Answer
	// Done tells that an op of this source has ended; ops end in any order. The
	// write that follows a FillOnMiss is told as an op of Kind Write with the
	// same Tag. A source that does not care does nothing.
	Done(op *Op, outcome Outcome, nowNS int64)
}

// Outcome is how an I/O ended.
type Outcome uint8

// Outcomes. Only OK counts in latencies and bandwidth.
const (
	OK         Outcome = iota // a read's bytes are there and right as far as asked for; a write is accepted
	Miss                      // the block is not there
	Late                      // not done within the deadline
	Busy                      // refused at once: a queue was full
	Dropped                   // a write that the target would not take, at no fault of the medium
	Failed                    // an error of the medium, of the system or of the target
	Damage                    // wrong bytes
	Unverified                // a read that was to be proven holds nothing that a benchmark wrote
	Present                   // a put of a chain's block that is there already: nothing was written
	// Outcomes is how many there are.
	Outcomes = 9
)

var outcomeNames = [Outcomes]string{"ok", "miss", "late", "busy", "dropped", "error", "damage", "unverified", "present"}

func (o Outcome) String() string { return outcomeNames[o] }

// Package admit decides which puts are worth their write, before anything is
// written: the drive wears with every one, and most blocks are never read.
//
//	Sights  what was put lately: a block is admitted when it is put again
//	Budget  bytes that a drive may be written, shared among namespaces by weight
//	Rate    how fast what was admitted goes, for queues bounded in time
//	Wear    what was written in the last day, and how long the drive lasts so
//
// Nothing here does I/O or waits. All methods may be called from many goroutines;
// time is the caller's, and never goes back.
package admit

// Reason says why a put was not admitted.
type Reason uint8

// Reasons; 0 is none: it was admitted.
const (
	Admitted   Reason = 0
	Partial    Reason = 1 // the last block of a prompt, not full: it is hardly ever asked for again
	FirstSight Reason = 2 // it, or a block before it in its chain, was not put before
	OverBudget Reason = 3 // the drive has been written as much as it may
	QueueFull  Reason = 4 // too much waits for the drive
	reasons           = 5
)

var reasonNames = [reasons]string{"", "partial", "first_sight", "write_budget", "queue"}

// String is a short name, "" for Admitted.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Refusals are the reasons other than Admitted, in order.
func Refusals() []Reason { return []Reason{Partial, FirstSight, OverBudget, QueueFull} }

// Package trace reads and generates request traces in the Mooncake format: one
// JSON object per line, plain or zstd-compressed, with a timestamp, the lengths
// of input and output in tokens, and one id per block of the input.
//
// An id stands for a block together with its whole prefix, so an id always has
// the same predecessor.
package trace

import "fmt"

// TokensPerBlock is how many tokens one id of a Mooncake trace covers; the
// last id of a request may cover fewer.
const TokensPerBlock = 512

// Request is one line of a trace.
type Request struct {
	TimestampMS  int64 // from the start of the trace; never falls from one request to the next
	InputLength  int   // tokens
	OutputLength int   // tokens
	// HashIDs name the blocks of the input, root first. The slice belongs to
	// the caller.
	HashIDs []uint64
}

// Source is a stream of requests: a Reader or a Generator. Next answers
// io.EOF after the last one. A Source is used by one goroutine at a time.
type Source interface {
	Next() (Request, error)
}

// Error says what is wrong with a trace and where.
type Error struct {
	File   string
	Line   int // from 1; 0 if the fault is not in a line
	Reason string
	Err    error // the cause, or nil
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("trace %s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("trace %s line %d: %s", e.File, e.Line, e.Reason)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

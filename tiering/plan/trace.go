// Package plan simulates caches of a trace's blocks before anybody buys drives: hits
// by capacity for each eviction policy, what they write, and what is left of them
// when a node is lost. It runs the engine's own policy code.
package plan

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/tiering/trace"
)

// ReferencesMax bounds a Trace: at most 0.5 GiB of block numbers, and some 24 bytes
// for each unique block.
const ReferencesMax = 1 << 27

// ErrTooLong: a trace names more than ReferencesMax blocks.
var ErrTooLong = errors.New("the trace is too long to plan with")

// Trace is a whole trace in memory, its blocks numbered from 0 in the order in which
// they first appear. It is not changed once loaded, and free for any number of
// goroutines.
type Trace struct {
	Blocks        []uint32 // of all requests, root first
	ends          []int    // of each request, in Blocks
	timesMS       []int64
	partial       []bool // the request's last block is not full
	Unique        int
	TokensPerUnit int // tokens of a block; 0 if the trace does not tell
}

// Load reads a trace. progress, if set, is told now and then how many requests are
// read.
func Load(ctx context.Context, src trace.Source, progress func(requests int)) (*Trace, error) {
	return loadUpTo(ctx, src, progress, ReferencesMax)
}

func loadUpTo(ctx context.Context, src trace.Source, progress func(requests int), most int) (*Trace, error) {
	t := &Trace{TokensPerUnit: trace.TokensPerBlock}
	numbers := map[uint64]uint32{}
	for {
		q, err := src.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(t.Blocks)+len(q.HashIDs) > most {
			return nil, fmt.Errorf("%w: it is held in memory, and names more than %d blocks; give its first %d requests or fewer", ErrTooLong, most, len(t.ends))
		}
		for _, id := range q.HashIDs {
			n, known := numbers[id]
			if !known {
				n = uint32(len(numbers))
				numbers[id] = n
			}
			t.Blocks = append(t.Blocks, n)
		}
		if (q.InputLength+trace.TokensPerBlock-1)/trace.TokensPerBlock != len(q.HashIDs) {
			t.TokensPerUnit = 0 // its blocks are of another size
		}
		t.ends = append(t.ends, len(t.Blocks))
		t.timesMS = append(t.timesMS, q.TimestampMS)
		t.partial = append(t.partial, q.InputLength%trace.TokensPerBlock != 0)
		if len(t.ends)%1024 == 0 {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if progress != nil {
				progress(len(t.ends))
			}
		}
	}
	t.Unique = len(numbers)
	if len(t.Blocks) == 0 {
		return nil, errors.New("the trace names no block")
	}
	return t, nil
}

// Requests is the number of requests.
func (t *Trace) Requests() int { return len(t.ends) }

// SpanMS is the time from the first request to the last.
func (t *Trace) SpanMS() int64 { return t.timesMS[len(t.timesMS)-1] - t.timesMS[0] }

// chain is the blocks of a request, root first.
func (t *Trace) chain(request int) []uint32 {
	from := 0
	if request > 0 {
		from = t.ends[request-1]
	}
	return t.Blocks[from:t.ends[request]]
}

// endsPartial says whether a request's last block is not full. In a trace whose
// lengths do not fit its blocks, all are.
func (t *Trace) endsPartial(request int) bool { return t.TokensPerUnit > 0 && t.partial[request] }

// CapacityOf is a share of the unique blocks, two at least.
func (t *Trace) CapacityOf(share float64) int { return max(int(share*float64(t.Unique)), 2) }

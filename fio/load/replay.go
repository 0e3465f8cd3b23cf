package load

import (
	"io"
	"math"

	"github.com/spillway-kv/spillway/tiering/trace"
)

// Part is what one of several feeds of the same trace takes of it. The zero
// Part is all of it.
type Part struct{ Index, Of int }

func (p Part) has(key uint64) bool {
	return p.Of <= 1 || mix64(key)%uint64(p.Of) == uint64(p.Index)
}

// pace turns times of a trace into intended starts.
type pace float64

// startNS is the start of what the trace has at atNS; a pace of 0 waits for
// nothing.
func (p pace) startNS(atNS float64) int64 {
	if p <= 0 {
		return AtOnce
	}
	return int64(min(atNS/float64(p), math.MaxInt64/2))
}

// ReplayConfig says how a trace of requests is replayed.
type ReplayConfig struct {
	Part Part
	// Speed is how many times faster than recorded requests start; 0: each as
	// soon as the worker has room.
	Speed float64
	// TraceTokens is how many tokens an id of the trace covers, TokensPerBlock how
	// many a block holds: a divisor of it, an id then being several blocks. 0: the
	// same.
	TraceTokens, TokensPerBlock int
}

// Replay feeds the requests of a trace. Requests without ids, of a trace that
// only knows lengths, have blocks that never come again.
type Replay struct {
	source  trace.Source
	config  ReplayConfig
	pace    pace
	blocks  uint64 // of an id
	freshID uint64
	err     error
}

// NewReplay makes a feed of source, which stays the caller's to close.
func NewReplay(source trace.Source, c ReplayConfig) *Replay {
	r := &Replay{source: source, config: c, pace: pace(c.Speed), blocks: 1}
	if c.TraceTokens > 0 && c.TokensPerBlock > 0 && c.TraceTokens%c.TokensPerBlock == 0 {
		r.blocks = uint64(c.TraceTokens / c.TokensPerBlock)
	}
	return r
}

// NextRequest is that of Feed.
func (r *Replay) NextRequest(_ int64, q *Request) Answer {
	for r.err == nil {
		t, err := r.source.Next()
		if err != nil {
			r.err = err
			break
		}
		r.freshID++
		if !r.config.Part.has(r.partKey(&t)) {
			continue
		}
		q.Mode, q.Session = LoadThenPut, 0
		q.StartNS = r.pace.startNS(float64(t.TimestampMS) * 1e6)
		q.InputTokens, q.OutputTokens = t.InputLength, t.OutputLength
		r.chain(&t, q)
		return Ready
	}
	return End
}

// partKey is equal for the requests of one conversation: its second block's id,
// as the first is often one that all share.
func (r *Replay) partKey(t *trace.Request) uint64 {
	if n := len(t.HashIDs); n > 0 {
		return t.HashIDs[min(1, n-1)]
	}
	return r.freshID
}

// chain fills in the blocks of a request.
func (r *Replay) chain(t *trace.Request, q *Request) {
	tokens := r.config.TokensPerBlock
	if len(t.HashIDs) == 0 && tokens > 0 {
		for i := range t.InputLength / tokens {
			q.Blocks = append(q.Blocks, mix64(r.freshID<<20|uint64(i)))
		}
		return
	}
	for _, id := range t.HashIDs {
		for i := range r.blocks {
			q.Blocks = append(q.Blocks, id*r.blocks+i)
		}
	}
	if last := len(t.HashIDs) - 1; r.blocks > 1 && last == t.InputLength/r.config.TraceTokens {
		// The last id is partial, and so are not all of its blocks there.
		q.Blocks = q.Blocks[:(t.InputLength+tokens-1)/tokens]
	}
}

// EndRequest does nothing: a trace's times are fixed.
func (r *Replay) EndRequest(int, int64) {}

// Err is why the trace ended early.
func (r *Replay) Err() error {
	if r.err == io.EOF {
		return nil
	}
	return r.err
}

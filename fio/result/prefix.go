package result

import (
	"bytes"
	"fmt"

	"github.com/spillway-kv/spillway/engine/histogram"
	"github.com/spillway-kv/spillway/fio"
)

// PrefixLoad is what one request of an engine loaded: all blocks of its prefix.
type PrefixLoad struct {
	Blocks, Loaded int64 // of the chain, and of those the prefix that was there
	Tokens, Bytes  int64 // of the prefix
	LatencyNS      int64 // from the request's intended start to its last block
	ComputeNS      int64 // to compute the prefix; 0: unknown
}

// prefixTally sums them up.
type prefixTally struct {
	requests, loads       uint64
	blocks, loaded        uint64
	tokens, bytes, timeNS uint64
	lat                   histogram.Histogram // of requests that loaded something
	faster                uint64              // than computing
	ratio                 histogram.Histogram // fio.LoadRatio of those whose compute time is known
}

func (t *prefixTally) add(l PrefixLoad) {
	t.requests++
	t.blocks += uint64(l.Blocks)
	if l.Loaded == 0 {
		return
	}
	t.loads++
	t.loaded += uint64(l.Loaded)
	t.tokens += uint64(l.Tokens)
	t.bytes += uint64(l.Bytes)
	t.timeNS += uint64(max(0, l.LatencyNS))
	t.lat.Record(l.LatencyNS)
	if l.ComputeNS > 0 {
		t.ratio.Record(fio.LoadRatio(l.LatencyNS, l.ComputeNS))
		if l.LatencyNS < l.ComputeNS {
			t.faster++
		}
	}
}

func (t *prefixTally) merge(from *prefixTally) {
	t.requests += from.requests
	t.loads += from.loads
	t.blocks += from.blocks
	t.loaded += from.loaded
	t.tokens += from.tokens
	t.bytes += from.bytes
	t.timeNS += from.timeNS
	t.lat.Merge(&from.lat)
	t.faster += from.faster
	t.ratio.Merge(&from.ratio)
}

// PrefixLoad counts the load of one request, of traces and chats.
func (r *Recorder) PrefixLoad(l PrefixLoad) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prefix == nil {
		r.prefix = &prefixTally{}
	}
	r.prefix.add(l)
}

// PrefixLoads are the loads of the requests of traces and chats: each is judged
// against computing its tokens.
type PrefixLoads struct {
	Requests int64 `json:"requests"`
	Loads    int64 `json:"loads"` // requests with a prefix to load
	Blocks   int64 `json:"blocks"`
	Loaded   int64 `json:"blocks_loaded"`
	Tokens   int64 `json:"tokens_loaded"`
	Bytes    int64 `json:"bytes_loaded"`
	// NSPerToken is the time of all loads by the tokens they brought: loading pays
	// where computing a token of the input takes longer.
	NSPerToken *Decimal `json:"ns_per_token"`
	LatNS      Latency  `json:"lat_ns"` // from a request's intended start to its last block
	// Compared is null where the time of computing is not known.
	Compared *Compared `json:"load_over_compute"`
}

// Compared are loads against computing the same tokens.
type Compared struct {
	Loads  int64   `json:"loads"` // that could be compared
	Faster int64   `json:"faster"`
	Share  Decimal `json:"share_faster"`
	// Load time over compute time: 1 is parity.
	P50 Decimal `json:"p50"`
	P99 Decimal `json:"p99"`
	Max Decimal `json:"max"`
}

func (m *merged) prefixLoads() *PrefixLoads {
	t := m.prefix
	if t == nil {
		return nil
	}
	p := &PrefixLoads{Requests: int64(t.requests), Loads: int64(t.loads), Blocks: int64(t.blocks), Loaded: int64(t.loaded),
		Tokens: int64(t.tokens), Bytes: int64(t.bytes), LatNS: m.latency(&t.lat, true)}
	if t.tokens > 0 {
		p.NSPerToken = decimal(float64(t.timeNS) / float64(t.tokens))
	}
	if s := t.ratio.Snapshot(); s.Count > 0 {
		ratio := func(millionths int64) Decimal { return Decimal(float64(millionths) / fio.Parity) }
		p.Compared = &Compared{int64(s.Count), int64(t.faster), Decimal(float64(t.faster) / float64(s.Count)),
			ratio(s.PercentileNS(50)), ratio(s.PercentileNS(99)), ratio(s.MaxNS)}
	}
	return p
}

func (p *PrefixLoads) text(b *bytes.Buffer) {
	if p == nil {
		return
	}
	fmt.Fprintf(b, "     prefix loads: %d of %d requests, %d of %d blocks\n", p.Loads, p.Requests, p.Loaded, p.Blocks)
	if p.NSPerToken != nil {
		p.LatNS.text(b, "prefix load")
		fmt.Fprintf(b, "     loading took %s a token: it pays where computing one takes longer\n", fio.FormatNS(int64(*p.NSPerToken)))
	}
	if c := p.Compared; c != nil {
		fmt.Fprintf(b, "     load time over compute time: P50=%.3g, P99=%.3g, max=%.3g; %d of %d loads were faster than computing\n", c.P50, c.P99, c.Max, c.Faster, c.Loads)
	}
}

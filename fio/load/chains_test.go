package load

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// listFeed gives requests already made, and remembers their ends.
type listFeed struct {
	requests []Request
	given    int
	endNS    map[int]int64
}

func (f *listFeed) NextRequest(_ int64, r *Request) Answer {
	if f.given == len(f.requests) {
		return End
	}
	blocks := append(r.Blocks, f.requests[f.given].Blocks...)
	*r = f.requests[f.given]
	r.Blocks, r.Session = blocks, f.given
	f.given++
	return Ready
}

func (f *listFeed) EndRequest(session int, endNS int64) {
	if _, twice := f.endNS[session]; twice {
		panic(fmt.Sprint("request ended twice: ", session))
	}
	f.endNS[session] = endNS
}

func (f *listFeed) Err() error { return nil }

// TestOneRequest follows one request through: what is there is read from the
// root, the rest is put from the tail.
func TestOneRequest(t *testing.T) {
	held := cache{{0, 10}: true, {0, 11}: true, {0, 13}: true}
	feed := &listFeed{endNS: map[int]int64{}, requests: []Request{
		{StartNS: 1000, InputTokens: 70, OutputTokens: 3, Blocks: []uint64{10, 11, 12, 13, 14}},
	}}
	var loads []Load
	s := NewChains(feed, ChainConfig{
		BlockBytes: 4096, TokensPerBlock: 16, PrefillNS: 10, DecodeNS: 100, OnLoad: func(l *Load) { loads = append(loads, *l) },
	})
	p := player{depth: 1, latencyNS: always(7), outcome: held.outcome}
	var got []string
	for _, op := range p.play(t, s) {
		got = append(got, fmt.Sprintf("%v %d at %d for %d", op.Kind, op.Block, op.beganNS, op.IntendedNS))
		if op.Offset != Anywhere || op.Bytes != 4096 || op.FillOnMiss {
			t.Errorf("%+v", op.Op)
		}
	}
	// Block 14 is partial. Loaded at 1021; 38 tokens are computed in 380 ns.
	want := []string{"read 10 at 1000 for 1000", "read 11 at 1007 for -1", "read 12 at 1014 for -1", "write 13 at 1401 for -1", "write 12 at 1408 for -1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nnot %q", got, want)
	}
	wantLoad := Load{Blocks: 4, Loaded: 2, Prefix: []uint64{10, 11}, BlockBytes: 4096, LoadedBytes: 8192, LoadedTokens: 32, InputTokens: 70, StartNS: 1000, EndNS: 1014}
	if len(loads) != 1 || !reflect.DeepEqual(loads[0], wantLoad) {
		t.Errorf("%+v\nnot %+v", loads, wantLoad)
	}
	if feed.endNS[0] != 1401+300 {
		t.Errorf("the request ended at %d", feed.endNS[0])
	}
}

// TestChainsAnyOrder: whatever ends when, and whatever is there, each request reads
// a prefix of its chain and at most what was in flight beyond, puts exactly the
// rest, reports its prefix, and ends once, after its last op.
func TestChainsAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		feed := &listFeed{endNS: map[int]int64{}}
		total, at := 0, int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			r := Request{StartNS: AtOnce, Mode: Mode(rapid.IntRange(0, 2).Draw(t, "mode"))}
			if rapid.Bool().Draw(t, "scheduled") {
				at += rapid.Int64Range(0, 500).Draw(t, "gap")
				r.StartNS = at
			}
			for range rapid.IntRange(0, 12).Draw(t, "blocks") {
				r.Blocks = append(r.Blocks, uint64(total))
				total++
			}
			feed.requests = append(feed.requests, r)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		loads, active := 0, 0
		depth, bound := rapid.IntRange(1, 16).Draw(t, "depth"), rapid.IntRange(1, 8).Draw(t, "bound")
		s := NewChains(feed, ChainConfig{BlockBytes: 1, RequestsMax: bound, OnLoad: func(l *Load) { loads++ }})
		there := func(op *Op) bool { return mix64(seed^op.Block)%4 > 0 }
		p := player{depth: depth, latencyNS: func(op *Op) int64 { return int64(mix64(seed+op.Block)%300) + 1 },
			outcome: func(op *Op) Outcome {
				active = max(active, len(s.active))
				if op.Kind == Read && !there(op) {
					return Miss
				}
				return OK
			}}
		reads, writes := map[uint64]played{}, map[uint64]played{}
		for _, op := range p.play(t, s) {
			into := reads
			if op.Kind == Write {
				into = writes
			}
			if _, twice := into[op.Block]; twice {
				t.Fatalf("%v of block %d twice", op.Kind, op.Block)
			}
			into[op.Block] = op
		}
		if active > bound {
			t.Fatalf("%d requests under way, not %d", active, bound)
		}
		wantLoads := 0
		for i, r := range feed.requests {
			checkRequest(t, r, reads, writes, feed.endNS[i], there)
			if r.Mode != PutOnly {
				wantLoads++
			}
		}
		if loads != wantLoads || len(feed.endNS) != len(feed.requests) {
			t.Fatalf("%d loads of %d, %d ends of %d", loads, wantLoads, len(feed.endNS), len(feed.requests))
		}
	})
}

func checkRequest(t *rapid.T, r Request, reads, writes map[uint64]played, endNS int64, there func(*Op) bool) {
	n, prefix, lastRead := len(r.Blocks), 0, -1
	for prefix < n && there(&Op{Block: r.Blocks[prefix]}) {
		prefix++
	}
	if r.Mode == PutOnly {
		prefix = 0
	}
	lastNS := int64(0)
	for d, b := range r.Blocks {
		read, wasRead := reads[b]
		write, wasPut := writes[b]
		if wasRead {
			lastRead = d
			if d > prefix && read.beganNS > reads[r.Blocks[prefix]].endNS {
				t.Fatalf("block %d was read after block %d had been missed", d, prefix)
			}
			lastNS = max(lastNS, read.endNS)
		}
		if mustRead := r.Mode != PutOnly && d <= min(prefix, n-1); mustRead && !wasRead {
			t.Fatalf("block %d of %d was not read, the prefix being %d", d, n, prefix)
		}
		if mustPut := r.Mode != LoadOnly && d >= prefix; wasPut != mustPut {
			t.Fatalf("block %d of %d, prefix %d, mode %d: put %v", d, n, prefix, r.Mode, wasPut)
		}
		if wasPut && r.Mode == LoadThenPut && reads[r.Blocks[min(prefix, n-1)]].endNS > write.beganNS {
			t.Fatalf("block %d was put before the load had ended", d)
		}
		if r.StartNS != AtOnce && (wasRead && read.beganNS < r.StartNS || wasPut && write.beganNS < r.StartNS) {
			t.Fatalf("block %d began before %d", d, r.StartNS)
		}
		lastNS = max(lastNS, write.endNS)
	}
	if r.Mode == PutOnly && lastRead >= 0 {
		t.Fatalf("a put reads depth %d", lastRead)
	}
	if n > 0 && endNS != lastNS {
		t.Fatalf("request ended at %d, its last op at %d", endNS, lastNS)
	}
}

// TestLoadsBeforePuts: a load that is due does not wait for the puts of an
// earlier request; one without a start waits for them.
func TestLoadsBeforePuts(t *testing.T) {
	order := func(secondNS int64) (kinds []string) {
		feed := &listFeed{endNS: map[int]int64{}, requests: []Request{
			{Mode: PutOnly, StartNS: 0, Blocks: []uint64{1, 2, 3, 4}}, {StartNS: secondNS, Blocks: []uint64{9}},
		}}
		p := player{depth: 1, latencyNS: always(10), outcome: cache{{0, 9}: true}.outcome}
		for _, op := range p.play(t, NewChains(feed, ChainConfig{BlockBytes: 1})) {
			kinds = append(kinds, op.Kind.String())
		}
		return kinds
	}
	if got := order(15); !slices.Equal(got, []string{"write", "write", "read", "write", "write"}) {
		t.Errorf("with a start: %v", got)
	}
	if got := order(AtOnce); !slices.Equal(got, []string{"write", "write", "write", "write", "read"}) {
		t.Errorf("without one: %v", got)
	}
}

// TestSlots: on a target without keys a chain is loaded as far as its blocks were
// put and not written over since.
func TestSlots(t *testing.T) {
	feed := &listFeed{endNS: map[int]int64{}}
	for _, blocks := range [][]uint64{{1, 2, 3}, {1, 2, 3, 4}, {12}, {1, 2, 3}} { // 12 lies where 2 does
		feed.requests = append(feed.requests, Request{StartNS: AtOnce, Blocks: blocks})
	}
	var loaded []int
	s := NewChains(feed, ChainConfig{BlockBytes: 1, Slots: 10, OnLoad: func(l *Load) { loaded = append(loaded, l.Loaded) }})
	p := player{depth: 1, latencyNS: always(10)}
	puts := count(p.play(t, s), Write, OK)
	if want := []int{0, 3, 0, 1}; !slices.Equal(loaded, want) || puts != 3+1+1+2 {
		t.Errorf("loaded %v, not %v; %d puts", loaded, want, puts)
	}
}

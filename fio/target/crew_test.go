package target

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
)

// TestCalls: neighbours of a chain are one call, root first; all else has a call of its
// own. A call's I/Os end in a row, the last of them saying so.
func TestCalls(t *testing.T) {
	var ended []string
	var calls []string
	c := newCrew(1, false, func(call []*IO) {
		var depths []string
		for _, io := range call {
			depths = append(depths, fmt.Sprint(io.Depth))
		}
		calls = append(calls, strings.Join(depths, " "))
		endCall(call, time.Now())
	})
	var ios []*IO
	add := func(kind load.Kind, chain uint32, depths ...uint32) {
		for _, depth := range depths {
			ios = append(ios, &IO{Op: load.Op{Kind: kind, Chain: chain, Depth: depth, Bytes: 1}, ended: func(io *IO) {
				ended = append(ended, fmt.Sprint(io.Depth, io.More))
			}})
		}
	}
	add(load.Read, 0, 0, 1)
	add(load.Read, 1, 0, 1, 2, 4)
	add(load.Read, 2, 5)
	add(load.Write, 2, 9, 8, 7)
	add(load.Write, 3, 6)
	c.submit(ios)
	c.submit(nil)
	if want := []string{"0", "1", "0 1 2", "4", "5", "7 8 9", "6"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	if want := []string{"0 false", "1 false", "2 true", "1 true", "0 false", "4 false", "5 false", "9 true", "8 true", "7 false", "6 false"}; !slices.Equal(ended, want) {
		t.Errorf("ended %q, want %q", ended, want)
	}
}

// TestChainOnStore: a chain is put and loaded in one call each, putting it again finds
// it present.
func TestChainOnStore(t *testing.T) {
	const blocks = 8
	j := aJob(job.EngineStore, t.TempDir())
	j.IODepth = blocks
	target, err := open(t, j, Options{})
	if err != nil {
		t.Fatal(err)
	}
	lane, err := target.Lane(0)
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	ended := make(chan *IO, blocks)
	var ios []*IO
	for range blocks {
		io, err := lane.NewIO(blockBytes, func(io *IO) { ended <- io })
		if err != nil {
			t.Fatal(err)
		}
		ios = append(ios, io)
	}
	// all does one request's ops of a kind and returns how they ended.
	all := func(kind load.Kind) (outcomes []load.Outcome) {
		for i, io := range ios {
			depth := i
			if kind == load.Write {
				depth = blocks - 1 - i
			}
			io.Op = load.Op{Kind: kind, Chain: 1, Block: uint64(100 + depth), Depth: uint32(depth), Offset: load.Anywhere}
			io.SetBytes(blockBytes)
			io.Data[0] = byte(depth)
			if kind == load.Read {
				clear(io.Data)
			}
		}
		lane.Submit(slices.Clone(ios))
		for range blocks {
			io := <-ended
			outcomes = append(outcomes, io.Outcome)
			if io.Outcome == load.OK && (io.Data[0] != byte(io.Depth) || io.StartedAt.IsZero()) {
				t.Errorf("%v at depth %d: byte %d, started %v", kind, io.Depth, io.Data[0], io.StartedAt)
			}
		}
		return outcomes
	}
	for _, step := range []struct {
		kind load.Kind
		want load.Outcome
	}{{load.Read, load.Miss}, {load.Write, load.OK}, {load.Read, load.OK}, {load.Write, load.Present}} {
		if got := all(step.kind); !slices.Equal(got, slices.Repeat([]load.Outcome{step.want}, blocks)) {
			t.Fatalf("%v: %v, want %v", step.kind, got, step.want)
		}
	}
	var prefix []uint64
	for i := range uint64(blocks) {
		prefix = append(prefix, 100+i)
	}
	lane.(Toucher).Touch(0, blockBytes, prefix)
}

// TestTailFirst: a long prefix is touched in several calls from its tail, each root
// first, so that its root ends up youngest.
func TestTailFirst(t *testing.T) {
	var blocks []uint64
	for i := range uint64(2*touchMax + 3) {
		blocks = append(blocks, i)
	}
	var k touched
	var got [][2]string // first and last of each call
	k.tailFirst(blocks, func(keys [][]byte) {
		got = append(got, [2]string{string(keys[0]), string(keys[len(keys)-1])})
	})
	key := func(n uint64) string {
		var k blockKey
		return string(k.of(n, 0))
	}
	want := [][2]string{{key(touchMax + 3), key(2*touchMax + 2)}, {key(3), key(touchMax + 2)}, {key(0), key(2)}}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestScrub: a pass finds every damaged block and no other, keeps to its rate,
// and the damage is a miss afterwards.
func TestScrub(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		odd := namespace(t, s, "odd", 5000)
		blocks := sequence(0, 100)
		all(t, put(t, ns, engine.PutOptions{}, blocks...), engine.Stored)
		all(t, put(t, odd, engine.PutOptions{}, 1, 2, 3), engine.Stored)
		for n, p := range places(t, ns, 7, 70) {
			name, offset := at(p, 4096)
			must(t, r.disk.FlipBit(name, offset+int64(n), 3))
		}
		began := time.Now()
		calls := 0
		report, err := s.Scrub(context.Background(), 100*4096, func(engine.ScrubReport) { calls++ })
		must(t, err)
		want := engine.ScrubReport{Blocks: 103, Bytes: 98*4096 + 3*5000, Bad: 2, Total: 103}
		if report != want || calls == 0 {
			t.Fatalf("%+v, want %+v (%d calls)", report, want, calls)
		}
		if d := time.Since(began); d < 900*time.Millisecond || d > 2*time.Second {
			t.Fatalf("100 blocks at 100 blocks a second took %v", d)
		}
		all(t, get(t, ns, 7, 70), engine.Miss)
		all(t, get(t, ns, 6, 71), engine.Hit)
		if c := s.Stat().Counters; c.TornBlocks != 2 {
			t.Fatalf("%d torn", c.TornBlocks)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.Scrub(ctx, 1, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		mustClose(t, s)
	})
}

// TestScrubInBackground: the scrubber of an open store finds damage by itself
// and ends with the store.
func TestScrubInBackground(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{ScrubBytesPerSecond: 1 << 20}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 20)...), engine.Stored)
		name, offset := at(places(t, ns, 5)[5], 4096)
		must(t, r.disk.FlipBit(name, offset, 0))
		time.Sleep(3 * time.Hour)
		if c := s.Stat().Counters; c.TornBlocks != 1 {
			t.Fatalf("%d torn after three hours", c.TornBlocks)
		}
		mustClose(t, s)
	})
}

// TestCloseEndsScrub: a scrub that waits for its pace does not hold up Close, and
// does not say that it has seen everything.
func TestCloseEndsScrub(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 20)...), engine.Stored)
		ended := make(chan error)
		go func() {
			_, err := s.Scrub(context.Background(), 1, nil)
			ended <- err
		}()
		time.Sleep(time.Second)
		began := time.Now()
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		wantErr(t, <-ended, engine.ErrClosed)
		must(t, <-closed)
		if took := time.Since(began); took > time.Second {
			t.Fatalf("closing took %v", took)
		}
	})
}

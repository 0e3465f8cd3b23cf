package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/tiering/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// requests is a trace in memory.
type requests []trace.Request

func (r *requests) Next() (trace.Request, error) {
	if len(*r) == 0 {
		return trace.Request{}, io.EOF
	}
	q := (*r)[0]
	*r = (*r)[1:]
	return q, nil
}

// onStore runs work on a new store in memory.
func onStore(t *testing.T, capacityBytes int64, blockBytes int, work func(*engine.Store, *engine.Namespace)) {
	t.Helper()
	session, err := sim.NewDisk(sim.Config{Seed: 1}).Open()
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Open(engine.Options{Dir: "sim", CapacityBytes: capacityBytes, Device: session, IndexFS: vfs.NewMem(),
		Policy: evict.NewLRU}) // which does not ask for the time
	if err != nil {
		t.Fatal(err)
	}
	ns, err := s.Namespace(Descriptor(blockBytes))
	if err != nil {
		t.Fatal(err)
	}
	work(s, ns)
	if err := s.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
		t.Fatal(err)
	}
}

// TestRunInParts: a chain that is longer than the buffers is read and put in
// parts, with the same hits, writes and evictions.
func TestRunInParts(t *testing.T) {
	const blockBytes = 16 << 10
	results := map[int]string{}
	for _, bufferBlocks := range []int{1, 3, 1000} {
		onStore(t, 40<<20, blockBytes, func(s *engine.Store, ns *engine.Namespace) {
			src := trace.NewGenerator(trace.Config{Seed: 4, Requests: 150})
			r, err := Run(t.Context(), s, ns, src, Config{BufferBytes: bufferBlocks * blockBytes})
			if err != nil {
				t.Fatal(err)
			}
			if r.Damaged() || r.MissedAfterMatch > 0 || r.Dropped > 0 || r.Reads != r.Hits || r.PrefixHits != r.Hits ||
				r.Writes+r.Present != r.BlockRefs || r.Evicted == 0 || r.Latency.Snapshot().Count != r.Reads {
				t.Errorf("parts of %d: hits %d prefix %d reads %d writes %d present %d refs %d evicted %d dropped %d (%v) missed %d (%v)", bufferBlocks,
					r.Hits, r.PrefixHits, r.Reads, r.Writes, r.Present, r.BlockRefs, r.Evicted, r.Dropped, r.DropCause, r.MissedAfterMatch, r.MissCause)
			}
			results[bufferBlocks] = fmt.Sprint(r.Requests, r.BlockRefs, r.Hits, r.Writes, r.Slots)
		})
	}
	if results[1] != results[1000] || results[3] != results[1000] {
		t.Errorf("parts change the result: %v", results)
	}
}

// TestRunKeepsTime: timed requests start when they are due, N times as fast as
// recorded, and the lag says how late the latest one was.
func TestRunKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		onStore(t, 96<<20, 4096, func(s *engine.Store, ns *engine.Namespace) {
			src := &requests{{TimestampMS: 0, HashIDs: []uint64{1}}, {TimestampMS: 30_000, HashIDs: []uint64{1}}, {TimestampMS: 60_000}}
			began := time.Now()
			slow := true
			r, err := Run(t.Context(), s, ns, src, Config{Speed: 2, Progress: func(*Result) {
				if slow { // the second request is due at 15 s
					time.Sleep(18 * time.Second)
				}
				slow = false
			}})
			if err != nil || r.Requests != 3 || r.TraceMS != 60_000 {
				t.Fatalf("%d requests to %d ms, error %v", r.Requests, r.TraceMS, err)
			}
			if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
				t.Errorf("60 s of trace at twice its speed took %v", took)
			}
			if lag := time.Duration(r.LagMaxNS); lag < 3*time.Second || lag > 4*time.Second {
				t.Errorf("lag %v, want 3 s", lag)
			}
		})
	})
}

// TestRunStopsWhileWaiting: neither the end of the context nor that of the time
// waits for a request that is due later.
func TestRunStopsWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		onStore(t, 96<<20, 4096, func(s *engine.Store, ns *engine.Namespace) {
			hour := func() *requests { return &requests{{TimestampMS: 3_600_000, HashIDs: []uint64{1}}} }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := Run(ctx, s, ns, hour(), Config{Speed: 1})
			if !errors.Is(err, ErrInterrupted) || r.Requests != 0 || r.ElapsedNS > (2*time.Minute).Nanoseconds() {
				t.Errorf("%d requests, %d writes in %d ns, error %v", r.Requests, r.Writes, r.ElapsedNS, err)
			}
			r, err = Run(t.Context(), s, ns, hour(), Config{Speed: 1, For: time.Minute})
			if err != nil || r.Requests != 0 || r.ElapsedNS > (2*time.Minute).Nanoseconds() {
				t.Errorf("%d requests, %d writes in %d ns, error %v", r.Requests, r.Writes, r.ElapsedNS, err)
			}
		})
	})
}

// TestRunErrors: an error of the trace or of the store ends the run, with the
// result so far.
func TestRunErrors(t *testing.T) {
	onStore(t, 96<<20, 4096, func(s *engine.Store, ns *engine.Namespace) {
		broken := errors.New("broken trace")
		src := &failing{requests{{HashIDs: []uint64{1, 2}}}, broken}
		if r, err := Run(t.Context(), s, ns, src, Config{}); !errors.Is(err, broken) || r.Requests != 1 || r.Writes != 2 {
			t.Errorf("%d requests, %d writes in %d ns, error %v", r.Requests, r.Writes, r.ElapsedNS, err)
		}
	})
	closed := func(s *engine.Store, ns *engine.Namespace) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), s, ns, &requests{{HashIDs: []uint64{1}}}, Config{})
		if !errors.Is(err, engine.ErrClosed) || r.Requests != 0 {
			t.Errorf("closed store: error %v", err)
		}
	}
	onStore(t, 96<<20, 4096, closed)
}

type failing struct {
	requests
	err error
}

func (f *failing) Next() (trace.Request, error) {
	q, err := f.requests.Next()
	if err == io.EOF {
		err = f.err
	}
	return q, err
}

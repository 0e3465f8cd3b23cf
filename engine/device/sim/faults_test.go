package sim_test

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// faulty is a disk whose files "seg" (all 1) and "log" (all 2) were written
// and synced before the plan, which aims at "seg" only, was set.
type faulty struct {
	*testing.T
	d        *sim.Disk
	s        device.Device
	seg, log device.File
}

const fileBytes = 32 << 10

func newFaulty(t *testing.T, seed uint64, plan sim.Plan) *faulty {
	t.Helper()
	d := sim.NewDisk(sim.Config{Seed: seed})
	r := &faulty{T: t, d: d, s: open(t, d)}
	r.seg, r.log = create(t, r.s, "seg", fileBytes), create(t, r.s, "log", fileBytes)
	mustDo(t, r.s, writeOp(r.seg, 0, filled(fileBytes, 1)), writeOp(r.log, 0, filled(fileBytes, 2)), syncOp(r.seg), syncOp(r.log))
	must(t, r.s.SyncDir())
	plan.Filter = func(name string) bool { return name == "seg" }
	d.SetFaults(plan)
	return r
}

func (r *faulty) close() {
	r.Helper()
	r.d.SetFaults(sim.Plan{})
	closeAll(r, r.seg, r.log, r.s)
}

func (r *faulty) wantCounts(want sim.Counts) {
	r.Helper()
	if got := r.d.Injected(); got != want {
		r.Errorf("counts %+v, want %+v", got, want)
	}
}

// changed counts the bytes of a file that are not v.
func (r *faulty) changed(name string, v byte) int {
	b := mustBytes(r, r.d, name)
	return len(b) - bytes.Count(b, []byte{v})
}

func TestReadStopsEarly(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   sim.Plan
		cause  error
		counts func(n uint64) sim.Counts
	}{
		{"ReadEIO", sim.Plan{ReadEIO: 1}, syscall.EIO, func(n uint64) sim.Counts { return sim.Counts{ReadEIO: n} }},
		{"TruncatedRead", sim.Plan{TruncatedRead: 1}, io.ErrUnexpectedEOF, func(n uint64) sim.Counts { return sim.Counts{TruncatedRead: n} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFaulty(t, 1, c.plan)
			lengths := map[int]bool{}
			for range 50 {
				a, b := filled(4096, 9), filled(4096, 9)
				op := readOp(r.seg, 0, a, b)
				err := device.Do(r.s, op)
				if !errors.Is(err, c.cause) || op.N >= 8192 || op.N%512 != 0 {
					t.Fatalf("N = %d, err %v", op.N, err)
				}
				got := append(append([]byte{}, a...), b...)
				want := append(bytes.Repeat([]byte{1}, op.N), bytes.Repeat([]byte{9}, 8192-op.N)...)
				if !bytes.Equal(got, want) {
					t.Fatalf("N = %d, but other bytes were filled", op.N)
				}
				lengths[op.N] = true
			}
			if len(lengths) < 5 {
				t.Errorf("only lengths %v", lengths)
			}
			r.wantCounts(c.counts(50))
			mustDo(t, r.s, readOp(r.log, 0, filled(4096, 0))) // not aimed at
			r.close()
		})
	}
}

func TestWriteEIO(t *testing.T) {
	r := newFaulty(t, 1, sim.Plan{WriteEIO: 1})
	lengths := map[int]bool{}
	for i := range 30 {
		op := writeOp(r.seg, 0, filled(8192, byte(10+i)))
		if err := device.Do(r.s, op); !errors.Is(err, syscall.EIO) || op.N >= 8192 {
			t.Fatalf("N = %d, err %v", op.N, err)
		}
		if got := bytes.Count(mustBytes(t, r.d, "seg"), []byte{byte(10 + i)}); got != op.N {
			t.Fatalf("N = %d, but %d bytes landed", op.N, got)
		}
		lengths[op.N] = true
	}
	if len(lengths) < 5 {
		t.Errorf("only lengths %v", lengths)
	}
	punch := &device.Op{Kind: device.Punch, File: r.seg, Offset: 0, LengthBytes: fileBytes}
	before := mustBytes(t, r.d, "seg")
	if err := device.Do(r.s, punch); !errors.Is(err, syscall.EIO) {
		t.Errorf("punch: %v", err)
	}
	if !bytes.Equal(before, mustBytes(t, r.d, "seg")) {
		t.Error("a failed punch changed the file")
	}
	r.wantCounts(sim.Counts{WriteEIO: 31})
	r.close()
}

// TestSyncEIO: after a failed sync the data is as it was, lost or torn, at
// once; a later successful sync does not tell.
func TestSyncEIO(t *testing.T) {
	wantFates(t, fates(60, func(seed uint64) string {
		r := newFaulty(t, seed, sim.Plan{SyncEIO: 1})
		mustDo(t, r.s, writeOp(r.seg, 0, filled(fileBytes, 5)))
		if err := device.Do(r.s, syncOp(r.seg)); !errors.Is(err, syscall.EIO) {
			t.Fatalf("sync: %v", err)
		}
		r.wantCounts(sim.Counts{SyncEIO: 1})
		lostBytes := r.changed("seg", 5)
		r.d.SetFaults(sim.Plan{})
		mustDo(t, r.s, syncOp(r.seg))
		cut(t, r.d, r.s, r.seg, r.log)
		if got := r.changed("seg", 5); got != lostBytes {
			t.Fatalf("seed %d: %d bytes lost after a good sync and a power cut, %d before", seed, got, lostBytes)
		}
		switch lostBytes {
		case 0:
			return "kept"
		case fileBytes:
			return "lost"
		}
		return "torn"
	}), "kept", "lost", "torn")
}

// TestSyncEIOSparesLaterWrites: what a failed sync loses never takes along a
// write that it did not cover.
func TestSyncEIOSparesLaterWrites(t *testing.T) {
	lost := 0
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			d := sim.NewDisk(sim.Config{Seed: seed, MinLatency: time.Second, Faults: sim.Plan{SyncEIO: 1}})
			s := open(t, d)
			f := create(t, s, "f", 4096)
			mustDo(t, s, writeOp(f, 0, filled(4096, 1)))
			later, syncing := writeOp(f, 0, filled(2048, 2)), syncOp(f)
			done := make(chan struct{}, 2)
			later.Done = func(*device.Op) { done <- struct{}{} }
			syncing.Done = later.Done
			s.Submit([]*device.Op{later})
			time.Sleep(time.Second / 2)
			s.Submit([]*device.Op{syncing})
			<-done
			<-done
			b := mustBytes(t, d, "f")
			if !bytes.Equal(b[:2048], filled(2048, 2)) {
				t.Errorf("seed %d: the failed sync took a later write along", seed)
			}
			lost += bytes.Count(b[2048:], []byte{0})
			closeAll(t, f, s)
		})
	}
	if lost == 0 {
		t.Error("no failed sync lost anything")
	}
}

// TestSyncEIOKeepsUncertain: without a good sync what a failed one left may
// still go.
func TestSyncEIOKeepsUncertain(t *testing.T) {
	lostLater := 0
	for seed := range uint64(60) {
		r := newFaulty(t, seed, sim.Plan{SyncEIO: 1})
		mustDo(t, r.s, writeOp(r.seg, 0, filled(fileBytes, 5)))
		_ = device.Do(r.s, syncOp(r.seg))
		before := r.changed("seg", 5)
		cut(t, r.d, r.s, r.seg, r.log)
		if before == 0 && r.changed("seg", 5) > 0 {
			lostLater++
		}
	}
	if lostLater == 0 {
		t.Error("a failed sync made data durable in all of 60 seeds")
	}
}

func TestMetaEIO(t *testing.T) {
	r := newFaulty(t, 1, sim.Plan{})
	r.d.SetFaults(sim.Plan{MetaEIO: 1})
	calls := deadCalls(r.s, r.seg)
	delete(calls, "Space")
	for what, err := range calls {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.wantCounts(sim.Counts{MetaEIO: uint64(len(calls))})
	if names := r.d.Names(); len(names) != 2 {
		t.Errorf("failed calls left %q", names)
	}
	r.close()
}

// TestShortMovesAreContinued: the op ends whole, and others came between.
func TestShortMovesAreContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sim.NewDisk(sim.Config{Seed: 1, MinLatency: time.Second, Faults: sim.Plan{ShortRead: 1, ShortWrite: 1}})
		s := open(t, d)
		f := create(t, s, "f", 8192)
		op := writeOp(f, 0, filled(4096, 1), filled(4096, 1))
		ended := make(chan struct{})
		op.Done = func(*device.Op) { close(ended) }
		s.Submit([]*device.Op{op})
		time.Sleep(1500 * time.Millisecond)
		if n := bytes.Count(mustBytes(t, d, "f"), []byte{1}); n == 0 || n == 8192 {
			t.Errorf("half-way %d bytes had landed", n)
		}
		<-ended
		if op.N != 8192 || op.Err != nil || op.DoneAt.Sub(op.StartedAt) != 2*time.Second {
			t.Errorf("write: N = %d, err %v after %v", op.N, op.Err, op.DoneAt.Sub(op.StartedAt))
		}
		a, b := filled(512, 0), filled(7680, 0)
		mustDo(t, s, readOp(f, 0, a, b))
		if !bytes.Equal(a, filled(512, 1)) || !bytes.Equal(b, filled(7680, 1)) {
			t.Error("a continued read has other bytes")
		}
		if got := d.Injected(); got != (sim.Counts{ShortRead: 1, ShortWrite: 1}) {
			t.Errorf("counts %+v", got)
		}
		closeAll(t, f, s)
	})
}

func TestLostWrite(t *testing.T) {
	r := newFaulty(t, 1, sim.Plan{LostWrite: 1})
	op := writeOp(r.seg, 0, filled(8192, 5))
	mustDo(t, r.s, op, syncOp(r.seg), writeOp(r.log, 0, filled(8192, 5)))
	if op.N != 8192 || r.changed("seg", 1) != 0 || r.changed("log", 2) != 8192 {
		t.Errorf("N = %d, %d bytes of seg and %d of log changed", op.N, r.changed("seg", 1), r.changed("log", 2))
	}
	r.wantCounts(sim.Counts{LostWrite: 1})
	r.close()
}

func TestTornWrite(t *testing.T) {
	r := newFaulty(t, 1, sim.Plan{TornWrite: 1})
	for i := range 50 {
		v := byte(10 + i)
		mustDo(t, r.s, writeOp(r.seg, 4096, filled(512, v), filled(7680, v)), syncOp(r.seg))
		b := mustBytes(t, r.d, "seg")
		if n := bytes.Count(b, []byte{v}); n == 0 || n == 8192 || n%512 != 0 {
			t.Fatalf("%d bytes landed", n)
		}
		if bytes.Contains(b[:4096], []byte{v}) || bytes.Contains(b[4096+8192:], []byte{v}) {
			t.Fatal("bytes landed outside of the write")
		}
	}
	mustDo(t, r.s, writeOp(r.seg, 0, filled(512, 99))) // one sector cannot tear
	if n := bytes.Count(mustBytes(t, r.d, "seg"), []byte{99}); n != 512 {
		t.Errorf("%d bytes of a one-sector write landed", n)
	}
	r.wantCounts(sim.Counts{TornWrite: 50})
	r.close()
}

// TestMisdirectedWrite: never where it should, always whole and aligned, in
// the same file or another that the filter names.
func TestMisdirectedWrite(t *testing.T) {
	files := map[string]int{}
	places := map[int]bool{}
	for seed := range uint64(100) {
		r := newFaulty(t, seed, sim.Plan{})
		r.d.SetFaults(sim.Plan{MisdirectedWrite: 1, Filter: func(name string) bool { return seed%2 == 0 || name == "seg" }})
		op := writeOp(r.seg, 4096, filled(4096, 5))
		mustDo(t, r.s, op)
		landed := 0
		for _, name := range r.d.Names() {
			b := mustBytes(t, r.d, name)
			at := bytes.IndexByte(b, 5)
			if at < 0 {
				continue
			}
			landed += bytes.Count(b, []byte{5})
			files[name]++
			places[at] = true
			if name == "seg" && at == 4096 || at%512 != 0 || name == "log" && seed%2 == 1 {
				t.Fatalf("seed %d: landed in %s at %d", seed, name, at)
			}
		}
		if op.N != 4096 || landed != 4096 {
			t.Fatalf("seed %d: N = %d, %d bytes landed", seed, op.N, landed)
		}
		r.wantCounts(sim.Counts{MisdirectedWrite: 1})
		r.close()
	}
	if files["seg"] == 0 || files["log"] == 0 || len(places) < 10 {
		t.Errorf("landed in %v, at %d places", files, len(places))
	}

	r := newFaulty(t, 1, sim.Plan{MisdirectedWrite: 1})
	mustDo(t, r.s, writeOp(r.seg, 0, filled(fileBytes, 5))) // there is no other place
	if r.changed("seg", 5) != 0 {
		t.Error("a write of the whole file went elsewhere")
	}
	r.wantCounts(sim.Counts{})
	r.close()
}

func TestBitRot(t *testing.T) {
	r := newFaulty(t, 1, sim.Plan{BitRot: 1})
	dst := filled(4096, 0)
	mustDo(t, r.s, readOp(r.seg, 8192, dst))
	r.wantCounts(sim.Counts{BitRot: 1})
	r.d.SetFaults(sim.Plan{})
	flipped := 0
	for _, b := range dst {
		flipped += bits.OnesCount8(b ^ 1)
	}
	if flipped != 1 || r.changed("seg", 1) != 1 {
		t.Errorf("%d bits flipped in the buffer, %d bytes on the medium", flipped, r.changed("seg", 1))
	}
	again := filled(4096, 0)
	mustDo(t, r.s, readOp(r.seg, 8192, again))
	cut(t, r.d, r.s, r.seg, r.log)
	if !bytes.Equal(dst, again) || !bytes.Equal(dst, mustBytes(t, r.d, "seg")[8192:8192+4096]) {
		t.Error("the rot went away")
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sim.NewDisk(sim.Config{Seed: 1, MinLatency: time.Millisecond, Faults: sim.Plan{Delay: 1}})
		s := open(t, d)
		f := create(t, s, "f", 512)
		for _, c := range []struct{ by, want time.Duration }{{0, 2001 * time.Millisecond}, {time.Minute, time.Minute + time.Millisecond}} {
			d.SetFaults(sim.Plan{Delay: 1, DelayBy: c.by})
			op := readOp(f, 0, filled(512, 0))
			mustDo(t, s, op)
			if took := op.DoneAt.Sub(op.StartedAt); took != c.want {
				t.Errorf("DelayBy %v: took %v", c.by, took)
			}
		}
		if got := d.Injected(); got != (sim.Counts{Delay: 2}) {
			t.Errorf("counts %+v", got)
		}
		closeAll(t, f, s)
	})
}

// TestStuckOnce: one op hangs, the others pass, until the plan changes.
func TestStuckOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sim.NewDisk(sim.Config{Seed: 1, Faults: sim.Plan{StuckOnce: 1}})
		s := open(t, d)
		f := create(t, s, "f", 4096)
		var ended atomic.Int64
		ops := make([]*device.Op, 8)
		for i := range ops {
			ops[i] = writeOp(f, int64(i)*512, filled(512, 1))
			ops[i].Done = func(*device.Op) { ended.Add(1) }
		}
		s.Submit(ops)
		time.Sleep(time.Hour)
		if n := ended.Load(); n != 7 {
			t.Errorf("%d of 8 ops ended while one is stuck", n)
		}
		if got := d.Injected(); got != (sim.Counts{StuckOnce: 1}) {
			t.Errorf("counts %+v", got)
		}
		d.SetFaults(sim.Plan{})
		synctest.Wait()
		if ended.Load() != 8 || ops[0].Err != nil || ops[0].N != 512 {
			t.Errorf("%d of 8 ops ended; the stuck one: N = %d, err %v", ended.Load(), ops[0].N, ops[0].Err)
		}
		closeAll(t, f, s)
	})
}

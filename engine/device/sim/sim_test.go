package sim_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/devicetest"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, d *sim.Disk) device.Device {
	t.Helper()
	s, err := d.Open()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeAll(t testing.TB, closers ...interface{ Close() error }) {
	t.Helper()
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func create(t testing.TB, s device.Device, name string, size int64) device.File {
	t.Helper()
	f, err := s.Create(name, size)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func reopen(t testing.TB, s device.Device, name string) device.File {
	t.Helper()
	f, err := s.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// filled is an aligned buffer of n bytes, all v.
func filled(n int, v byte) []byte {
	b := device.AlignedBuffer(n, 4096)
	for i := range b {
		b[i] = v
	}
	return b
}

func writeOp(f device.File, offset int64, bufs ...[]byte) *device.Op {
	return &device.Op{Kind: device.Write, File: f, Offset: offset, Bufs: bufs}
}

func readOp(f device.File, offset int64, bufs ...[]byte) *device.Op {
	return &device.Op{Kind: device.Read, File: f, Offset: offset, Bufs: bufs}
}

func syncOp(f device.File) *device.Op { return &device.Op{Kind: device.Sync, File: f} }

func mustDo(t testing.TB, s device.Device, ops ...*device.Op) {
	t.Helper()
	for _, op := range ops {
		if err := device.Do(s, op); err != nil {
			t.Fatalf("kind %d at %d: %v", op.Kind, op.Offset, err)
		}
	}
}

func mustBytes(t testing.TB, d *sim.Disk, name string) []byte {
	t.Helper()
	b, err := d.Bytes(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]sim.Config{
		"Plain":      {},
		"Sector4096": {SectorBytes: 4096, MemAlignBytes: 4096},
		"Narrow":     {QueueDepth: 1, QueueOps: 8, CapacityBytes: 64 << 20, NoXattrs: true},
		"Rough": {MaxLatency: 200 * time.Microsecond,
			Faults: sim.Plan{ShortRead: 0.5, ShortWrite: 0.5, Delay: 0.1, DelayBy: time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				c.Seed = 7
				return open(t, sim.NewDisk(c))
			})
		})
	}
}

// TestVirtualTime: in a bubble hours of latency pass at once, measured times
// are the drawn ones, and nothing of the device outlives Close.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sim.NewDisk(sim.Config{Seed: 1, QueueDepth: 4, MinLatency: time.Hour, MaxLatency: 2 * time.Hour})
		s := open(t, d)
		f := create(t, s, "f", 1<<20)
		const n = 64
		var done atomic.Int64
		ops := make([]*device.Op, n)
		for i := range ops {
			ops[i] = writeOp(f, int64(i)*4096, filled(4096, byte(i+1)))
			ops[i].Done = func(op *device.Op) {
				if took := op.DoneAt.Sub(op.StartedAt); op.Err != nil || took < time.Hour || took > 2*time.Hour {
					t.Errorf("op at %d: took %v, err %v", op.Offset, took, op.Err)
				}
				done.Add(1)
			}
		}
		begin := time.Now()
		s.Submit(ops)
		if got := done.Load(); got != 0 {
			t.Errorf("%d ops ended without time passing", got)
		}
		closeAll(t, f, s)
		if took := time.Since(begin); took < n/4*time.Hour || took > n/4*2*time.Hour {
			t.Errorf("%d ops at depth 4 took %v", n, took)
		}
		if done.Load() != n {
			t.Errorf("%d of %d ops ended before Close", done.Load(), n)
		}
		for i, b := range mustBytes(t, d, "f") {
			if want := byte(i/4096 + 1); i < n*4096 && b != want {
				t.Fatalf("byte %d is %d, want %d", i, b, want)
			}
		}
	})
}

func TestOneSessionAtATime(t *testing.T) {
	d := sim.NewDisk(sim.Config{})
	s := open(t, d)
	if _, err := d.Open(); !errors.Is(err, sim.ErrInUse) {
		t.Errorf("second Open: %v", err)
	}
	closeAll(t, s)
	if err := s.Close(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	closeAll(t, open(t, d))
}

func TestFileLeftOpenIsReported(t *testing.T) {
	d := sim.NewDisk(sim.Config{})
	s := open(t, d)
	create(t, s, "left", 512)
	if err := s.Close(); err == nil {
		t.Error("Close with an open file: no error")
	}
	closeAll(t, open(t, d))
}

// TestMovesAtCompletion: what lands is the buffer as it is when the op ends.
func TestMovesAtCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sim.NewDisk(sim.Config{MinLatency: time.Second})
		s := open(t, d)
		f := create(t, s, "f", 4096)
		src := filled(4096, 1)
		ended := make(chan struct{})
		op := writeOp(f, 0, src)
		op.Done = func(*device.Op) { close(ended) }
		s.Submit([]*device.Op{op})
		time.Sleep(time.Second / 2)
		copy(src, filled(4096, 2))
		_ = d.Names() // passes the disk's lock, which orders the change before the transfer
		<-ended
		if got := mustBytes(t, d, "f"); !bytes.Equal(got, filled(4096, 2)) {
			t.Errorf("the medium holds %d, want the changed 2", got[0])
		}
		closeAll(t, f, s)
	})
}

// TestSameSeedSameOutcome: submissions in one order give one outcome.
func TestSameSeedSameOutcome(t *testing.T) {
	run := func(seed uint64) (content []byte, counts sim.Counts) {
		synctest.Test(t, func(t *testing.T) {
			d := sim.NewDisk(sim.Config{Seed: seed, MinLatency: time.Millisecond, MaxLatency: time.Second, Faults: sim.Plan{
				LostWrite: 0.1, TornWrite: 0.2, MisdirectedWrite: 0.1, WriteEIO: 0.1, ShortWrite: 0.1, SyncEIO: 0.3, Delay: 0.1}})
			s := open(t, d)
			f := create(t, s, "f", 1<<20)
			rnd := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				op := writeOp(f, rnd.Int64N(1<<20/4096-2)*4096, filled(8192, byte(rnd.IntN(256))))
				if rnd.IntN(10) == 0 {
					op = syncOp(f)
				}
				op.Done = func(*device.Op) {}
				s.Submit([]*device.Op{op})
				time.Sleep(time.Duration(rnd.IntN(int(50 * time.Millisecond))))
			}
			d.PowerCut()
			_ = f.Close()
			_ = s.Close()
			if slices.Contains(d.Names(), "f") {
				content = mustBytes(t, d, "f")
			}
			counts = d.Injected()
		})
		return content, counts
	}
	outcomes := map[string]bool{}
	for seed := range uint64(8) {
		first, firstCounts := run(seed)
		again, againCounts := run(seed)
		if !bytes.Equal(first, again) || firstCounts != againCounts {
			t.Errorf("seed %d gave two outcomes: %+v and %+v", seed, firstCounts, againCounts)
		}
		outcomes[string(first)] = true
	}
	if len(outcomes) < 3 {
		t.Errorf("8 seeds gave only %d outcomes", len(outcomes))
	}
}

func TestNoSpace(t *testing.T) {
	const capacity = 1 << 20
	d := sim.NewDisk(sim.Config{CapacityBytes: capacity})
	s := open(t, d)
	f := create(t, s, "f", capacity/2)
	_, err := s.Create("g", capacity/2+1)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create beyond the capacity: %v", err)
	}
	if err := s.WriteFile("w", make([]byte, capacity/2+1)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteFile beyond the capacity: %v", err)
	}
	if names := d.Names(); !slices.Equal(names, []string{"f"}) {
		t.Errorf("refused calls left %q", names)
	}
	g := create(t, s, "g", capacity/2)
	wantFree := func(what string, want int64) {
		t.Helper()
		if space, err := s.Space(); err != nil || space != (device.Space{TotalBytes: capacity, FreeBytes: want}) {
			t.Errorf("%s: Space = %+v, %v, want %d free", what, space, err, want)
		}
	}
	wantFree("full", 0)

	// A hole gives room back and needs it again.
	mustDo(t, s, writeOp(f, 0, filled(64<<10, 1)))
	mustDo(t, s, &device.Op{Kind: device.Punch, File: f, Offset: 0, LengthBytes: 64 << 10})
	wantFree("punched", 64<<10)
	must(t, s.WriteFile("w", make([]byte, 64<<10)))
	op := writeOp(f, 0, filled(4096, 1))
	if err := device.Do(s, op); !errors.Is(err, syscall.ENOSPC) || op.N != 0 {
		t.Errorf("write into a hole of a full disk: N = %d, %v", op.N, err)
	}
	must(t, s.Remove("w"))
	mustDo(t, s, writeOp(f, 0, filled(4096, 1)))

	// An open file keeps its room when its name goes.
	must(t, s.Remove("g"))
	wantFree("removed but open", 48<<10)
	closeAll(t, g)
	wantFree("removed", capacity/2+48<<10)
	closeAll(t, f, s)
}

func TestDamageByHand(t *testing.T) {
	d := sim.NewDisk(sim.Config{})
	s := open(t, d)
	f := create(t, s, "f", 8192)
	mustDo(t, s, writeOp(f, 0, filled(8192, 1)))
	must(t, d.FlipBit("f", 5000, 1))
	got := filled(8192, 0)
	mustDo(t, s, readOp(f, 0, got))
	want := filled(8192, 1)
	want[5000] = 3
	if !bytes.Equal(got, want) {
		t.Error("FlipBit did not flip exactly its bit")
	}
	must(t, d.Truncate("f", 4096))
	op := readOp(f, 0, filled(8192, 9))
	if err := device.Do(s, op); err == nil || op.N != 4096 || op.Bufs[0][4096] != 9 {
		t.Errorf("read of a cut file: N = %d, err %v, then %d", op.N, err, op.Bufs[0][4096])
	}
	must(t, d.Truncate("f", 8192))
	if b := mustBytes(t, d, "f"); !bytes.Equal(b[:4096], filled(4096, 1)) || !bytes.Equal(b[4096:], make([]byte, 4096)) {
		t.Error("a cut file made longer shows old bytes")
	}
	for what, err := range map[string]error{
		"FlipBit": d.FlipBit("no", 0, 0), "Truncate": d.Truncate("no", 0),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a missing file: %v", what, err)
		}
	}
	if d.FlipBit("f", 8192, 0) == nil || d.Truncate("f", -1) == nil {
		t.Error("damage outside of the file is accepted")
	}
	closeAll(t, f, s)
}

func TestClone(t *testing.T) {
	d := sim.NewDisk(sim.Config{Seed: 3})
	s := open(t, d)
	f := create(t, s, "f", 8192)
	must(t, s.SyncDir())
	mustDo(t, s, writeOp(f, 0, filled(4096, 1)), syncOp(f), writeOp(f, 4096, filled(4096, 2)))
	must(t, f.SetAttr("a", []byte("v")))

	c := d.Clone()
	cs := open(t, c) // though d is in use
	cf := reopen(t, cs, "f")
	mustDo(t, cs, writeOp(cf, 0, filled(4096, 7)))
	if v, err := cf.Attr("a"); err != nil || string(v) != "v" {
		t.Errorf("attribute of the copy: %q, %v", v, err)
	}
	must(t, cs.Remove("f"))
	closeAll(t, cf, cs)

	before := mustBytes(t, d, "f")
	outcomes := map[string]bool{}
	for seed := range uint64(64) {
		cut := d.Clone()
		cut.Reseed(seed)
		cut.PowerCut()
		b := mustBytes(t, cut, "f")
		if !bytes.Equal(b[:4096], filled(4096, 1)) {
			t.Fatalf("seed %d: a power cut of the copy lost synced bytes", seed)
		}
		outcomes[string(b)] = true
	}
	if len(outcomes) < 3 {
		t.Errorf("64 power cuts of a copy gave %d outcomes", len(outcomes))
	}
	if !bytes.Equal(before, mustBytes(t, d, "f")) || !bytes.Equal(before[4096:], filled(4096, 2)) {
		t.Error("changes of copies reached the original")
	}
	closeAll(t, f, s)
}

func TestNoAttributes(t *testing.T) {
	s := open(t, sim.NewDisk(sim.Config{NoXattrs: true}))
	f := create(t, s, "f", 0)
	if err := f.SetAttr("a", nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SetAttr: %v", err)
	}
	closeAll(t, f, s)
}

func TestBadConfigPanics(t *testing.T) {
	for _, c := range []sim.Config{
		{SectorBytes: 500}, {SectorBytes: 4096, OffsetAlignBytes: 512}, {QueueDepth: -1},
		{QueueDepth: 8, QueueOps: 4}, {CapacityBytes: -1}, {SectorBytes: 1 << 20},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was accepted", c)
				}
			}()
			sim.NewDisk(c)
		}()
	}
}

func BenchmarkOps(b *testing.B) {
	for name, n := range map[string]int{"4KiB": 4096, "64KiB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			s := open(b, sim.NewDisk(sim.Config{}))
			f := create(b, s, "f", 64<<20)
			buf := filled(n, 1)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			var wg sync.WaitGroup
			for i := range b.N {
				op := writeOp(f, int64(i*n)%(64<<20), buf)
				if i%2 == 1 {
					op.Kind, op.Bufs = device.Read, [][]byte{filled(n, 0)}
				}
				wg.Add(1)
				op.Done = func(*device.Op) { wg.Done() }
				s.Submit([]*device.Op{op})
				if i%16 == 15 {
					wg.Wait()
				}
			}
			wg.Wait()
			closeAll(b, f, s)
		})
	}
}

package engine_test

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestBadCallerMemory: memory of a caller that cannot be written to costs its
// caller a miss, and nobody else anything.
func TestBadCallerMemory(t *testing.T) {
	const blocks, blockBytes = 20, 8192
	for _, ioengine := range []string{device.EnginePsync, device.EngineUring, device.EngineAuto} {
		t.Run(ioengine, func(t *testing.T) {
			if ioengine == device.EngineUring && device.ProbeUring() != nil {
				t.Skip("no io_uring here")
			}
			s := openTemp(t, t.TempDir(), engine.Options{CapacityBytes: 64 << 20, IOEngine: ioengine})
			ns := namespace(t, s, "a", blockBytes)
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, blocks)...), engine.Stored)
			readOnly, err := unix.Mmap(-1, 0, blocks*blockBytes, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
			must(t, err)
			defer func() { must(t, unix.Munmap(readOnly)) }()
			for _, batch := range []int{1, blocks} { // alone, and together
				for from := 0; from < blocks; from += batch {
					items := make([]engine.GetItem, batch)
					for i := range items {
						items[i] = engine.GetItem{Key: key(from + i), Dst: [][]byte{readOnly[i*blockBytes:][:blockBytes]}}
					}
					must(t, ns.Get(items, engine.GetOptions{}))
					for i := range items {
						if items[i].Status != engine.Miss || !errors.Is(items[i].Err, syscall.EFAULT) {
							t.Fatalf("block %d: %v, %v", from+i, items[i].Status, items[i].Err)
						}
					}
				}
			}
			all(t, get(t, ns, sequence(0, blocks)...), engine.Hit)
			st := s.Stat()
			if c := st.Counters; st.Health != "ok" || c.QuarantinedSlots+c.ReadErrors+c.SickPeriods != 0 {
				t.Errorf("health %s, %+v", st.Health, c)
			}
			mustClose(t, s)
		})
	}
}

// shrinking is a shared mapping of a file of nBytes, and cut makes the file empty.
func shrinking(t *testing.T, nBytes int) (mem []byte, cut func()) {
	t.Helper()
	fd, err := unix.MemfdCreate("client", unix.MFD_CLOEXEC)
	must(t, err)
	must(t, unix.Ftruncate(fd, int64(nBytes)))
	mem, err = unix.Mmap(fd, 0, nBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(unix.Munmap(mem), unix.Close(fd))) })
	return mem, func() { must(t, unix.Ftruncate(fd, 0)) }
}

// TestCallerMemoryGoes: a file that its owner cuts short costs its own blocks, in
// gets and puts, straight and through a frame, and nobody else anything.
func TestCallerMemoryGoes(t *testing.T) {
	const blocks, blockBytes = 20, 8192
	for _, ioengine := range []string{device.EnginePsync, device.EngineUring, device.EngineAuto} {
		for what, skew := range map[string]int{"aligned": 0, "unaligned": 100} {
			t.Run(ioengine+", "+what, func(t *testing.T) {
				if ioengine == device.EngineUring && device.ProbeUring() != nil {
					t.Skip("no io_uring here")
				}
				s := openTemp(t, t.TempDir(), engine.Options{CapacityBytes: 64 << 20, IOEngine: ioengine})
				ns := namespace(t, s, "a", blockBytes)
				all(t, put(t, ns, engine.PutOptions{}, sequence(0, blocks)...), engine.Stored)
				before := s.Stat()
				mem, cut := shrinking(t, (blocks+1)*blockBytes)
				cut()
				gets, puts := make([]engine.GetItem, blocks), make([]engine.PutItem, blocks)
				for i := range blocks {
					piece := [][]byte{mem[i*blockBytes+skew:][:blockBytes]}
					gets[i] = engine.GetItem{Key: key(i), Dst: piece}
					puts[i] = engine.PutItem{Key: key(blocks + i), Src: piece}
				}
				for range 3 {
					must(t, ns.Get(gets, engine.GetOptions{}))
					must(t, ns.Get(gets[:1], engine.GetOptions{}))
					must(t, ns.Put(puts, engine.PutOptions{Shared: true}))
					for i := range blocks {
						if gets[i].Status != engine.Miss || !errors.Is(gets[i].Err, syscall.EFAULT) {
							t.Fatalf("get %d: %v, %v", i, gets[i].Status, gets[i].Err)
						}
						if puts[i].Status != engine.Dropped || !errors.Is(puts[i].Err, syscall.EFAULT) {
							t.Fatalf("put %d: %v, %v", i, puts[i].Status, puts[i].Err)
						}
					}
				}
				all(t, get(t, ns, sequence(0, blocks)...), engine.Hit)
				after := s.Stat()
				if c := after.Counters; after.Health != "ok" || c.QuarantinedSlots+c.ReadErrors+c.WriteErrors+c.SickPeriods != 0 ||
					after.Blocks != before.Blocks || after.FramesInUse != 0 {
					t.Errorf("health %s, %d blocks of %d, %d frames, %+v", after.Health, after.Blocks, before.Blocks, after.FramesInUse, c)
				}
				mustClose(t, s)
			})
		}
	}
}

// meddling changes the memory of writes of blocks after their checksums were taken.
type meddling struct{ device.Device }

func (m meddling) Submit(ops []*device.Op) {
	for _, op := range ops {
		if op.Kind == device.Write && isSegment(op.File.Name()) && op.Offset > 0 {
			op.Bufs[0][0]++
		}
	}
	m.Device.Submit(ops)
}

// TestSharedMemoryUsesUpNoSlot: a client that writes into what it puts gets
// misses; only memory that nobody shares tells something about the slot.
func TestSharedMemoryUsesUpNoSlot(t *testing.T) {
	for _, shared := range []bool{true, false} {
		r := newRig(t, sim.Config{Seed: 5})
		r.wrap = func(d device.Device) device.Device { return meddling{d} }
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 8192)
		mem := device.AlignedBuffer(8192, 4096)
		// So many that slots are used again: the store has fewer.
		rounds := 4<<20/8192 + 200
		if !shared {
			rounds = 20_000 // at most
		}
		for n := range rounds {
			put := []engine.PutItem{{Key: key(n), Src: [][]byte{mem}}}
			must(t, ns.Put(put, engine.PutOptions{Shared: shared}))
			got := []engine.GetItem{{Key: key(n), Dst: [][]byte{mem}}}
			must(t, ns.Get(got, engine.GetOptions{}))
			if put[0].Status != engine.Stored || got[0].Status != engine.Miss {
				t.Fatalf("shared %v, round %d: %v, then %v", shared, n, put[0].Status, got[0].Status)
			}
			if !shared && s.Stat().Counters.QuarantinedSlots > 0 {
				rounds = n + 1
				break
			}
		}
		if c := s.Stat().Counters; c.TornBlocks != uint64(rounds) || (c.QuarantinedSlots > 0) == shared {
			t.Errorf("shared %v: %d of %d torn, %d slots quarantined", shared, c.TornBlocks, rounds, c.QuarantinedSlots)
		}
		mustClose(t, s)
	}
}

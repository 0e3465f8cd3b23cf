package engine_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestKillCycles: pitfall P16: after every kill and restart each slot is free,
// used, or waits for a reason; nothing leaks. Every block that was durable and
// not evicted since is a hit, or its key was never answered wrongly.
func TestKillCycles(t *testing.T) {
	cycles := 100
	if testing.Short() {
		cycles = 20
	}
	for _, power := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: 7, MaxLatency: time.Millisecond})
			rng := rand.New(rand.NewPCG(7, 7))
			o := small(engine.Options{CapacityBytes: 3 << 20, SyncInterval: 10 * time.Millisecond})
			var total int
			for cycle := range cycles {
				s := r.open(o)
				ns, odd := namespace(t, s, "a", 4096), namespace(t, s, "b", oddBytes)
				if err := s.CheckSlots(); err != nil {
					t.Fatalf("cycle %d: after the opening: %v", cycle, err)
				}
				free, used, other, all := s.FreeAndUsed()
				if free+used+other != all || other != 0 {
					t.Fatalf("cycle %d: %d free + %d used + %d neither = %d slots", cycle, free, used, other, all)
				}
				total = max(total, all)
				done := make(chan struct{})
				go func() {
					defer close(done)
					rng := rand.New(rand.NewPCG(7, uint64(cycle)))
					for range 20 {
						chain := chains(rng, 30, 3, 20)
						_ = ns.Put(putItems(4096, chain...), engine.PutOptions{})
						checkedGet(t, ns, chain...)
						_ = odd.Put(putItems(oddBytes, chain[:1]...), engine.PutOptions{Durability: engine.Durability(rng.IntN(2))})
						checkedGet(t, odd, chain...)
						if rng.IntN(20) == 0 {
							_, _ = ns.Delete(keysOf(chain...))
						}
						if rng.IntN(60) == 0 {
							_ = odd.Drop()
						}
					}
				}()
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
				r.disk.SetFaults(sim.Plan{})
				if power {
					r.disk.PowerCut()
				} else {
					r.disk.Kill()
				}
				r.cloneIndex(map[bool]int{false: 100, true: 50}[power])
				<-done
				_ = s.Close()
			}
			if total < 100 {
				t.Errorf("never more than %d slots", total)
			}
			s := r.open(o)
			ns := namespace(t, s, "a", 4096)
			press(t, ns, 1<<50, 3*ns.Stat().Slots)
			mustClose(t, s)
		})
	}
}

func putItems(blockBytes int, blocks ...int) []engine.PutItem {
	items := make([]engine.PutItem, len(blocks))
	for i, n := range blocks {
		items[i] = engine.PutItem{Key: key(n), Src: [][]byte{content(n, blockBytes)}, Depth: uint32(i)}
	}
	return items
}

// checkedGet reads from a store that may be dying; hits must be exact.
func checkedGet(t testing.TB, ns *engine.Namespace, blocks ...int) {
	t.Helper()
	size := ns.Descriptor().BlockBytes
	items := getItems(size, true, blocks...)
	if err := ns.Get(items, engine.GetOptions{}); err != nil {
		return
	}
	for i, n := range blocks {
		if items[i].Status == engine.Hit && string(items[i].Dst[0]) != string(content(n, size)) {
			t.Errorf("block %d: wrong bytes", n)
		}
	}
}

// tripping ends the machine at the n-th call.
type tripping struct {
	device.Device
	left atomic.Int64
	cut  func()
}

func (d *tripping) step() {
	if d.left.Add(-1) == 0 {
		d.cut()
	}
}

// tripped reports whether the machine was ended.
func (d *tripping) tripped() bool { return d.left.Load() <= 0 }

// trip lets the next session of the rig end at its n-th call.
func (r *rig) trip(n int, power bool, indexKeptPercent int) *tripping {
	d := &tripping{}
	d.left.Store(int64(n))
	d.cut = func() {
		if power {
			r.disk.PowerCut()
		} else {
			r.disk.Kill()
		}
		r.cloneIndex(indexKeptPercent)
	}
	r.wrap = func(dev device.Device) device.Device { d.Device = dev; return d }
	return d
}

func (d *tripping) Submit(ops []*device.Op) {
	for _, op := range ops {
		d.step()
		d.Device.Submit([]*device.Op{op})
	}
}

func (d *tripping) Create(name string, n int64) (device.File, error) {
	d.step()
	return d.Device.Create(name, n)
}
func (d *tripping) Open(name string) (device.File, error) { d.step(); return d.Device.Open(name) }
func (d *tripping) Remove(name string) error              { d.step(); return d.Device.Remove(name) }
func (d *tripping) Rename(a, b string) error              { d.step(); return d.Device.Rename(a, b) }
func (d *tripping) SyncDir() error                        { d.step(); return d.Device.SyncDir() }
func (d *tripping) WriteFile(name string, b []byte) error {
	d.step()
	return d.Device.WriteFile(name, b)
}

// TestFirstOpenCutShort: pitfall P11: a first start may be cut short at any
// call to the device; the next one works.
func TestFirstOpenCutShort(t *testing.T) {
	for _, power := range []bool{false, true} {
		for k := 1; ; k++ {
			finished := false
			bubble(t, func(t *testing.T) {
				r := newRig(t, sim.Config{Seed: uint64(k)})
				d := r.trip(k, power, 50*(k%3))
				s, err := r.tryOpen(small(engine.Options{}))
				if err == nil {
					_ = s.Close()
					finished = !d.tripped()
				}
				r.wrap = nil
				s = r.open(small(engine.Options{}))
				ns := namespace(t, s, "a", 4096)
				all(t, put(t, ns, durable, 1, 2, 3), engine.Stored)
				all(t, get(t, ns, 1, 2, 3), engine.Hit)
				mustClose(t, s)
				s = r.open(engine.Options{MustExist: true})
				all(t, get(t, namespace(t, s, "a", 4096), 1, 2, 3), engine.Hit)
				mustClose(t, s)
			})
			if finished {
				t.Logf("power %v: %d calls", power, k)
				break
			}
			if t.Failed() || k > 1000 {
				t.Fatalf("power %v, call %d", power, k)
			}
		}
	}
}

// TestReopenCutShort: the same for a later opening, which replays the log,
// lowers the capacity and gives up segments: what was durable stays, unless it
// was in a segment that had to go.
func TestReopenCutShort(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 8
	}
	for k := 1; ; k += step {
		finished := false
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: uint64(k)})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", 4096)
			all(t, put(t, ns, durable, sequence(0, 200)...), engine.Stored)
			all(t, put(t, ns, durable, sequence(1000, 10)...), engine.Stored)
			if n, err := ns.Delete(keysOf(0, 1)); n != 2 || err != nil {
				t.Fatal(n, err)
			}
			r.powerCut(s)
			d := r.trip(k, true, 50*(k%3))
			s, err := r.tryOpen(engine.Options{CapacityBytes: 3 << 20})
			if err == nil {
				_ = s.Close()
				finished = !d.tripped()
			}
			r.wrap = nil
			s = r.open(engine.Options{CapacityBytes: 3 << 20})
			ns = namespace(t, s, "a", 4096)
			all(t, get(t, ns, 0, 1), engine.Miss)
			all(t, get(t, ns, sequence(1000, 10)...), engine.Hit)
			get(t, ns, sequence(2, 198)...)
			press(t, ns, 5000, 2*ns.Stat().Slots)
			mustClose(t, s)
		})
		if finished {
			t.Logf("%d calls", k)
			break
		}
		if t.Failed() || k > 1000 {
			t.Fatalf("call %d", k)
		}
	}
}

// TestNumbersAreUsedAgain: segments that went free their numbers at the next
// opening; entries and quarantines of the old files never reach the new ones.
func TestNumbersAreUsedAgain(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{SyncInterval: time.Hour}))
			a, b := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
			all(t, put(t, a, durable, sequence(0, 20)...), engine.Stored)
			all(t, put(t, b, durable, sequence(100, 20)...), engine.Stored)
			r.disk.SetFaults(sim.Plan{Filter: isSegment, ReadEIO: 1})
			all(t, get(t, b, 100, 101), engine.Miss) // two slots in quarantine
			r.disk.SetFaults(sim.Plan{})
			all(t, put(t, b, durable, 200), engine.Stored)
			must(t, b.Drop())
			if seed%2 == 0 {
				mustClose(t, s)
			} else {
				r.powerCut(s)
			}
			for round := range 3 {
				s = r.open(engine.Options{SyncInterval: time.Hour})
				a, b = namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
				all(t, get(t, a, sequence(0, 20)...), engine.Hit)
				all(t, get(t, b, append(sequence(100, 20), 200)...), engine.Miss)
				c := namespace(t, s, "c", 4096)
				all(t, put(t, c, durable, sequence(1000*round, 30)...), engine.Stored)
				if round > 0 {
					all(t, get(t, c, sequence(1000*(round-1), 30)...), engine.Hit)
				}
				if n := s.Stat().Counters.QuarantinedSlots; n != 0 {
					t.Errorf("seed %d, round %d: %d slots of new files are in quarantine", seed, round, n)
				}
				r.powerCut(s)
			}
		})
	}
}

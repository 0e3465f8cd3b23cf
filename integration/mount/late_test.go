package mount

import (
	"bytes"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

func isSegment(name string) bool { return len(name) > 4 && name[:4] == "seg-" }

// newSimRig is a rig over a simulated drive.
func newSimRig(t *testing.T) *rig {
	r := newRig(t, 1)
	r.disk, r.index = sim.NewDisk(sim.Config{}), vfs.NewCrashableMem()
	r.store = engine.Options{CapacityBytes: 32 << 20}
	return r
}

// TestLate: a read past its deadline is LATE, then RELEASED, and from then on nobody
// writes to the memory. What the client writes there meanwhile is no damage.
func TestLate(t *testing.T) {
	r := newSimRig(t).start()
	good := r.dial()
	ns, filled := open(t, good, "a"), newPool(t, good, 4)
	filled.put(ns, 0, 4, client.Stored)
	bad, region, m := r.rawMount("a", 4)
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 300 * time.Millisecond})
	for round := range 6 {
		g := bad.get(region, 0, 4)
		g.DeadlineUS = 20_000
		if round%3 == 1 {
			g.Flags = wire.GetBounce
		}
		if round%3 == 2 {
			g.DeadlineUS = 0
		}
		number := bad.send(wire.TypeGet, g, nil)
		if round%3 == 2 { // given up by the client
			time.Sleep(20 * time.Millisecond)
			bad.last++
			_, err := bad.socket.Write(wire.AppendFrame(nil, wire.TypeCancel, bad.last, wire.Wide(number)))
			must(t, err)
			if h, _, err := bad.next(); err != nil || h.Type != wire.TypeCancel|wire.Answer && h.Type != wire.TypeGet|wire.Answer {
				t.Fatalf("%+v, %v", h, err)
			}
			bad.last = number
		}
		late, released := 0, map[uint32]int{}
		for late == 0 || len(released) < late {
			h, body, err := bad.next()
			must(t, err)
			switch h.Type {
			case wire.TypeGet | wire.Answer:
				results, err := wire.ParseResults(body)
				must(t, err)
				for _, s := range results.Statuses {
					if wire.Status(s) != wire.Late {
						t.Fatalf("round %d: %v", round, wire.Status(s))
					}
					late++
				}
				scribble(m.mem) // forbidden, and harmless to others
			case wire.TypeReleased:
				items, err := wire.ParseReleased(body)
				must(t, err)
				for _, i := range items {
					released[i]++
				}
			}
			if round%3 == 2 && late == 0 { // its answer came before that of the cancel
				late = 4
			}
		}
		for i, n := range released {
			if n != 1 || i > 3 {
				t.Errorf("round %d: item %d released %d times", round, i, n)
			}
		}
		copy(m.mem, bytes.Repeat([]byte{0xee}, len(m.mem)))
		time.Sleep(10 * time.Millisecond)
		if !bytes.Equal(m.mem, bytes.Repeat([]byte{0xee}, len(m.mem))) {
			t.Fatalf("round %d: memory was written after its release", round)
		}
	}
	r.disk.SetFaults(sim.Plan{})
	filled.get(ns, 0, 4, client.Hit)
	if c := r.node.Stat().Stores[0].Counters; c.TornBlocks+c.QuarantinedSlots != 0 {
		t.Errorf("the client's scribbling counts as damage: %+v", c)
	}
	good.Close()
	_ = bad.socket.Close()
	r.clean(t, 0)
	r.stop()
}

// lostWhileReading makes the drive slow, and a client lose its connection while it reads
// into m. again is how it says who it was. good is another client, which goes on.
func (r *rig) lostWhileReading(delay time.Duration) (good *client.Client, again *wire.Hello, m memory) {
	r.t.Helper()
	good = r.dial()
	ns, filled := open(r.t, good, "a"), newPool(r.t, good, 4)
	filled.put(ns, 0, 4, client.Stored)
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: delay})
	first := r.rawDial()
	welcome, err := wire.ParseWelcome(first.ask(wire.TypeHello, &wire.Hello{Lowest: 1, Highest: 1}, nil))
	must(r.t, err)
	first.open("a")
	region, m := first.region(4 * blockBytes)
	first.send(wire.TypeGet, first.get(region, 0, 4), nil)
	r.reading()
	_ = first.socket.Close()
	return good, &wire.Hello{Lowest: 1, Highest: 1, Instance: welcome.Instance, Connection: welcome.Connection}, m
}

// reading waits until a read is under way.
func (r *rig) reading() {
	r.t.Helper()
	eventually(r.t, "a read is under way", func() bool { return r.node.Stat().Drives[0].LoadBytes > 0 })
}

// TestLostWhileLate: a client whose connection breaks while its reads are under way is
// welcomed again when they have ended, and not before.
func TestLostWhileLate(t *testing.T) {
	r := newSimRig(t).start()
	good, again, m := r.lostWhileReading(500 * time.Millisecond)
	second := r.rawDial()
	second.ask(wire.TypeHello, again, nil)
	if st := r.node.Stat(); st.Connections != 2 { // the good one and this
		t.Errorf("welcomed while the connection before is there: %+v", st.Clients)
	}
	before := bytes.Clone(m.mem)
	time.Sleep(10 * time.Millisecond)
	if !bytes.Equal(m.mem, before) {
		t.Error("memory was written after the welcome")
	}
	_ = second.socket.Close()
	good.Close()
	r.disk.SetFaults(sim.Plan{})
	r.stop()
}

// TestFollowEachOther: two connections that each claim to follow the other end, both.
func TestFollowEachOther(t *testing.T) {
	r := newRig(t, 1).start()
	instance := func() [16]byte {
		c := r.rawDial()
		defer c.socket.Close()
		w, err := wire.ParseWelcome(c.ask(wire.TypeHello, &wire.Hello{Lowest: 1, Highest: 1}, nil))
		must(t, err)
		return w.Instance
	}()
	for round := range 20 {
		a, b := r.rawDial(), r.rawDial()
		first := uint64(2 + 2*round)
		for c, follows := range map[*raw]uint64{a: first + 1, b: first} { // whichever is first may end the other
			hello := &wire.Hello{Lowest: 1, Highest: 1, Instance: instance, Connection: follows}
			_, _ = c.socket.Write(wire.AppendFrame(nil, wire.TypeHello, 1, hello))
		}
		time.Sleep(time.Millisecond)
		_ = a.socket.Close()
		_ = b.socket.Close()
	}
	r.clean(t, 0)
	r.stop()
}

// TestImpatientFollower: a client that hangs up while it waits for its welcome leaves at
// once, however long the connection before it takes to end.
func TestImpatientFollower(t *testing.T) {
	r := newSimRig(t).start()
	good, again, _ := r.lostWhileReading(4 * time.Second)
	for range 20 {
		next := r.rawDial()
		next.send(wire.TypeHello, again, nil)
		_ = next.socket.Close()
	}
	eventually(t, "only the good one and the first are left", func() bool { return r.node.Stat().Connections <= 2 })
	if r.node.Stat().Drives[0].LoadBytes == 0 {
		t.Log("the read ended before the followers did; this run shows nothing")
	}
	good.Close()
	r.disk.SetFaults(sim.Plan{})
	r.stop()
}

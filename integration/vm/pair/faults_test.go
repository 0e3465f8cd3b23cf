package pair

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// faultTime is how long a fault lasts: longer than most deadlines of the readers, and than
// all retries of a queue pair.
const faultTime = 2 * time.Second

// faults are what befalls two daemons that read from each other.
type faults struct {
	t        *testing.T
	one, two *daemon
	up, down *load // of the blocks of one through two, of the blocks of two through one
}

// TestFaults puts two daemons that read each other's blocks through one fault after the
// other. Every answer is typed and in time, blocks are right, released memory is left alone,
// and after each fault blocks travel by RDMA again.
func TestFaults(t *testing.T) {
	one, two := newPair(t)
	one.start()
	two.start()
	travels(t, "rdma", one, two)
	up, down := space{"up", 8 << 20, 8}, space{"down", 256 << 10, 64}
	up.put(t, one)
	down.put(t, two)
	f := &faults{t: t, one: one, two: two, up: startLoad(t, up, two, readers{4, 0, 3 * time.Second, 8}, 1), down: startLoad(t, down, one, readers{6, 0, 3 * time.Second, 8}, 2)}
	f.flows("at first")
	for _, fault := range []struct {
		name         string
		strike, mend func()
		excused      []*load   // whose own daemon it is that cannot answer
		witnesses    []*daemon // one of which counts it
	}{
		{"the first is killed", one.kill, one.start, []*load{f.down}, []*daemon{two}},
		{"the second is killed", two.kill, two.start, []*load{f.up}, []*daemon{one}},
		{"the first is frozen", one.freeze, one.thaw, []*load{f.down}, []*daemon{one, two}},
		{"the second is frozen", two.freeze, two.thaw, []*load{f.up}, []*daemon{one, two}},
		{"the link is down", func() { f.link("down") }, func() { f.link("up") }, nil, []*daemon{one, two}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			f.t = t
			before := f.troubles(fault.witnesses)
			for _, l := range fault.excused {
				defer l.excuse()()
			}
			fault.strike()
			time.Sleep(faultTime)
			fault.mend()
			f.flows("afterwards")
			if after := f.troubles(fault.witnesses); after <= before {
				t.Errorf("nobody has counted a fault: %d before, %d after", before, after)
			}
		})
	}
	f.up.end()
	f.down.end()
	if f.up.lates.Load() == 0 || f.up.cancels.Load() == 0 {
		t.Error("the readers were too tame")
	}
}

// flows waits until blocks come both ways, by RDMA.
func (f *faults) flows(when string) {
	f.t.Helper()
	var before [2]uint64
	ways := func() (came [2]uint64, err error) {
		for i, d := range []*daemon{f.one, f.two} {
			w, err := d.way()
			if err != nil {
				return came, err
			}
			if came[i] = w.Blocks; w.Name != "rdma" {
				return came, fmt.Errorf("blocks come to n%d by %s: %s", d.number, w.Name, w.Why)
			}
		}
		return came, nil
	}
	eventually(f.t, "blocks come by RDMA "+when, func() error {
		came, err := ways()
		if err != nil {
			return err
		}
		if before == [2]uint64{} {
			before = came
		}
		if came[0] < before[0]+8 || came[1] < before[1]+8 {
			return fmt.Errorf("%d blocks, %d at first", came, before)
		}
		return nil
	})
}

// troubles are the faults that daemons have counted: the end of a session with a peer that
// is gone only shows in the next one.
func (f *faults) troubles(witnesses []*daemon) (all uint64) {
	for _, d := range witnesses {
		var w transport.Way
		eventually(f.t, "the daemon tells its counts", func() (err error) {
			w, err = d.way()
			return err
		})
		all += w.Failures + w.Destroyed + w.Connects
	}
	return all
}

func (f *faults) link(state string) {
	f.t.Helper()
	lines := [][]string{{"/usr/bin/ip", "link", "set", "v2", state}}
	if state == "up" {
		lines = append(lines, []string{"/setup.sh", "links"})
	}
	for _, line := range lines {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			f.t.Fatalf("%v: %v: %s", line, err, out)
		}
	}
}

package pair

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// depth is how many blocks are asked for at once.
const depth = 16

// TestBlocks moves blocks of all sizes between the stores of two daemons, in both
// directions, and compares every byte.
func TestBlocks(t *testing.T) {
	one, two := newPair(t)
	one.start()
	two.start()
	travels(t, "rdma", one, two)
	for _, size := range []struct{ bytes, blocks, reads int }{{64 << 10, 256, 256}, {1 << 20, 64, 64}, {8 << 20, 16, 16}, {64 << 20, 4, 16}} {
		t.Run(fmt.Sprint(size.bytes>>10, "KiB"), func(t *testing.T) {
			s := space{fmt.Sprint("up-", size.bytes), size.bytes, size.blocks}
			s.put(t, one)
			readAll(t, s, two, size.reads)
			if size.bytes > 1<<20 { // more gigabytes would tell nothing new
				return
			}
			s.name = fmt.Sprint("down-", size.bytes)
			s.put(t, two)
			readAll(t, s, one, size.reads)
		})
	}
}

// readAll gets blocks through a daemon that has none of them, depth at once, and compares.
// They must come, and most of them by RDMA.
func readAll(t *testing.T, s space, d *daemon, reads int) {
	t.Helper()
	before, err := d.way()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	read(t, s, d, reads)
	took := time.Since(began)
	after, err := d.way()
	if err != nil {
		t.Fatal(err)
	}
	came := after.Blocks - before.Blocks
	t.Logf("n%d read %d blocks of %d KiB in %v, %d by RDMA, %d fetches by TCP", d.number, reads, s.bytes>>10,
		took.Round(time.Millisecond), came, after.Fallbacks-before.Fallbacks)
	if came < uint64(reads)/2 {
		t.Errorf("of %d blocks only %d came by RDMA: %+v", reads, came, after)
	}
}

// readPlain gets all blocks, by whatever way.
func readPlain(t *testing.T, s space, d *daemon) {
	t.Helper()
	read(t, s, d, s.blocks)
}

func read(t *testing.T, s space, d *daemon, reads int) {
	t.Helper()
	c := d.dial()
	defer c.Close()
	ns := s.open(t, c)
	region, err := c.Allocate(int64(depth * s.bytes))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all blocks are found", func() error {
		if m := ns.Match(s.keys(), client.MatchOptions{}); m.Prefix != s.blocks {
			return fmt.Errorf("%d of %d", m.Prefix, s.blocks)
		}
		return nil
	})
	var state struct {
		Registered struct {
			Bytes   int64
			Missing int
			Cause   string
		}
	}
	if err := d.stats(&state); err != nil {
		t.Fatal(err)
	}
	if state.Registered.Missing != 0 {
		t.Errorf("memory is not registered: %+v", state.Registered)
	}
	var readers sync.WaitGroup
	for slot := range depth {
		readers.Go(func() {
			place := region.Row(slot, s.bytes)
			row := region.Bytes()[place.OffsetBytes:][:s.bytes]
			for i := slot; i < reads; i += depth {
				if err := readOne(ns, s, i%s.blocks, place, row); err != nil {
					t.Errorf("block %d of %s: %v", i, s.name, err)
				}
			}
		})
	}
	readers.Wait()
}

// readOne gets a block. A queue pair may fail though nobody is to blame, and a busy peer may
// not be asked for a moment; that costs a miss: so it may take some times.
func readOne(ns *client.Namespace, s space, i int, place client.Place, row []byte) error {
	var statuses []client.Status
	for began := time.Now(); time.Since(began) < patience; time.Sleep(200 * time.Millisecond) {
		fill(row, 1)
		job := ns.Get([]client.Block{{Key: s.key(i), Places: []client.Place{place}}}, client.GetOptions{Timeout: time.Minute})
		status := job.Wait().Statuses[0]
		<-job.Released()
		if status == client.Hit {
			if at := differs(row, s.seed(i)); at >= 0 {
				return fmt.Errorf("wrong from byte %d on", at)
			}
			return nil
		}
		statuses = append(statuses, status)
	}
	return fmt.Errorf("did not come: %v", statuses)
}

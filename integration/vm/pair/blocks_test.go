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
	for _, size := range []struct{ bytes, blocks int }{{64 << 10, 256}, {1 << 20, 64}, {8 << 20, 16}, {64 << 20, 16}} {
		t.Run(fmt.Sprint(size.bytes>>10, "KiB"), func(t *testing.T) {
			for _, way := range []struct{ from, to *daemon }{{one, two}, {two, one}} {
				s := space{fmt.Sprintf("blocks-%d-%d", size.bytes, way.from.number), size.bytes, size.blocks}
				s.put(t, way.from)
				readAll(t, s, way.to)
				if way.from == one && size.bytes == 64<<20 {
					break // the second gigabyte would tell nothing new
				}
			}
		})
	}
}

// readAll gets the blocks through a daemon that has none of them, a few at once, and
// compares. They must come, and most of them by RDMA.
func readAll(t *testing.T, s space, d *daemon) {
	t.Helper()
	before, err := d.way()
	if err != nil {
		t.Fatal(err)
	}
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
	began := time.Now()
	var readers sync.WaitGroup
	for slot := range depth {
		readers.Go(func() {
			place := region.Row(slot, s.bytes)
			row := region.Bytes()[place.OffsetBytes:][:s.bytes]
			for i := slot; i < s.blocks; i += depth {
				if err := readOne(ns, s, i, place, row); err != nil {
					t.Errorf("block %d of %s: %v", i, s.name, err)
				}
			}
		})
	}
	readers.Wait()
	after, err := d.way()
	if err != nil {
		t.Fatal(err)
	}
	came := after.Blocks - before.Blocks
	t.Logf("n%d read %d blocks of %d KiB in %v, %d by RDMA, %d fetches by TCP", d.number, s.blocks, s.bytes>>10,
		time.Since(began).Round(time.Millisecond), came, after.Fallbacks-before.Fallbacks)
	if came < uint64(s.blocks)/2 {
		t.Errorf("of %d blocks only %d came by RDMA: %+v", s.blocks, came, after)
	}
}

// readOne gets a block. A queue pair may fail though nobody is to blame, which costs a
// miss: so it may take three times.
func readOne(ns *client.Namespace, s space, i int, place client.Place, row []byte) error {
	var statuses []client.Status
	for range 3 {
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

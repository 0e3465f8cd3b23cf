package pair

import (
	"fmt"
	"testing"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/engine"
)

// media are blocks on a drive that has, in its second life, a sector that cannot be read.
var media = space{"media", 1 << 20, 48}

// mediaDaemon has its store on the first drive.
func mediaDaemon(t *testing.T) *daemon { return newDaemon(t, 1, mountDrive(t, "/mnt/media")+"/store") }

// state is that of the daemon's only store.
func (d *daemon) state() engine.Stat {
	d.t.Helper()
	var all struct{ Stores []engine.Stat }
	if err := d.stats(&all); err != nil || len(all.Stores) != 1 {
		d.t.Fatalf("stats: %v: %+v", err, all)
	}
	return all.Stores[0]
}

// TestMediaWrite fills a store on a good drive.
func TestMediaWrite(t *testing.T) {
	d := mediaDaemon(t)
	d.start()
	media.put(t, d)
	if s := d.state(); !s.DirectIO || s.FileSystem != "ext4" {
		t.Errorf("not past the page cache of ext4: %+v", s)
	}
	// The host looks for this on the drive, and makes that sector bad.
	block := make([]byte, media.bytes)
	fill(block, media.seed(7))
	fmt.Printf("MARK %x\n", block[media.bytes/2:][:32])
}

// TestMediaRead reads it after one of its sectors has gone bad.
func TestMediaRead(t *testing.T) {
	d := mediaDaemon(t)
	d.start()
	for range 2 { // the second time without an error of the drive: the slot is out of use
		bad := readMedia(t, d)
		if bad != 1 {
			t.Errorf("%d blocks are lost, want the one with the bad sector", bad)
		}
	}
	if c := d.state().Counters; c.ReadErrors != 1 || c.QuarantinedSlots != 1 || c.TornBlocks != 0 {
		t.Errorf("counted: %+v, want one error and one slot in quarantine", c)
	}
	d.stop()
	d.start()
	if bad := readMedia(t, d); bad != 1 {
		t.Errorf("%d blocks are lost after a restart", bad)
	}
}

// readMedia gets all blocks and tells how many are misses; the others must be right.
func readMedia(t *testing.T, d *daemon) (misses int) {
	t.Helper()
	c := d.dial()
	defer c.Close()
	ns := media.open(t, c)
	region, err := c.Allocate(int64(media.bytes))
	if err != nil {
		t.Fatal(err)
	}
	for i := range media.blocks {
		fill(region.Bytes(), 1)
		job := ns.Get([]client.Block{{Key: media.key(i), Places: []client.Place{region.Row(0, media.bytes)}}}, client.GetOptions{Timeout: patience})
		status := job.Wait().Statuses[0]
		<-job.Released()
		switch {
		case status == client.Miss:
			misses++
		case status != client.Hit:
			t.Errorf("block %d: %v", i, status)
		case differs(region.Bytes(), media.seed(i)) >= 0:
			t.Errorf("block %d is wrong", i)
		}
	}
	return misses
}

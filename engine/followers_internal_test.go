package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// kept keeps the reads that it is asked for: the test answers them.
type kept struct {
	device.Device
	on    bool
	reads []*device.Op
}

func (k *kept) Submit(ops []*device.Op) {
	for _, op := range ops {
		if k.on && op.Kind == device.Read {
			k.reads = append(k.reads, op)
			continue
		}
		k.Device.Submit([]*device.Op{op})
	}
}

// TestSharedReadDoesNotHoldItsLeader: whoever reads a block first has its answer
// when the transfer has ended, however long the copies for those take that have
// joined, and so has the goroutine that the transfer ends on.
func TestSharedReadDoesNotHoldItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const followers, blockBytes = 5, 4096
		real, err := sim.NewDisk(sim.Config{Seed: 1}).Open()
		if err != nil {
			t.Fatal(err)
		}
		dev := &kept{Device: real}
		s, err := Open(Options{CapacityBytes: 64 << 20, SegmentBytes: 1 << 20, Device: dev, IndexFS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		ns, err := s.Namespace(Descriptor{Name: "n", BlockBytes: blockBytes})
		if err != nil {
			t.Fatal(err)
		}
		k := Key{Bytes: []byte("k")}
		if err := ns.Put([]PutItem{{Key: k, Src: [][]byte{make([]byte, blockBytes)}}}, PutOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		dev.on = true
		answers := make(chan error, followers)
		get := func() {
			items := []GetItem{{Key: k, Dst: [][]byte{make([]byte, blockBytes)}}}
			err := ns.Get(items, GetOptions{Bounce: true})
			if err == nil && items[0].Status != Hit {
				err = fmt.Errorf("%v: %w", items[0].Status, items[0].Err)
			}
			answers <- err
		}
		for range 1 + followers {
			go get()
			synctest.Wait() // the first one leads
		}
		if len(dev.reads) != 1 {
			t.Fatalf("%d reads", len(dev.reads))
		}
		dev.on = false
		s.mu.Lock()
		var leader *readOp
		for _, leader = range s.inflight {
		}
		s.mu.Unlock()
		gate, first := make(chan struct{}), true
		leader.finish(Hit, nil, func([][]byte) { // in place of the device's completion
			if !first {
				<-gate // a copy that takes its time
			}
			first = false
		})
		synctest.Wait()
		if len(answers) != 1 {
			t.Errorf("%d answers while the copies take their time, want the leader's", len(answers))
		}
		close(gate)
		for range 1 + followers {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

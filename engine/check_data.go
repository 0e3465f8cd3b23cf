package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// Bounds of the blocks read at once by a check.
const (
	checkReadersMax = 16
	checkReadBytes  = 64 << 20
	checkInterval   = 200 * time.Millisecond
)

// slotRead is one slot to read.
type slotRead struct {
	place Place
	// named are the blocks that it may hold, the newest first.
	named []*indexEntry
	proof *indexEntry // the first of them that its bytes prove
	dirt  int         // bytes into the slot, behind its block, where one is not zero; 0: all are
	err   error       // of the device
}

// readSlots reads slots, in parallel, and proves what they hold. phase is for the
// progress.
func (c *checker) readSlots(phase string, reads []slotRead) error {
	largest, total := int64(headerBytes), int64(0)
	for i := range reads {
		h := &c.segments[reads[i].place.Segment()].header
		largest = max(largest, int64(h.slotBytes))
		total += int64(h.blockBytes)
	}
	readers := int(min(max(checkReadBytes/largest, 2), checkReadersMax))
	var next, done atomic.Int64
	var left sync.WaitGroup
	ended := make(chan struct{})
	for range min(readers, len(reads)) {
		left.Go(func() {
			buf := device.AlignedBuffer(int(largest), headerBytes)
			for c.ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(reads)) {
					return
				}
				done.Add(c.readSlot(&reads[i], buf))
			}
		})
	}
	go func() { left.Wait(); close(ended) }()
	began := time.Now()
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.progress(CheckProgress{Phase: phase, DoneBytes: done.Load(), TotalBytes: total}, time.Since(began))
		case <-ended:
			c.report.Bytes += done.Load()
			return c.ctx.Err()
		}
	}
}

func (c *checker) progress(p CheckProgress, elapsed time.Duration) {
	if c.o.Progress == nil {
		return
	}
	if p.DoneBytes > 0 {
		p.Left = time.Duration(float64(elapsed) * float64(p.TotalBytes-p.DoneBytes) / float64(p.DoneBytes))
	}
	c.o.Progress(p)
}

// readSlot reads one slot into buf and returns the bytes of its block.
func (c *checker) readSlot(r *slotRead, buf []byte) int64 {
	g := c.segments[r.place.Segment()]
	h := &g.header
	op := device.Op{Kind: device.Read, File: g.file, Offset: h.slotOffset(r.place.Slot()), Bufs: [][]byte{buf[:h.slotBytes]}}
	if r.err = device.Do(c.dev, &op); r.err != nil {
		return int64(h.blockBytes)
	}
	if n := firstNonZero(buf[h.blockBytes:h.slotBytes]); n >= 0 {
		r.dirt = int(h.blockBytes) + n
	}
	block := [][]byte{buf[:h.blockBytes]}
	for _, e := range r.named {
		if checksum(e.id, block) == e.checksum {
			r.proof = e
			break
		}
	}
	return int64(h.blockBytes)
}

// checkData reads and proves every block.
func (c *checker) checkData() error {
	if c.o.NoData || c.o.Rebuild { // a rebuild reads them all
		return nil
	}
	reads := make([]slotRead, 0, len(c.blocks.named))
	for _, b := range c.blocks.named {
		reads = append(reads, slotRead{place: b.place, named: []*indexEntry{&b.indexEntry}})
	}
	slices.SortFunc(reads, func(a, b slotRead) int { return int(int64(a.place) - int64(b.place)) })
	if err := c.readSlots("data", reads); err != nil {
		return err
	}
	for i := range reads {
		c.judgeRead(&reads[i])
	}
	return nil
}

// judgeRead reports a slot whose newest block could not be proven.
func (c *checker) judgeRead(r *slotRead) {
	c.report.Read++
	newest := r.named[0]
	slot := r.place.Slot()
	h := &c.segments[r.place.Segment()].header
	f := Fault{Severity: Damage, File: segmentName(r.place.Segment()), Segment: r.place.Segment(), Slot: &slot,
		Offset: h.slotOffset(slot), Means: "the block is a miss; it can be put again"}
	switch {
	case r.proof == newest && r.dirt == 0:
		return
	case r.proof == newest:
		f.What, f.Means = "a byte behind the block is not zero", "nothing reads it; the block itself is sound"
		f.Offset += int64(r.dirt)
	case r.err != nil && !errors.Is(r.err, io.ErrUnexpectedEOF):
		f.What, f.Means = "the block cannot be read: "+r.err.Error(), "the block is a miss, its slot is not used again"
	case c.unclean(newest.position):
		c.report.Lost++
		return
	case r.err != nil:
		f.What = "the block lies beyond the end of its file"
	default:
		f.What = fmt.Sprintf("the block fails its checksum (log position %d)", newest.position)
	}
	c.fault(f)
}

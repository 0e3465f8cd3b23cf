package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/table"
)

// ScrubReport is what a pass over all blocks found.
type ScrubReport struct {
	Blocks  int   `json:"blocks"`  // read
	Bytes   int64 `json:"bytes"`   // read
	Lost    int   `json:"lost"`    // did not survive an unclean stop: misses from now on
	Bad     int   `json:"bad"`     // failed their checksum or could not be read: misses from now on
	Skipped int   `json:"skipped"` // gone or busy meanwhile
	Total   int   `json:"total"`   // present when the pass began
}

// scrubBatch is how many blocks a scrub reads at once.
const scrubBatch = 8

// Scrub reads and proves every block once, in the order of their places, at
// most bytesPerSecond (0: as fast as it goes). A bad block is dealt with as if a
// get had met it. progress (may be nil) is called after each batch and must not
// close the store. It ends early with ctx's error, or with ErrClosed when the
// store is being closed.
func (s *Store) Scrub(ctx context.Context, bytesPerSecond int64, progress func(ScrubReport)) (ScrubReport, error) {
	var report ScrubReport
	if err := s.begin(); err != nil {
		return report, err
	}
	defer s.end()
	s.mu.Lock()
	report.Total = s.table.Len()
	numbers := make([]uint32, 0, len(s.segments))
	for n := range s.segments {
		numbers = append(numbers, n)
	}
	s.mu.Unlock()
	slices.Sort(numbers)
	pace := pacer{bytesPerSecond: bytesPerSecond, began: time.Now(), quit: s.scrub.quit}
	for _, n := range numbers {
		if err := s.scrubSegment(ctx, n, &report, &pace, progress); err != nil {
			return report, err
		}
	}
	return report, nil
}

func (s *Store) scrubSegment(ctx context.Context, number uint32, report *ScrubReport, pace *pacer, progress func(ScrubReport)) error {
	var memory [scrubBatch][]byte
	for slot := uint32(0); ; {
		batch, next, done := s.scrubNext(number, slot, &memory)
		if done {
			return nil
		}
		slot = next
		if len(batch.reads) > 0 {
			batch.run()
		}
		for i := range batch.items {
			switch it := &batch.items[i]; {
			case it.Status == Hit:
				report.Blocks++
				report.Bytes += int64(batch.ns.descriptor.BlockBytes)
			case errors.Is(it.Err, ErrLost):
				report.Blocks++
				report.Lost++
			case it.Err != nil && !errors.Is(it.Err, ErrSick) && !errors.Is(it.Err, device.ErrClosed):
				report.Blocks++
				report.Bad++
			default:
				report.Skipped++
			}
		}
		if progress != nil {
			progress(*report)
		}
		if err := pace.wait(ctx, report.Bytes); err != nil {
			return err
		}
	}
}

// scrubNext pins the next blocks of a segment, from slot on.
func (s *Store) scrubNext(number, slot uint32, memory *[scrubBatch][]byte) (b *readBatch, next uint32, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[number]
	if g == nil || slot >= g.header.slots {
		return nil, 0, true
	}
	ns := s.namespaces[g.header.namespace-1]
	var refs []table.Ref
	for ; slot < g.header.slots && len(refs) < scrubBatch; slot++ {
		if ref := g.owner[slot]; isBlock(ref) && s.table.At(ref).State() == statePresent {
			refs = append(refs, ref)
		}
	}
	b = &readBatch{s: s, ns: ns, items: make([]GetItem, len(refs)), opts: GetOptions{NoTouch: true},
		reads: make([]readOp, 0, len(refs)), done: make(chan struct{})}
	b.pending.Store(int64(len(refs)))
	for i := len(refs) - 1; i >= 0; i-- {
		if len(memory[i]) != ns.descriptor.BlockBytes {
			memory[i] = device.AlignedBuffer(ns.descriptor.BlockBytes, headerBytes)
		}
		b.items[i].Dst = [][]byte{memory[i]}
		b.pinLocked(i, s.table.At(refs[i]).ID, refs[i])
	}
	return b, slot, false
}

// pacer keeps a stream of bytes below a rate.
type pacer struct {
	bytesPerSecond int64
	began          time.Time
	quit           <-chan struct{}
}

// wait sleeps until moved bytes may have been moved.
func (p *pacer) wait(ctx context.Context, moved int64) error {
	select {
	case <-p.quit:
		return ErrClosed
	default:
	}
	if p.bytesPerSecond <= 0 {
		return ctx.Err()
	}
	due := p.began.Add(time.Duration(float64(moved) / float64(p.bytesPerSecond) * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.quit:
		return ErrClosed
	}
}

// scrubber runs passes in the background while Options.ScrubBytesPerSecond is
// set, and ends all passes when the store closes.
type scrubber struct {
	quit   chan struct{} // closed when the store closes
	cancel context.CancelFunc
	done   chan struct{}
}

// scrubPause is the rest between two background passes.
const scrubPause = time.Hour

func (c *scrubber) start(s *Store) {
	c.quit = make(chan struct{})
	if s.opts.ScrubBytesPerSecond <= 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.done = cancel, make(chan struct{})
	go func() {
		defer close(c.done)
		for ctx.Err() == nil {
			report, err := s.Scrub(ctx, s.opts.ScrubBytesPerSecond, nil)
			if err == nil {
				s.log.Info("scrub", "blocks", report.Blocks, "bytes", report.Bytes, "bad", report.Bad)
			}
			rest := pacer{bytesPerSecond: 1, began: time.Now()}
			_ = rest.wait(ctx, int64(scrubPause/time.Second)) // the loop looks at ctx
		}
	}()
}

func (c *scrubber) stop() {
	close(c.quit)
	if c.cancel != nil {
		c.cancel()
		<-c.done
	}
}

package pool

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/fault"
)

// errWrong: bytes are not those that their store has for this ID.
var errWrong = errors.New("a block from a peer fails its checksum")

// ErrMemory: a destination is memory of a client that has taken it away.
var ErrMemory = errors.New("the memory of a destination is gone")

// guard runs touch, which may meet memory that is gone: then its error is ErrMemory.
func guard(touch func()) error {
	if err := fault.Guard(touch); err != nil {
		return fmt.Errorf("%w: %w", ErrMemory, err)
	}
	return nil
}

// fetch loads a chunk and answers its items, or fails them.
func (l *loading) fetch(c *chunk) {
	bytes := int64(len(c.items)) * int64(l.of.BlockBytes)
	l.pool.hedges.earn(bytes)
	if l.o.Bounce && !l.takeFrames(c, bytes) {
		return
	}
	main := l.fly(c.first, c.items, l.o.Bounce)
	defer main.cancel()
	spare, blocks := l.hedge(c, main, bytes)
	if spare != nil {
		defer spare.cancel()
		select {
		case <-main.done:
		case <-spare.done:
			if spare.complete() { // and that is all that the first still owes
				main.cancel()
			}
		}
		<-main.done
		if main.complete() {
			spare.cancel()
		}
		<-spare.done
	}
	<-main.done
	for j := range c.items {
		if len(blocks) == 0 || blocks[0] != j {
			l.settle(main, j, nil, 0)
			continue
		}
		if blocks = blocks[1:]; l.settle(main, j, spare, len(spare.items)-len(blocks)-1) {
			c.second.counts.hedgesWon.Add(1)
		}
	}
}

// takeFrames waits for the private memory of a bounced chunk. Without it the items are
// answered.
func (l *loading) takeFrames(c *chunk, bytes int64) bool {
	if bytes > l.pool.o.FrameBytes {
		for _, i := range c.items {
			l.items[i].Status = engine.Busy
		}
		return false
	}
	if l.pool.frames.Acquire(l.ctx, bytes) != nil {
		for _, i := range c.items {
			l.end(i)
		}
		return false
	}
	return true
}

// hedge waits for the end of a flight, and when that takes longer than it mostly does,
// asks the second node for the blocks that are outstanding, into private frames. It returns
// which those are; spare is nil where it did not.
func (l *loading) hedge(c *chunk, main *flight, bytes int64) (spare *flight, blocks []int) {
	if c.second == nil {
		return nil, nil
	}
	timer := time.NewTimer(c.first.usual(bytes))
	defer timer.Stop()
	select {
	case <-main.done:
		return nil, nil
	case <-timer.C:
	}
	blocks = main.outstanding()
	bytes = int64(len(blocks)) * int64(l.of.BlockBytes)
	if len(blocks) == 0 || l.ctx.Err() != nil || !c.second.usable() || !l.pool.frames.TryAcquire(bytes) {
		return nil, nil
	}
	if !l.pool.hedges.spend(bytes) {
		l.pool.frames.Release(bytes)
		return nil, nil
	}
	items := make([]int, len(blocks))
	for k, j := range blocks {
		items[k] = c.items[j]
	}
	c.first.counts.hedged.Add(uint64(len(items)))
	return l.fly(c.second, items, true), blocks
}

// usual is what a peer mostly needs for a fetch of so many bytes.
func (r *remote) usual(bytes int64) time.Duration {
	if d, ok := r.times.sizes[sizeClass(bytes)].p95(); ok {
		return d
	}
	return r.pool.o.GetTime / 10
}

// settle answers block j of a flight, or fails it, when the flight and the spare one, which
// may be nil and has it as block k, have ended. Its bytes are all of one of them. It reports
// whether they are the spare's.
func (l *loading) settle(main *flight, j int, spare *flight, k int) (won bool) {
	defer main.let(j)
	if spare != nil {
		defer spare.let(k)
	}
	i := main.items[j]
	it := &l.items[i]
	good, err := main.proven(j)
	if good && (!main.framed || l.scatter(i, main.blocks[j].Dst[0])) {
		it.Status = engine.Hit
		return false
	}
	if !main.framed && !main.await(j) { // nobody waits any more
		main.late(j)
		return false
	}
	if spare != nil && !good {
		var spareErr error
		good, spareErr = spare.proven(k)
		if good && l.scatter(i, spare.blocks[k].Dst[0]) {
			it.Status = engine.Hit
			return true
		}
		err = errors.Join(err, spareErr)
	}
	switch {
	case it.Status != engine.Unanswered: // by scatter
	case err != nil:
		it.Status, it.Err = engine.Miss, err
	default:
		main.gone(j)
		if spare != nil {
			spare.gone(k)
		}
		if l.ctx.Err() != nil {
			l.late(i)
		} else {
			l.fail(i)
		}
	}
	return false
}

// gone takes in that a node did not give block j; a place that was wrong is forgotten. A
// node that still answers, and has the only copy that is known of a block which was lost,
// may be asked for it again: the transport takes another way then.
func (f *flight) gone(j int) {
	i := f.items[j]
	if at := &f.l.items[i].At; f.blocks[j].Status == transport.Lost && f.stands && at[1] == 0 {
		return
	}
	f.l.tried[i].add(f.remote.number)
	if f.blocks[j].Status == transport.Miss && f.l.pool.hints.remove(&f.l.items[i].ID, f.remote.number) {
		f.remote.counts.stale.Add(1)
	}
}

// scatter copies a block from a private frame to the destination of item i, which nobody
// else uses, unless nobody waits for it any more or the memory has gone; then the item is
// answered.
func (l *loading) scatter(i int, frame []byte) bool {
	if l.ctx.Err() != nil {
		l.late(i)
		return false
	}
	it := &l.items[i]
	err := guard(func() {
		for _, piece := range it.Dst {
			frame = frame[copy(piece, frame):]
		}
	})
	if err != nil {
		it.Status, it.Err = engine.Miss, err
	}
	return err == nil
}

// allowance bounds hedges to a part of the bytes that are asked for at all.
type allowance struct {
	percent int

	mu   sync.Mutex
	left int64 // bytes
}

// allowanceMax is what is saved up, and with what a node begins.
const allowanceMax = 32 << 20

func (a *allowance) earn(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = min(a.left+bytes*int64(max(a.percent, 0))/100, allowanceMax)
}

func (a *allowance) spend(bytes int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left < bytes {
		return false
	}
	a.left -= bytes
	return true
}

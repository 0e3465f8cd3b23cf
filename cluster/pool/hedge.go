package pool

import (
	"errors"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/fault"
)

// errWrong: bytes are not those that their store has for this ID.
var errWrong = errors.New("a block from a peer fails its checksum")

// fetch loads a chunk and answers its items, or fails them.
func (l *loading) fetch(c *chunk) {
	bytes := int64(len(c.items)) * int64(l.of.BlockBytes)
	l.pool.hedges.earn(bytes)
	if l.o.Bounce && !l.takeFrames(c, bytes) {
		return
	}
	main := l.fly(c.first, c.items, l.o.Bounce)
	defer main.cancel()
	spare := l.hedge(c, main, bytes)
	if spare != nil {
		defer spare.cancel()
		select {
		case <-main.done:
		case <-spare.done:
			if spare.complete() {
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
		if l.settle(c, main, spare, j) {
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
// asks the second node for the same blocks, into private frames. nil: it did not.
func (l *loading) hedge(c *chunk, main *flight, bytes int64) *flight {
	if c.second == nil {
		return nil
	}
	timer := time.NewTimer(c.first.usual(bytes))
	defer timer.Stop()
	select {
	case <-main.done:
		return nil
	case <-timer.C:
	}
	if l.ctx.Err() != nil || !c.second.usable() || bytes > l.pool.o.FrameBytes || !l.pool.frames.TryAcquire(bytes) {
		return nil
	}
	if !l.pool.hedges.spend(bytes) {
		l.pool.frames.Release(bytes)
		return nil
	}
	c.first.counts.hedged.Add(uint64(len(c.items)))
	return l.fly(c.second, c.items, true)
}

// usual is what a peer mostly needs for a fetch of so many bytes.
func (r *remote) usual(bytes int64) time.Duration {
	if d, ok := r.times.sizes[sizeClass(bytes)].p95(); ok {
		return d
	}
	return r.pool.o.GetTime / 10
}

// complete reports whether every block has come.
func (f *flight) complete() bool {
	for j := range f.blocks {
		if f.blocks[j].Status != transport.Done {
			return false
		}
	}
	return true
}

// settle answers one item, or fails it, when both flights (spare may be nil) have ended.
// Its bytes are all of one of them. It reports whether they are the spare's.
func (l *loading) settle(c *chunk, main, spare *flight, j int) (won bool) {
	defer main.let(j)
	if spare != nil {
		defer spare.let(j)
	}
	it := &l.items[c.items[j]]
	good, err := main.proven(j)
	if good && (!main.framed || l.scatter(it, main, j)) {
		it.Status = engine.Hit
		return false
	}
	if !main.framed && !main.await(j) { // nobody waits any more
		main.late(j)
		return false
	}
	if spare != nil && !good {
		var badSpare error
		if good, badSpare = spare.proven(j); good && l.scatter(it, spare, j) {
			it.Status = engine.Hit
			return true
		}
		err = errors.Join(err, badSpare)
	}
	switch {
	case it.Status != engine.Unanswered: // by scatter
	case err != nil:
		it.Status, it.Err = engine.Miss, err
	default:
		l.note(c, main, spare, j)
	}
	return false
}

// scatter copies a block from a private frame to its destination, unless nobody waits
// for it any more or the memory has gone; then the item is answered.
func (l *loading) scatter(it *GetItem, f *flight, j int) bool {
	if l.ctx.Err() != nil {
		f.late(j)
		return false
	}
	err := fault.Guard(func() {
		frame := f.blocks[j].Dst[0]
		for _, piece := range it.Dst {
			frame = frame[copy(piece, frame):]
		}
	})
	if err != nil {
		it.Status, it.Err = engine.Miss, err
	}
	return err == nil
}

// note fails an item that none of its flights brought, and forgets places that were wrong.
func (l *loading) note(c *chunk, main, spare *flight, j int) {
	i := c.items[j]
	for _, f := range []*flight{main, spare} {
		if f == nil {
			continue
		}
		l.tried[i].add(f.remote.number)
		if f.blocks[j].Status == transport.Miss && l.pool.hints.remove(&l.items[i].ID, f.remote.number) {
			f.remote.counts.stale.Add(1)
		}
	}
	if l.ctx.Err() != nil {
		l.late(i)
		return
	}
	l.fail(i, 0)
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

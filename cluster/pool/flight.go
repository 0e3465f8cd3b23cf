package pool

import (
	"context"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/planted"
)

// flight is one call for some blocks of a loading: straight into their destinations, or
// into private frames.
type flight struct {
	l      *loading
	remote *remote
	items  []int
	blocks []transport.Block
	framed bool
	cancel context.CancelFunc
	done   chan struct{} // closed when every block has a status of the transport
	free   chan struct{} // room for one: a block was released
	stands bool          // the call has ended, and its link has not: what was lost may come another way

	mu     sync.Mutex
	states []blockState // of each block
}

// blockState is what is known of a block beside its status, and who may use its memory.
type blockState struct {
	answered bool  // by the transport, before the end of the call
	proven   bool  // it has come, and is what its store has for this ID
	err      error // why it is not
	released bool  // the transport is done with its memory, after Late
	tell     bool  // tell the loading's caller then
	over     bool  // the flight's owner wants nothing of it any more: a frame goes back
}

// fly starts a flight; framed ones have their bytes of pool.frames already.
func (l *loading) fly(r *remote, items []int, framed bool) *flight {
	f := &flight{l: l, remote: r, items: items, framed: framed, blocks: make([]transport.Block, len(items)),
		states: make([]blockState, len(items)), done: make(chan struct{}), free: make(chan struct{}, 1)}
	for j, i := range items {
		if framed {
			f.blocks[j].Dst = [][]byte{make([]byte, l.of.BlockBytes)}
		} else {
			f.blocks[j].Dst = l.items[i].Dst
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.pool.o.GetTime)
	f.cancel = cancel
	if !l.pool.spawn(func() { f.run(ctx) }) {
		close(f.done)
	}
	return f
}

// run makes the call, and judges the peer by it.
func (f *flight) run(ctx context.Context) {
	defer close(f.done)
	r := f.remote
	link, err := r.ready(ctx)
	if err != nil {
		return // nothing was begun
	}
	ids := make([]ID, len(f.items))
	for j, i := range f.items {
		ids[j] = f.l.items[i].ID
	}
	var flags uint32
	if f.l.o.NoTouch {
		flags |= peer.GetNoTouch
	}
	rest := peer.AppendGet(nil, flags, ids)
	began := time.Now()
	r.times.begin()
	err = r.scoped(ctx, link, f.l.of, func(scope []byte) error {
		if !f.clean() { // the first try was given up
			return ctx.Err()
		}
		_, err := link.Fetch(ctx, peer.KindGet, append(scope, rest...), &transport.Fetching{Blocks: f.blocks, Arrived: f.arrived, Released: f.released})
		return err
	})
	select {
	case <-link.Gone():
	default:
		f.stands = true
	}
	f.account(ctx, err, time.Since(began))
}

// clean makes blocks as they are before a try, whatever an earlier one has answered; false:
// the transport still has memory of that one.
func (f *flight) clean() bool {
	for j := range f.blocks {
		if f.busy(j) {
			return false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for j := range f.blocks {
		f.blocks[j].Status, f.states[j] = transport.Unanswered, blockState{}
	}
	return true
}

// account counts a flight and judges the peer by it.
func (f *flight) account(ctx context.Context, err error, took time.Duration) {
	r := f.remote
	var n [transport.Faulted + 1]int
	for j := range f.blocks {
		n[f.blocks[j].Status]++
	}
	r.times.end(int64(n[transport.Done]) * int64(f.l.of.BlockBytes))
	r.counts.misses.Add(uint64(n[transport.Miss]))
	r.counts.late.Add(uint64(n[transport.Late]))
	r.counts.refused.Add(uint64(n[transport.Refused]))
	r.counts.lost.Add(uint64(n[transport.Lost]))
	if n[transport.Done] == len(f.blocks) {
		r.times.fetched(int64(len(f.blocks))*int64(f.l.of.BlockBytes), took)
	}
	_, refused := codeOf(err)
	switch {
	case r.ctx.Err() != nil:
	case n[transport.Lost] > 0 && f.stands:
		// A way of the blocks has failed, for all that were on it at once: no reason to ask
		// the peer for nothing, as long as it answers.
		r.counts.failures.Add(1)
		r.doubt()
	case ctx.Err() == nil, n[transport.Late] == 0 && (err == nil || refused):
		r.judge(err)
	case ctx.Err() == context.DeadlineExceeded && f.l.ctx.Err() == nil:
		r.judge(ctx.Err()) // it had its full time
	default:
		r.doubt()
	}
}

// released is the transport's word that it is done with the memory of a late block.
func (f *flight) released(j int) {
	f.mu.Lock()
	m := &f.states[j]
	m.released = true
	tell, over := m.tell, m.over
	f.mu.Unlock()
	select {
	case f.free <- struct{}{}:
	default:
	}
	if tell && f.l.o.Released != nil {
		f.l.o.Released(f.items[j])
	}
	if over {
		f.giveFrame()
	}
}

func (f *flight) giveFrame() {
	if f.framed {
		f.l.pool.frames.Release(int64(f.l.of.BlockBytes))
	}
}

// busy reports whether the transport may still write to block j's memory. Only after done.
func (f *flight) busy(j int) bool {
	if f.blocks[j].Status != transport.Late {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.states[j].released
}

// await waits until nothing writes to block j's memory any more, and reports whether that
// was before nobody waited for the answer.
func (f *flight) await(j int) bool {
	for f.busy(j) {
		select {
		case <-f.free:
		case <-f.l.ctx.Done():
			return !f.busy(j)
		}
	}
	return true
}

// let says that the flight's owner wants nothing more of block j.
func (f *flight) let(j int) {
	busy := f.busy(j)
	f.mu.Lock()
	if busy && f.states[j].released {
		busy = false
	}
	f.states[j].over = busy
	f.mu.Unlock()
	if !busy {
		f.giveFrame()
	}
}

// late answers Late for block j, whose destination the transport may still have.
func (f *flight) late(j int) {
	i := f.items[j]
	if f.framed || !f.busy(j) {
		f.l.late(i)
		return
	}
	f.l.items[i].Status = engine.Late
	f.mu.Lock()
	now := f.states[j].released
	now = now || planted.Active(planted.ReleaseEarly)
	f.states[j].tell = !now
	f.mu.Unlock()
	if now && f.l.o.Released != nil {
		f.l.o.Released(i)
	}
}

// arrived is the transport's word that block j is answered, while others may still be on
// their way: it is proven at once.
func (f *flight) arrived(j int) {
	b, c := &f.blocks[j], &f.remote.counts
	var err error
	proven := false
	switch b.Status {
	case transport.Faulted:
		err = ErrMemory
	case transport.Done:
		var sum uint64
		err = guard(func() { sum = engine.Checksum(f.l.items[f.items[j]].ID, b.Dst) })
		switch proven = err == nil && (sum == b.Checksum || planted.Active(planted.TrustPeerBytes)); {
		case proven:
			c.hits.Add(1)
			c.readBytes.Add(uint64(f.l.of.BlockBytes))
		case err == nil:
			c.wrong.Add(1)
			err = errWrong
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.states[j]
	s.answered, s.proven, s.err = true, proven, err
}

// proven reports whether block j has arrived whole; err says why not. Only after done.
func (f *flight) proven(j int) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states[j].proven, f.states[j].err
}

// complete reports whether all blocks have come. Only after done.
func (f *flight) complete() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for j := range f.states {
		if !f.states[j].proven {
			return false
		}
	}
	return true
}

// outstanding are the blocks that are not answered yet.
func (f *flight) outstanding() (some []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for j := range f.states {
		if !f.states[j].answered {
			some = append(some, j)
		}
	}
	return some
}

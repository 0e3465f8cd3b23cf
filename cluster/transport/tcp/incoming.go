package tcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine/fault"
)

// incoming is what a handler of a Push receives from. The peer sends the block that is
// received and the one behind it. A block whose bytes come before the handler says
// where to is kept in memory of our own, so that it holds nobody else's up.
type incoming struct {
	r     *request
	sizes []uint32

	mu      sync.Mutex
	blocks  []arriving
	next    int // the block that Receive takes
	allowed int // blocks that the peer may send
	closed  bool
}

// arriving is a block on its way in.
type arriving struct {
	m      *memory // where it goes; nil: not known yet
	own    []byte  // what m is if the handler came too late
	skip   bool
	got    uint32
	seen   seen
	failed error         // it cannot be had whole
	known  chan struct{} // closed when the handler has said where to
	ended  chan struct{} // closed when it has come, or has failed
	free   chan struct{} // closed when nothing touches m any more
}

func newIncoming(r *request, sizes []uint32) *incoming {
	in := &incoming{r: r, sizes: sizes, blocks: make([]arriving, len(sizes))}
	for i := range in.blocks {
		a := &in.blocks[i]
		a.known, a.ended, a.free = make(chan struct{}), make(chan struct{}), make(chan struct{})
	}
	return in
}

// Blocks implements transport.Incoming.
func (in *incoming) Blocks() int { return len(in.sizes) }

// BlockBytes implements transport.Incoming.
func (in *incoming) BlockBytes(i int) int { return int(in.sizes[i]) }

// Receive implements transport.Incoming.
func (in *incoming) Receive(dst [][]byte) error {
	a, err := in.expect(dst)
	if err != nil || a.skip {
		return err
	}
	ctx := in.r.ctx
	select {
	case <-a.ended:
	case <-ctx.Done():
	}
	in.mu.Lock()
	err = a.failed
	whole := in.endedLocked(a)
	in.mu.Unlock()
	switch {
	case err == nil && !whole:
		err = context.Cause(ctx)
	case err == nil && a.own != nil:
		err = in.copyOut(a, dst)
	}
	switch {
	case a.own == nil && err != nil:
		a.m.close()
		<-a.free
	case a.own != nil && whole: // nothing of it comes any more
		in.mu.Lock()
		a.own, a.m = nil, nil
		in.mu.Unlock()
	}
	return err
}

func (in *incoming) endedLocked(a *arriving) bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// expect says where the next block goes, and lets the peer send it and one more.
func (in *incoming) expect(dst [][]byte) (*arriving, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := in.next
	if i == len(in.blocks) {
		return nil, fmt.Errorf("all %d blocks were received", i)
	}
	if dst != nil && uint64(sizeOf(dst)) != uint64(in.sizes[i]) {
		panic(fmt.Sprintf("block %d of %d bytes is received into %d", i, in.sizes[i], sizeOf(dst)))
	}
	in.next++
	a := &in.blocks[i]
	if a.skip = dst == nil; a.m == nil && !a.skip {
		a.m = &memory{pieces: dst, freed: func(int) { close(a.free) }}
	}
	close(a.known)
	if allowed := min(len(in.blocks), i+2); allowed > in.allowed {
		in.allowed = allowed
		in.r.g.calls.add(&item{h: header{Type: typeGo, Call: in.r.h.Call, Index: uint32(allowed)}})
	}
	return a, nil
}

// copyOut copies a block that had to be kept.
func (in *incoming) copyOut(a *arriving, dst [][]byte) error {
	return fault.Guard(func() {
		from := a.own
		for _, p := range dst {
			from = from[copy(p, from):]
		}
	})
}

// handlerMoment is how long the reader of a connection waits for a handler that has not
// said yet where a block goes: a little longer than it takes to wake it.
const handlerMoment = time.Millisecond

// hear takes in what the peer sends of a block.
func (in *incoming) hear(f *conn, h *header) error {
	i := int(h.Index)
	in.mu.Lock()
	if i >= in.allowed {
		in.mu.Unlock()
		return malformed("block %d comes where %d were wanted", i, in.allowed)
	}
	a := &in.blocks[i]
	if h.Type == typeAbort {
		in.failLocked(a, errSourceGone)
		in.mu.Unlock()
		return nil
	}
	if h.Total != in.sizes[i] || !a.seen.add(h.Offset) {
		in.mu.Unlock()
		return malformed("a chunk of block %d, of %d bytes, that was not wanted", i, h.Total)
	}
	m := in.placeLocked(a, h)
	in.mu.Unlock()
	if m == nil {
		return f.drop(h)
	}
	o, err := f.in.into(m, int(h.Offset), int(h.Length))
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	switch o {
	case destinationGone:
		f.s.t.counters.faults.Add(1)
		in.failLocked(a, errDestinationGone)
		return nil
	case sourceGone:
		in.failLocked(a, errSourceGone)
		return nil
	}
	if a.got += h.Length; a.got == h.Total && a.failed == nil {
		close(a.ended)
	}
	return nil
}

// placeLocked is where a chunk goes; nil: nowhere. It gives the lock away while it waits.
func (in *incoming) placeLocked(a *arriving, h *header) *memory {
	if a.m == nil && !a.skip && !in.closed {
		in.mu.Unlock()
		timer := time.NewTimer(handlerMoment)
		select {
		case <-a.known:
		case <-in.r.ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		in.mu.Lock()
	}
	switch {
	case a.skip || in.closed || a.failed != nil:
		return nil
	case a.m == nil:
		a.own = make([]byte, h.Total)
		a.m = &memory{pieces: [][]byte{a.own}, freed: func(int) { close(a.free) }}
	}
	return a.m
}

func (in *incoming) failLocked(a *arriving, err error) {
	if a.failed == nil && !in.endedLocked(a) {
		a.failed = err
		close(a.ended)
	}
}

// close is called when the handler is over: what still comes is dropped.
func (in *incoming) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
}

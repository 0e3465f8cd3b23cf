package node

import (
	"errors"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// The memory tier on the way of a Get. Which put of a key is present, and whether any,
// only the store says: it is asked first, and a block in memory is answered only if it
// is of that very put. So deletions, drops and later puts need not be told to the tier.

// nearBlock is a block of the request that is in memory.
type nearBlock struct {
	index int // in the request
	block memory.Block
}

// findNear asks the stores for the versions of the blocks, and the memory tier for those
// versions. The blocks it has found get a status, so that no chunk has them; copyNear
// must follow.
func (t *transfer) findNear() []nearBlock {
	tier := t.node.memory
	if tier == nil {
		return nil
	}
	if t.versions = t.space.versions(t.keys); t.versions == nil {
		return nil
	}
	items := make([]memory.Item, len(t.keys))
	for i := range items {
		if t.statuses[i] == 0 && t.pieces[i] != nil {
			items[i] = memory.Item{Version: t.versions[i], Depth: uint32(i)}
		}
	}
	near := make([]nearBlock, 0, tier.Find(t.q.c.number, items))
	t.node.ahead.tooSlow(items)
	for i := range items {
		if items[i].Block.Valid() {
			near = append(near, nearBlock{i, items[i].Block})
			t.statuses[i] = byte(wire.Hit)
		}
	}
	return near
}

// versions are the puts that are present, one for each key; nil if a store is closed.
func (s *space) versions(keys []engine.Key) []engine.Version {
	all := make([]engine.Version, len(keys))
	err := s.each(keys, func(p *part, own []engine.Key, at []int) error {
		if at == nil {
			return p.ns.Versions(own, all)
		}
		some := make([]engine.Version, len(own))
		err := p.ns.Versions(own, some)
		for j, i := range at {
			all[i] = some[j]
		}
		return err
	})
	if err != nil {
		return nil
	}
	return all
}

// copyNear gives the blocks that are in memory to the client, as long as it waits.
func (t *transfer) copyNear(near []nearBlock) {
	node := t.node
	for _, b := range near {
		select {
		case <-t.over:
			t.tooLate([]int{b.index})
			b.block.Release()
			continue
		default:
		}
		if err := b.block.CopyTo(t.pieces[b.index]); err != nil {
			t.notCopied(b.index, err)
		} else {
			t.fromMemory++
			node.times.read(time.Now(), time.Since(t.q.came), 1)
		}
		b.block.Release()
	}
}

// notCopied makes a miss of a block that could not be given to the client.
func (t *transfer) notCopied(i int, cause error) {
	t.statuses[i] = byte(wire.Miss)
	if !errors.Is(cause, memory.ErrDecayed) {
		t.node.counters.faults.Add(1)
	}
	t.note("a block was not copied from memory", cause)
}

// readThrough is the part of a chunk that is read into frames of the memory tier, and
// copied to the client from there. nil: nothing is.
type readThrough struct {
	t      *transfer
	chunk  *chunk
	frames []arena.Frame // of the chunk's items; the zero Frame: read straight
}

// through chooses the blocks of a chunk that belong in memory, and has them read there.
func (t *transfer) through(c *chunk, items []engine.GetItem) *readThrough {
	tier := t.node.memory
	if tier == nil || t.versions == nil {
		return nil
	}
	var r *readThrough
	for j, i := range c.items {
		if !tier.Wanted(t.q.c.number, t.versions[i]) {
			continue
		}
		frame, ok := tier.Room(t.space.blockBytes)
		if !ok {
			continue
		}
		if r == nil {
			r = &readThrough{t, c, make([]arena.Frame, len(items))}
		}
		r.frames[j] = frame
		items[j].Dst = [][]byte{frame.Bytes()}
	}
	return r
}

// letGo takes the frame of a late item back from the store, and reports whether there
// is one.
func (r *readThrough) letGo(j int) bool {
	if r == nil || !r.frames[j].Valid() {
		return false
	}
	r.frames[j].Release()
	return true
}

// dropAll gives all frames back: the store has none of them.
func (r *readThrough) dropAll() {
	for j := range r.size() {
		r.letGo(j)
	}
}

func (r *readThrough) size() int {
	if r == nil {
		return 0
	}
	return len(r.frames)
}

// finish copies what was read to the client and keeps it in memory. A late item's
// frame is the store's still; the client's memory is not in use.
func (r *readThrough) finish(items []engine.GetItem) {
	for j := r.size() - 1; j >= 0; j-- { // tail first: a leaf ages before its parent
		frame, it, i := r.frames[j], &items[j], r.chunk.items[j]
		switch {
		case !frame.Valid():
		case it.Status == engine.Late:
			r.t.released(i)
		case it.Status != engine.Hit:
			frame.Release()
		default:
			if err := memory.Scatter(r.t.pieces[i], frame.Bytes()); err != nil {
				it.Status, it.Err = engine.Miss, err
			}
			r.t.node.memory.Add(it.Version, frame, uint32(r.t.space.number), uint32(i), r.t.q.c.number, memory.Read)
		}
	}
}

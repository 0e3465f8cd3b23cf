package engine

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/table"
)

// What the store tells its eviction policies of a use. Blocks of a chain are shown
// tail first, so the block behind was shown just before.

// accessLocked describes a block to the policy.
func (ns *Namespace) accessLocked(rec *table.Record) evict.Access {
	return evict.Access{ID: idBytes(rec.ID), Depth: rec.Depth, Importance: rec.Importance,
		NowNS: time.Since(ns.s.started).Nanoseconds()}
}

// usedLocked describes the use of block i of a list of blocks in the order of their
// chain; 0 is one that is not here.
func (ns *Namespace) usedLocked(refs []table.Ref, i int) evict.Access {
	rec := ns.s.table.At(refs[i])
	a := ns.accessLocked(rec)
	a.Behind = behind(i, len(refs))
	if i+1 < len(refs) && refs[i+1] != 0 {
		// Only a deeper block is behind: what callers claim can make no circle. It may be
		// deeper by more than one, where a node's drives share a chain.
		if next := ns.s.table.At(refs[i+1]); next.Depth > rec.Depth {
			a.Next = evict.Handle(refs[i+1])
		}
	}
	return a
}

// behind is how many blocks of a request follow the one at i. A list of one says
// nothing about the request.
func behind(i, n int) uint32 {
	if n == 1 {
		return math.MaxUint32
	}
	return uint32(n - 1 - i)
}

// order decides in which order the items are stored: from the last to the first.
// Where keys of several groups are given, all blocks of one depth come together: the
// shards of one block (equal keys in several groups) are stored, and leave, as one.
func (b *putBatch) order() {
	items := b.items
	chain := make([]int, len(items))
	for i := range chain {
		chain[i] = i
	}
	if slices.ContainsFunc(items, func(it PutItem) bool { return it.Key.Group != items[0].Key.Group }) {
		slices.SortStableFunc(chain, func(i, j int) int {
			return cmp.Or(cmp.Compare(items[i].Depth, items[j].Depth), cmp.Compare(items[i].Key.Group, items[j].Key.Group))
		})
		b.behind = make([]int, len(items))
		for at, i := range chain {
			b.behind[i] = -1
			if at+1 < len(chain) {
				b.behind[i] = chain[at+1]
			}
		}
	}
	slices.Reverse(chain)
	b.todo = chain
}

// next is the item that follows item i in the order of the chain, -1 if none does.
func (b *putBatch) next(i int) int {
	switch {
	case b.behind != nil:
		return b.behind[i]
	case i+1 < len(b.items):
		return i + 1
	}
	return -1
}

// accessLocked describes item i, whose block may be here or not.
func (b *putBatch) accessLocked(i int) evict.Access {
	s, it, last := b.s, &b.items[i], len(b.items)-1
	a := evict.Access{ID: idBytes(b.ids[i]), Depth: it.Depth, Importance: it.Importance,
		NowNS: time.Since(s.started).Nanoseconds(), Behind: b.behindOf(i), Partial: b.opts.Partial && i == last}
	if n := b.next(i); n >= 0 {
		if ref := s.table.Find(b.ids[n]); ref != 0 && b.follows(i, n, s.table.At(ref)) {
			a.Next = evict.Handle(ref)
			a.Joined = it.Span != 0 && it.Span == b.items[n].Span || b.shards(i, n)
		}
	}
	if i == 0 {
		a.Previous = b.heldLocked(b.after, func(depth uint32) bool { return depth < it.Depth })
	}
	if i == last && a.Next == 0 {
		a.Next = b.heldLocked(b.before, func(depth uint32) bool { return depth > it.Depth })
		a.Joined = a.Next != 0 && b.opts.SpanOn
	}
	return a
}

// heldLocked is a neighbour of the items, if it is here, and at a depth where it can be.
func (b *putBatch) heldLocked(id table.ID, fits func(depth uint32) bool) evict.Handle {
	if id == (table.ID{}) {
		return 0
	}
	ref := b.s.table.Find(id)
	if ref == 0 || !fits(b.s.table.At(ref).Depth) {
		return 0
	}
	return evict.Handle(ref)
}

// behindOf is how many blocks of its request follow item i.
func (b *putBatch) behindOf(i int) uint32 {
	if end := b.opts.EndDepth; end > 0 {
		return end - min(end, b.items[i].Depth)
	}
	return behind(i, len(b.items))
}

// follows says whether item n, with this record, comes behind item i in a chain: it
// is deeper, or another shard of the same block.
func (b *putBatch) follows(i, n int, next *table.Record) bool {
	depth := b.items[i].Depth
	if ref := b.s.table.Find(b.ids[i]); ref != 0 {
		depth = b.s.table.At(ref).Depth // what was given first counts
	}
	return next.Depth > depth || next.Depth == depth && b.shards(i, n)
}

// shards says whether item n is the next shard of item i's block.
func (b *putBatch) shards(i, n int) bool {
	x, y := b.items[i].Key, b.items[n].Key
	return x.Group < y.Group && bytes.Equal(x.Bytes, y.Bytes)
}

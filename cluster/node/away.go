package node

import (
	"errors"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

// The pool on the way of a Get. What is here is read here, as if the node were alone;
// what is not is asked of others meanwhile.

// away are the blocks of a request that are not here.
type away struct {
	pool  *pool.Pool
	space poolSpace
	keys  []engine.Key
	of    pool.Of      // and
	ids   []pool.ID    // of keys, see derive
	index []int        // of each in the request
	at    []pool.Place // of each, as far as it was asked; nil: it was not
}

// awayOf is absentOf with the blocks' IDs.
func (n *Node) awayOf(s *space, keys []engine.Key, here []bool, wanted func(i int) bool) *away {
	a := n.absentOf(s, keys, here, wanted)
	if a != nil {
		a.derive()
	}
	return a
}

// absentOf are the keys that are not here and that wanted, which may be nil, asks for; nil
// if all are here. The node has a pool.
func (n *Node) absentOf(s *space, keys []engine.Key, here []bool, wanted func(i int) bool) *away {
	a := &away{pool: n.pool, space: poolSpace{s, n}}
	for i, yes := range here {
		if !yes && (wanted == nil || wanted(i)) {
			a.keys = append(a.keys, keys[i])
			a.index = append(a.index, i)
		}
	}
	if len(a.keys) == 0 {
		return nil
	}
	return a
}

// derive makes the IDs, which takes a while.
func (a *away) derive() {
	a.of = pool.Of{Namespace: a.space.s.id, BlockBytes: a.space.s.blockBytes}
	a.ids, a.of.Incarnation = a.space.IDs(a.keys)
}

// hideSick takes what lies on sick drives off what is here: in a pool others may have it.
func (s *space) hideSick(keys []engine.Key, here []bool) {
	well := true
	for i := range s.parts {
		well = well && s.parts[i].well()
	}
	if well {
		return
	}
	for i, k := range keys {
		here[i] = here[i] && s.part(k).well()
	}
}

// findAway is what a load asks others for. It has a status then, so that no chunk has it.
func (t *transfer) findAway() *away {
	if t.node.pool == nil {
		return nil
	}
	here, _, _, err := t.space.present(t.keys, engine.MatchOptions{})
	if err != nil {
		return nil // the engine will say so again
	}
	t.space.hideSick(t.keys, here)
	a := t.node.awayOf(t.space, t.keys, here, func(i int) bool { return t.pieces[i] != nil })
	if a != nil {
		t.set(a.index, wire.Miss)
	}
	return a
}

// loadAway loads what is on other nodes. Nothing of a drive is held meanwhile.
func (t *transfer) loadAway(a *away, o engine.GetOptions) {
	items := make([]pool.GetItem, len(a.index))
	for j, i := range a.index {
		items[j] = pool.GetItem{ID: a.ids[j], Dst: t.pieces[i]}
		if a.at != nil {
			items[j].At = a.at[j]
		}
	}
	a.pool.Get(a.of, items, pool.GetOptions{Deadline: o.Deadline, Done: o.Done, Bounce: o.Bounce, NoTouch: t.noTouch,
		Released: func(j int) { t.released(a.index[j]) }})
	hits := 0
	var reads []pool.HotRead
	for j, i := range a.index {
		t.answer(i, items[j].Status, items[j].Err, "a block was not read from a peer")
		if items[j].Status == engine.Hit {
			hits++
			if a.pool.CopiesHot() {
				reads = append(reads, pool.HotRead{ID: a.ids[j], Key: t.keys[i], Depth: uint32(i)})
			}
		}
		if errors.Is(items[j].Err, pool.ErrMemory) {
			t.node.counters.faults.Add(1)
		}
	}
	if len(reads) > 0 {
		a.pool.ReadFar(a.of, reads)
	}
	t.fromAway = hits
	t.node.times.read(time.Now(), time.Since(t.q.came), hits)
}

// loadBehind loads the rest of a prefix whose beginning is here: a has what is missing in
// it. What is behind the first block that is nowhere is a miss. Blocks that are here and
// lie behind others that are not have a status, and get another.
func (t *transfer) loadBehind(a *away, o engine.GetOptions) {
	a.at = a.pool.Find(a.of, a.ids, t.over)
	select {
	case <-t.over:
		t.tooLate(t.indices(a.index[0]))
		return
	default:
	}
	end, found := len(t.keys), 0
	for found < len(a.at) && a.at[found].Known() {
		found++
	}
	first := a.index[0]
	if found < len(a.at) {
		end = a.index[found]
	}
	a.ids, a.index, a.at = a.ids[:found], a.index[:found], a.at[:found]
	homes := make([][]int, len(t.space.parts))
	missing := a.index
	for _, i := range t.indices(first) {
		switch {
		case i >= end:
		case len(missing) > 0 && missing[0] == i:
			missing = missing[1:]
		default:
			k := t.keys[i]
			h := t.space.home(k.Group, k.Bytes)
			homes[h] = append(homes[h], i)
		}
	}
	var running sync.WaitGroup
	for _, c := range t.cut(homes, t.space.parts[0].drive.windows.chunk) {
		running.Go(func() { t.load(&c, o) })
	}
	if len(a.index) > 0 {
		t.loadAway(a, o)
	}
	running.Wait()
}

// indices are the blocks from first on that have memory.
func (t *transfer) indices(first int) (some []int) {
	for i := first; i < len(t.pieces); i++ {
		if t.pieces[i] != nil {
			some = append(some, i)
		}
	}
	return some
}

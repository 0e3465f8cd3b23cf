package plan

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/spillway-kv/spillway/engine/evict"
)

// FIFO and Belady are what policies are compared with; no store has them. FIFO
// evicts the block stored first. Belady knows the future: it evicts the block used
// furthest ahead, or does not store the new one if that is it, and of several the
// one deeper in its chain. No policy has more hits, plain or prefix.
const (
	FIFO   = "fifo"
	Belady = "belady"
)

// Policies are the names that Simulate knows: the engine's, then those for
// comparison.
func Policies() []string { return append(evict.Names(), FIFO, Belady) }

// cache is a simulated store of equal blocks. It belongs to one goroutine.
type cache interface {
	has(block uint32) bool
	// touch notes the use of a block that is here.
	touch(block uint32, a evict.Access)
	// add stores a block that is not here, evicting if there is no room; false if it
	// did not store it.
	add(block uint32, a evict.Access) bool
	// handle is what a.Next calls a block that is here; 0 if it is not.
	handle(block uint32) evict.Handle
	// restart does what closing and opening a store does to its policy.
	restart(nowNS int64) error
	close()
}

func newCache(policy string, t *Trace, capacity int) (cache, error) {
	switch policy {
	case Belady:
		return newFuture(t, capacity), nil
	case FIFO:
		return newHeld(func(most int) (evict.Factory, error) {
			f, err := evict.NewLRU(most)
			return firstInFactory{f}, err
		}, t.Unique, capacity)
	}
	make, err := evict.Named(policy)
	if err != nil {
		return nil, err
	}
	return newHeld(make, t.Unique, capacity)
}

// firstInFactory makes FIFOs: LRUs that no use moves.
type firstInFactory struct{ evict.Factory }

func (f firstInFactory) New() evict.Policy { return firstIn{f.Factory.New()} }

type firstIn struct{ evict.Policy }

func (firstIn) Touch(evict.Handle, evict.Access) {}

// held is a cache under one of the engine's policies.
type held struct {
	make     func(int) (evict.Factory, error)
	factory  evict.Factory
	policy   evict.Policy
	capacity int
	handles  []evict.Handle // of each block; 0: not here
	blocks   []uint32       // of each handle
	stored   []uint64       // of each handle: which store it was, counted
	depths   []uint32       // of each handle
	free     []evict.Handle
	stores   uint64
}

func newHeld(make_ func(int) (evict.Factory, error), unique, capacity int) (*held, error) {
	f, err := make_(capacity)
	if err != nil {
		return nil, err
	}
	c := &held{make: make_, factory: f, policy: f.New(), capacity: capacity, handles: make([]evict.Handle, unique),
		blocks: make([]uint32, capacity+1), stored: make([]uint64, capacity+1), depths: make([]uint32, capacity+1)}
	for h := capacity; h > 0; h-- {
		c.free = append(c.free, evict.Handle(h))
	}
	return c, nil
}

func (c *held) has(block uint32) bool { return c.handles[block] != 0 }

func (c *held) handle(block uint32) evict.Handle { return c.handles[block] }

func (c *held) touch(block uint32, a evict.Access) {
	a.ID = idOf(block)
	c.policy.Touch(c.handles[block], a)
}

func (c *held) add(block uint32, a evict.Access) bool {
	for len(c.free) == 0 {
		h, ok := c.policy.Victim()
		if !ok {
			panic(fmt.Sprintf("plan: the %s holds %d of %d blocks and names no victim", c.policy.Name(), c.policy.Len(), c.capacity))
		}
		if h == a.Next {
			a.Next = 0
		}
		c.policy.Evicted(h, idOf(c.blocks[h]))
		c.handles[c.blocks[h]] = 0
		c.free = append(c.free, h)
	}
	h := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	a.ID = idOf(block)
	c.policy.Admit(h, a)
	c.stores++
	c.handles[block], c.blocks[h], c.stored[h], c.depths[h] = h, block, c.stores, a.Depth
	return true
}

// restart makes a new factory with what the old one saves: the order of uses and
// what was learned. A policy that keeps no times gets the order in which the blocks
// were stored.
func (c *held) restart(nowNS int64) error {
	type saved struct {
		h    evict.Handle
		past evict.Past
	}
	var all []saved
	for h := evict.Handle(1); int(h) <= c.capacity; h++ {
		if c.handles[c.blocks[h]] == h {
			all = append(all, saved{h, c.policy.Past(h)})
		}
	}
	slices.SortFunc(all, func(a, b saved) int {
		if a.past.UsedNS != b.past.UsedNS {
			return cmp.Compare(a.past.UsedNS, b.past.UsedNS)
		}
		if a.past.References > 0 && c.depths[a.h] != c.depths[b.h] {
			return cmp.Compare(c.depths[b.h], c.depths[a.h]) // within a tick the leaf is the older one
		}
		return cmp.Compare(c.stored[a.h], c.stored[b.h])
	})
	learned := c.factory.Learned()
	c.factory.Free()
	f, err := c.make(c.capacity)
	if err != nil {
		return err
	}
	c.factory, c.policy = f, f.New()
	if learned != nil {
		if err := f.Learn(learned); err != nil {
			return err
		}
	}
	for _, s := range all {
		c.policy.Admit(s.h, s.past.Access(evict.Access{ID: idOf(c.blocks[s.h]), Depth: c.depths[s.h]}))
	}
	return nil
}

func (c *held) close() { c.factory.Free() }

// idOf gives a block an ID that looks random, as those of a store do.
func idOf(block uint32) (id [16]byte) {
	x := uint64(block) + 1
	for i := 0; i < 16; i += 8 {
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		x = z ^ z>>31
		binary.LittleEndian.PutUint64(id[i:], x)
	}
	return id
}

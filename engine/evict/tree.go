package evict

import (
	"fmt"

	"github.com/spillway-kv/spillway/engine/offheap"
)

// word is what a tree knows of a block besides its parent, packed into 32 bits:
//
//	references 2 | stage 2 | last 1 | partial 1 | sampled 1 | joined 1 | aside 1 |
//	level 2 | children 8 | owner 13
//
// from the lowest bit up. The owner is 0 if nobody holds the block, and then the
// whole word is.
type word uint32

const (
	referencesMask word = 3      // number of uses - 1, 3 for all above
	stageShift          = 2      // of the depth
	lastBit        word = 1 << 4 // first seen as the last block of a request
	partialBit     word = 1 << 5 // not full
	sampledBit     word = 1 << 6 // a ghost of it is kept
	joinedBit      word = 1 << 7 // of one stretch with the child it was put before
	asideBit       word = 1 << 8
	levelShift          = 9
	childrenShift       = 11
	childrenMax         = 1<<8 - 1
	ownerShift          = 19
	ownerMax            = 1<<13 - 1
)

func (w word) references() uint8 { return uint8(w&referencesMask) + 1 }
func (w word) level() int        { return int(w >> levelShift & 3) }
func (w word) children() int     { return int(w >> childrenShift & childrenMax) }
func (w word) owner() int        { return int(w >> ownerShift) }
func (w word) class() int {
	switch {
	case w&partialBit != 0:
		return partialClass
	case w&lastBit != 0:
		return lastClass
	}
	return int(w & (countClasses - 1))
}

// forest is what the trees of a factory share: 20 bytes a handle.
type forest struct {
	links
	parentMem *offheap.Array[Handle]
	wordMem   *offheap.Array[word]
	usedMem   *offheap.Array[uint32]
	parent    []Handle
	words     []word
	used      []uint32 // tick of the latest use
	owners    []int    // numbers that no tree has now
	ghosts    ghosts
	held      int // blocks of all trees
}

func newForest(max, listsPerLevel int) (f forest, err error) {
	if f.links, err = newLinks(max, levels*listsPerLevel); err != nil {
		return f, err
	}
	var errs [4]error
	f.parentMem, errs[0] = offheap.Make[Handle](max + 1)
	f.wordMem, errs[1] = offheap.Make[word](max + 1)
	f.usedMem, errs[2] = offheap.Make[uint32](max + 1)
	f.ghosts, errs[3] = newGhosts(max)
	for _, err := range errs {
		if err != nil {
			f.free()
			return f, fmt.Errorf("evict: a policy of %d blocks: %w", max, err)
		}
	}
	f.parent, f.words, f.used = f.parentMem.Slice(), f.wordMem.Slice(), f.usedMem.Slice()
	for n := ownerMax; n > 0; n-- {
		f.owners = append(f.owners, n)
	}
	return f, nil
}

func (f *forest) free() {
	f.links.free()
	if f.parentMem != nil {
		f.parentMem.Free()
	}
	if f.wordMem != nil {
		f.wordMem.Free()
	}
	if f.usedMem != nil {
		f.usedMem.Free()
	}
	f.ghosts.free()
	f.parent, f.words, f.used = nil, nil, nil
}

// tree keeps the blocks of one policy in lists and knows which of them have
// children, so that these are passed over. Per level of importance there are some
// lists of the policy's own and one, the last, of those set aside: blocks that
// came to the old end of their list while they had children. They come back there
// when the last child goes; the order by age is kept, since what is in the list by
// then is younger.
//
// A parent that has to go before its children (its segment is given up, say)
// leaves them with a number that may come to stand for another block. So the count
// of children can be too low, never too high: at worst a block is taken for a
// leaf early.
type tree struct {
	*forest
	lists
	perLevel int
	queue    func(word) int // the list of a level that a block belongs to
	number   int            // owner of the blocks held, while there are any
	held     int
	pending  Handle // next to go, since its stretch has begun to
}

func newTree(f *forest, perLevel int, queue func(word) int) tree {
	return tree{forest: f, lists: newLists(f.links), perLevel: perLevel, queue: queue}
}

// Len is the number of blocks held.
func (t *tree) Len() int { return t.held }

// holds says whether this tree holds the block.
func (t *tree) holds(h Handle) bool {
	return t.held > 0 && int(h) < len(t.words) && t.words[h].owner() == t.number
}

// enter begins to hold a block, which is in no list yet.
func (t *tree) enter(h Handle, a Access) {
	if int(h) >= len(t.words) {
		panic(fmt.Sprintf("evict: block %d in a policy of %d", h, len(t.words)-1))
	}
	if t.words[h] != 0 {
		panic(fmt.Sprintf("evict: block %d admitted twice", h))
	}
	if t.held == 0 {
		last := len(t.owners) - 1 // a store has fewer namespaces than there are numbers
		t.number, t.owners = t.owners[last], t.owners[:last]
	}
	t.held++
	t.forest.held++
	t.words[h] = word(t.number)<<ownerShift | word(levelOf(a))<<levelShift
	t.parent[h] = 0
	t.ghosts.fit(t.forest.held)
}

// kin notes the neighbours in the chain. fresh: the block has just entered.
func (t *tree) kin(h Handle, a Access, fresh bool) {
	if n := a.Next; n != 0 && n != h && t.holds(n) {
		t.adopt(h, n, fresh)
	}
	if p := a.Previous; p != 0 && p != h && t.holds(p) {
		t.adopt(p, h, false)
	}
	if a.Next != 0 {
		t.words[h] &^= joinedBit
		if a.Joined {
			t.words[h] |= joinedBit
		}
	}
	if t.pending == h {
		t.pending = 0 // used again
	}
}

// adopt makes p the parent of child. fresh: p has no children yet, whatever child
// remembers of an earlier block of that number.
func (t *tree) adopt(p, child Handle, fresh bool) {
	if old := t.parent[child]; old == p && !fresh {
		return
	} else if old != p && old != 0 {
		t.orphan(child)
	}
	t.parent[child] = p
	if t.words[p].children() < childrenMax {
		t.words[p] += 1 << childrenShift
	}
}

// orphan takes a block from its parent and returns him, 0 if he is not here.
func (t *tree) orphan(child Handle) Handle {
	p := t.parent[child]
	t.parent[child] = 0
	if p == 0 || !t.holds(p) {
		return 0
	}
	if t.words[p].children() == 0 {
		return p
	}
	t.words[p] -= 1 << childrenShift
	if w := t.words[p]; w.children() == 0 && w&asideBit != 0 {
		t.take(p)
		t.pushOld(t.listOf(p), p)
	}
	return p
}

func (t *tree) listOf(h Handle) int {
	w := t.words[h]
	return w.level()*t.perLevel + t.queue(w)
}

// take takes a held block out of its list, for relist or for good.
func (t *tree) take(h Handle) {
	t.unlink(h)
	t.words[h] &^= asideBit
}

// relist puts a block to the young end of the list that it belongs to now.
func (t *tree) relist(h Handle) { t.push(t.listOf(h), h) }

// setLevel notes the importance.
func (t *tree) setLevel(h Handle, a Access) {
	t.words[h] = t.words[h]&^(3<<levelShift) | word(levelOf(a))<<levelShift
}

// mustHold panics if this tree does not hold the block.
func (t *tree) mustHold(h Handle) {
	if !t.holds(h) {
		panic(fmt.Sprintf("evict: block %d is not held", h))
	}
}

// leave ends to hold a block. If it was evicted, the rest of its stretch is next.
func (t *tree) leave(h Handle, evicted bool) {
	t.take(h)
	t.lists.prev[h], t.lists.next[h] = 0, 0
	if p := t.orphan(h); t.pending == h {
		t.pending = 0
	} else if evicted && p != 0 && t.words[p]&joinedBit != 0 {
		t.pending = p
	}
	t.words[h] = 0
	t.forest.held--
	if t.held--; t.held == 0 {
		t.owners = append(t.owners, t.number)
		t.pending = 0
	}
}

// leaf names the oldest block of a list that has no children, false if there is
// none. Those it meets before are set aside.
func (t *tree) leaf(list int) (Handle, bool) {
	for {
		h, ok := t.last(list)
		if !ok || t.words[h].children() == 0 {
			return h, ok
		}
		t.unlink(h)
		t.words[h] |= asideBit
		t.push((list/t.perLevel+1)*t.perLevel-1, h)
	}
}

// goes names a block of this level that goes whatever the policy's order: the
// next of a stretch.
func (t *tree) goes(level int) (Handle, bool) {
	h := t.pending
	return h, h != 0 && t.words[h].level() == level && t.words[h].children() == 0
}

// covered names the block of this level that was set aside first: where there is
// no leaf, all children are more important, and importance comes first.
func (t *tree) covered(level int) (Handle, bool) { return t.last((level+1)*t.perLevel - 1) }

// Time is told in ticks of 268 ms. They begin below zero, for uses before the store
// was opened: up to 9 years before and 27 years after.
const (
	tickShift = 28
	tickZero  = 1 << 30
)

func tickOf(ns int64) uint32 { return uint32(min(max(ns>>tickShift+tickZero, 0), 1<<32-1)) }

func tickNS(tick uint32) int64 { return (int64(tick) - tickZero) << tickShift }

// Past is what a held block should be admitted with after a restart.
func (t *tree) Past(h Handle) Past {
	t.mustHold(h)
	w := t.words[h]
	return Past{UsedNS: tickNS(t.used[h]), References: w.references(), Last: w&lastBit != 0, Partial: w&partialBit != 0}
}

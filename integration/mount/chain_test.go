package mount

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/engine/evict"
)

// heard are the accesses that the policies of one store were told at admissions, as
// depths of blocks.
type heard struct {
	mu     sync.Mutex
	chains map[uint32]relation // by depth
	depths map[evict.Handle]uint32
}

type relation struct {
	next, previous int // depths; -1: none
	joined         bool
}

type listeningFactory struct {
	evict.Factory
	*heard
}

func (f listeningFactory) New() evict.Policy { return listeningPolicy{f.Factory.New(), f.heard} }

type listeningPolicy struct {
	evict.Policy
	*heard
}

func (p listeningPolicy) Admit(h evict.Handle, a evict.Access) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.depths[h] = a.Depth
	at := func(of evict.Handle) int {
		if of == 0 {
			return -1
		}
		return int(p.depths[of])
	}
	p.chains[a.Depth] = relation{at(a.Next), at(a.Previous), a.Joined}
	p.Policy.Admit(h, a)
}

// TestChainGrowsOverDrives: on each of several drives a policy hears how the blocks that
// lie there follow each other, also where a chain grows from call to call as far as
// the block before it is on the same drive.
func TestChainGrowsOverDrives(t *testing.T) {
	r := newRig(t, 3)
	var all []*heard
	r.store.Policy = func(most int) (evict.Factory, error) {
		f, err := evict.NewHazard(most)
		h := &heard{chains: map[uint32]relation{}, depths: map[evict.Handle]uint32{}}
		all = append(all, h)
		return listeningFactory{f, h}, err
	}
	r.start()
	c := r.dial()
	ns, p := open(t, c, "m"), newPool(t, c, 24)
	for i := range 24 {
		p.fill(i, i)
	}
	blocks := p.blocks(0, 24)
	wantAll(t, ns.Put(blocks[:12], client.PutOptions{}).Wait(), client.Stored)
	wantAll(t, ns.Put(blocks[12:], client.PutOptions{Depth: 12, After: blocks[11].Key, Span: true}).Wait(), client.Stored)
	total, grown := 0, 0
	for _, h := range all {
		depths := slices.Sorted(maps.Keys(h.chains))
		total += len(depths)
		for i, d := range depths {
			want := relation{next: -1, previous: -1}
			if i+1 < len(depths) && (d >= 12 || depths[i+1] < 12) {
				want.next, want.joined = int(depths[i+1]), d >= 12
			}
			if d >= 12 && i > 0 && depths[i-1] == 11 {
				want.previous = 11
				grown++
			}
			if got := h.chains[d]; got != want {
				t.Errorf("depth %d of %v: %+v, want %+v", d, depths, got, want)
			}
		}
	}
	if total != 24 || grown != 1 {
		t.Errorf("%d blocks admitted, %d as the growth of a chain", total, grown)
	}
}

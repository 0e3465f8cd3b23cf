package evict

import "math"

const (
	// sampleEach: of a chain every so manieth block leaves a ghost, and so do the
	// last sampleEnds of a request. A block has been used as often as the one
	// behind it in the chain at least, so these few stand for all, and ghosts
	// reach back several times as far.
	sampleEach = 16
	sampleEnds = 3

	listsPerLevel = classes + 1
)

// hazards makes the hazard policies of a store.
type hazards struct {
	forest
	rates *rates
}

// NewHazard makes a factory of hazard policies for handles 0..max: 20 bytes a
// handle outside the Go heap, resident as handles are used, and 8 more for a ghost,
// of which there are at most as many as blocks held.
//
// A block is of a class: by the number of its uses (1, 2, 3, 4 and more) and by its
// depth (0, 1 to 7, 8 to 31, 32 and more). Partial blocks are a class of their own,
// and so are the others first seen as the last of a request. Within a class blocks lie
// in the order of their latest use. For each class the policy learns how likely a use
// is at which age, from what it holds and from its ghosts; the constants are in
// rates.go. It evicts, among the oldest blocks of all classes, the one least
// likely to be used at its age. Blocks with children are passed over.
//
// Every method takes constant time, but for the blocks that the search for a victim
// sets aside, each once, and for Admit and Touch after an idle time: they let it
// pass, some microseconds for a second, some milliseconds at most.
func NewHazard(max int) (Factory, error) {
	f, err := newForest(max, listsPerLevel)
	if err != nil {
		return nil, err
	}
	h := &hazards{f, newRates()}
	h.ghosts.dropped = h.rates.drop
	return h, nil
}

// New makes a policy that holds nothing.
func (f *hazards) New() Policy {
	return &hazard{newTree(&f.forest, listsPerLevel, word.class), f.rates}
}

// Learned is the rates' events and exposures.
func (f *hazards) Learned() []byte { return f.rates.save() }

// Learn takes them over.
func (f *hazards) Learn(b []byte) error { return f.rates.load(b) }

// Free gives the memory back.
func (f *hazards) Free() { f.forest.free() }

type hazard struct {
	tree
	rates *rates
}

// Name returns "hazard".
func (p *hazard) Name() string { return Hazard }

// Admit adds a block, as one that is known if it has a ghost.
func (p *hazard) Admit(h Handle, a Access) {
	p.enter(h, a)
	uses := a.References
	if uses == 0 {
		p.rates.advance(tickOf(a.NowNS))
		if class, tick, ok := p.ghosts.take(&a.ID); ok {
			p.rates.use(class, tick)
			if class < countClasses {
				uses = uint8(word(class)&referencesMask) + 1
			} else {
				uses = 1
			}
		}
		uses++
	}
	p.place(h, a, uses, true)
}

// Touch notes a use, or a move.
func (p *hazard) Touch(h Handle, a Access) {
	p.mustHold(h)
	p.take(h)
	uses := p.words[h].references()
	now := tickOf(a.NowNS)
	p.rates.advance(now)
	class, tick := p.words[h].class(), p.used[h]
	if a.Moved {
		p.rates.drop(class, tick)
	} else {
		p.rates.use(class, tick)
		uses++
	}
	p.place(h, a, uses, false)
}

// place gives a block its class and its place as the youngest.
func (p *hazard) place(h Handle, a Access, uses uint8, fresh bool) {
	if a.Next != 0 && p.holds(a.Next) {
		uses = max(uses, p.words[a.Next].references())
	}
	if !a.Moved {
		p.kin(h, a, fresh)
	}
	p.setLevel(h, a)
	w := p.words[h]&^(referencesMask|3<<stageShift) | word(min(uses, 4)-1) | stageOf(a.Depth)<<stageShift
	if fresh && a.Behind == 0 {
		w |= lastBit
	}
	if a.Partial {
		w |= partialBit
	}
	if a.Depth%sampleEach == sampleEach-1 || a.Behind < sampleEnds {
		w |= sampledBit
	}
	p.words[h] = w
	p.used[h] = tickOf(a.NowNS)
	p.relist(h)
	p.rates.advance(p.used[h])
	p.rates.add(w.class(), p.used[h])
}

// Victim names the oldest block of the class whose oldest is least likely to be
// used at its age.
func (p *hazard) Victim() (Handle, bool) {
	for level := range levels {
		if h, ok := p.goes(level); ok {
			return h, true
		}
		best, least, found := Handle(0), math.Inf(1), false
		for class := range classes {
			h, ok := p.leaf(level*listsPerLevel + class)
			if !ok {
				continue
			}
			age := p.rates.now - p.used[h]
			if rate := p.rates.rate[class][p.rates.bucket(age)]; rate < least || rate == least && p.used[h] < p.used[best] {
				best, least, found = h, rate, true
			}
		}
		if found {
			return best, true
		}
		if h, ok := p.covered(level); ok {
			return h, true
		}
	}
	return 0, false
}

// Evicted removes a block and may keep its ghost.
func (p *hazard) Evicted(h Handle, id [16]byte) {
	p.mustHold(h)
	class, tick := p.words[h].class(), p.used[h]
	if p.words[h]&sampledBit == 0 || !p.ghosts.add(&id, class, tick) {
		p.rates.drop(class, tick)
	}
	p.leave(h, true)
}

// Forget removes a block.
func (p *hazard) Forget(h Handle) {
	p.mustHold(h)
	p.rates.drop(p.words[h].class(), p.used[h])
	p.leave(h, false)
}

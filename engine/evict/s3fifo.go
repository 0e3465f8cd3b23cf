package evict

// The lists of a level: blocks new here, blocks that proved useful, those set aside.
const (
	smallQueue = iota
	mainQueue
	s3Lists = iota + 1
)

const (
	mainBit     word = 1 << stageShift // in the main queue
	smallShare       = 10              // the small queue's part of the blocks is one of so many
	promoteHits      = 2               // uses in the small queue after which a block moves to the main one
)

// s3fifos makes the S3-FIFO policies of a store.
type s3fifos struct{ forest }

// NewS3FIFO makes a factory of S3-FIFO policies (Yang et al., "FIFO queues are all
// you need for cache eviction", SOSP 2023) for handles 0..max, in the memory of
// NewHazard.
//
// A new block enters the small queue, a tenth of the blocks; one used twice more
// there moves on to the main queue, the others are evicted from its end and leave a
// ghost. A block that has a ghost enters the main queue at once. At the end of the
// main queue a block goes round once more for each use, of three at most. To have a
// child counts as use: at the end of the small queue a parent moves on to the main
// one, and there it is passed over.
//
// Admit, Touch and removals take constant time; Victim moves each block at most
// once for each use.
func NewS3FIFO(max int) (Factory, error) {
	f, err := newForest(max, s3Lists)
	if err != nil {
		return nil, err
	}
	return &s3fifos{f}, nil
}

// New makes a policy that holds nothing.
func (f *s3fifos) New() Policy {
	return &s3fifo{tree: newTree(&f.forest, s3Lists, func(w word) int { return int(w & mainBit >> stageShift) })}
}

// Learned is nothing.
func (f *s3fifos) Learned() []byte { return nil }

// Learn learns nothing.
func (f *s3fifos) Learn([]byte) error { return nil }

// Free gives the memory back.
func (f *s3fifos) Free() { f.forest.free() }

// s3fifo counts in a word's references the uses since the block was last moved by
// Victim, less one.
type s3fifo struct {
	tree
	inMain [levels]int // blocks of the main queue, those set aside among them
	inAll  [levels]int
}

// Name returns "s3fifo".
func (p *s3fifo) Name() string { return S3FIFO }

// Admit adds a block as the youngest of the small queue, or of the main one if it
// has a ghost or was used before a restart.
func (p *s3fifo) Admit(h Handle, a Access) {
	p.enter(h, a)
	_, _, known := p.ghosts.take(&a.ID)
	if known || a.References > 1 {
		p.words[h] |= mainBit
	}
	p.count(h, 1)
	p.kin(h, a, true)
	p.used[h] = tickOf(a.NowNS)
	p.relist(h)
}

// Touch counts a use. Only another importance moves the block.
func (p *s3fifo) Touch(h Handle, a Access) {
	p.mustHold(h)
	if !a.Moved {
		if p.words[h]&referencesMask < referencesMask {
			p.words[h]++
		}
		p.kin(h, a, false)
		p.used[h] = tickOf(a.NowNS)
	}
	if levelOf(a) == p.words[h].level() && !a.Moved {
		return
	}
	p.take(h)
	p.count(h, -1)
	p.setLevel(h, a)
	p.count(h, 1)
	p.relist(h)
}

// count adds a block to its level's numbers, or takes it out.
func (p *s3fifo) count(h Handle, n int) {
	level := p.words[h].level()
	p.inAll[level] += n
	if p.words[h]&mainBit != 0 {
		p.inMain[level] += n
	}
}

// Victim names the oldest block of the small queue, or of the main one if that has
// more than its share, after having moved on those that were used.
func (p *s3fifo) Victim() (Handle, bool) {
	for level := range levels {
		if p.inAll[level] == 0 {
			continue
		}
		if h, ok := p.goes(level); ok {
			return h, true
		}
		for {
			small, inSmall := p.last(level*s3Lists + smallQueue)
			main, inMain := p.leaf(level*s3Lists + mainQueue)
			if !inSmall && !inMain {
				break
			}
			if inMain && (!inSmall || p.inMain[level]*smallShare > p.inAll[level]*(smallShare-1)) {
				if p.words[main]&referencesMask == 0 {
					return main, true
				}
				p.words[main]--
				p.take(main)
				p.relist(main)
				continue
			}
			if p.words[small]&referencesMask < promoteHits && p.words[small].children() == 0 {
				return small, true
			}
			p.take(small)
			p.words[small] = p.words[small]&^referencesMask | mainBit
			p.inMain[level]++
			p.relist(small)
		}
		if h, ok := p.covered(level); ok {
			return h, true
		}
	}
	return 0, false
}

// Evicted removes a block; one of the small queue leaves a ghost.
func (p *s3fifo) Evicted(h Handle, id [16]byte) {
	p.mustHold(h)
	if p.words[h]&mainBit == 0 {
		p.ghosts.add(&id, 0, p.used[h])
	}
	p.count(h, -1)
	p.leave(h, true)
}

// Forget removes a block.
func (p *s3fifo) Forget(h Handle) {
	p.mustHold(h)
	p.count(h, -1)
	p.leave(h, false)
}

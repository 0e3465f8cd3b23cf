package wal

// Tail says how the log ended.
type Tail uint8

const (
	// TailClean: behind the last record nothing was written, or nothing exists.
	TailClean Tail = iota
	// TailTorn: behind it lies a frame that does not prove itself or a place that
	// cannot be read. After a crash that is normal.
	TailTorn
	// TailUnsynced: behind a hole that nobody had been promised there were more
	// frames; they were discarded.
	TailUnsynced
)

func (t Tail) String() string {
	return [...]string{"clean", "torn", "unsynced"}[t]
}

// Gap is damage in the middle of the log: the records After < p < Before had
// been on stable media and are lost.
type Gap struct {
	After, Before Position
	// BarrierLost: one of them was appended as a barrier, or nothing can tell.
	BarrierLost bool
	// Cause is a *CorruptError with the first damaged place.
	Cause error
}

// replay is what recovery decided about the items of all files.
type replay struct {
	apply      []item // frames, in order; first is the first position to replay
	last       Position
	dataSynced Position
	gaps       []Gap
	tail       Tail
	tailAt     int // index into items; -1: none
	discarded  int // frames behind the end
}

// supersede takes from older files what newer ones have replaced: after a crash
// a new file begins at the position where the surviving log ended, and what an
// older file holds from there on was discarded.
func supersede(files []*scanned) {
	limit := ^Position(0)
	for i := len(files) - 1; i >= 0; i-- {
		f := files[i]
		if f.first != 0 && f.first >= limit {
			f.items = nil
			continue
		}
		kept := f.items[:0]
		for _, it := range f.items {
			if it.seen == seenFrame && !it.recycled {
				if it.first >= limit {
					continue
				}
				it.last = min(it.last, limit-1)
			}
			kept = append(kept, it)
		}
		f.items = kept
		if f.first != 0 {
			limit = f.first
		}
	}
}

// prospect is what the live items at and behind an index tell.
type prospect struct {
	next    Position // first position of the nearest one; 0: there is none
	synced  Position // highest promise of any of them
	frame   bool     // a frame is among them
	barrier Position // barrier position of the nearest frame
}

// prospects computes them for every index, and for the end.
func prospects(items []item) []prospect {
	ps := make([]prospect, len(items)+1)
	for i := len(items) - 1; i >= 0; i-- {
		p, it := ps[i+1], &items[i]
		if it.live() && !it.recycled {
			p.next, p.synced = it.first, max(p.synced, it.synced)
			if it.seen == seenFrame {
				p.frame, p.barrier = true, it.barrier
			}
		}
		ps[i] = p
	}
	return ps
}

// holeBefore judges the records from expected up to what p has next.
func (p *prospect) holeBefore(expected Position) hole {
	switch {
	case p.next == 0:
		return holeEnd
	case p.next <= expected:
		return holeNone
	case p.synced >= p.next-1:
		return holeSynced
	case p.synced >= expected:
		return holePartly
	}
	return holeUnsynced
}

// judge walks the items of all files and decides about each. It is a pure
// function of its arguments. Positions up to from are known to the caller; damaged
// makes the error that tells of an item.
func judge(items []item, from Position, damaged func(*item) error) replay {
	r := replay{tailAt: -1}
	expected := from + 1
	ahead := prospects(items)
	gap := func(it *item, p *prospect, before Position) {
		lost := !p.frame || p.barrier >= expected
		if n := len(r.gaps) - 1; n >= 0 && r.gaps[n].Before == expected { // it goes on
			r.gaps[n].Before = before
			r.gaps[n].BarrierLost = r.gaps[n].BarrierLost || lost
		} else {
			r.gaps = append(r.gaps, Gap{After: expected - 1, Before: before, BarrierLost: lost, Cause: damaged(it)})
		}
		expected = before
	}
walk:
	for i := 0; i < len(items); i++ {
		it := items[i]
		if it.recycled { // the planted fault: taken as the next records
			it.first, it.last = expected, expected+it.last-it.first
		}
		here, p := orderOf(&it, expected), &ahead[i]
		if here == orderNone {
			p = &ahead[i+1]
		}
		switch decide(it.seen, here, p.holeBefore(expected)) {
		case verdictApply:
			it.first = max(it.first, expected)
			r.apply = append(r.apply, it)
			expected = it.last + 1
		case verdictSkip, verdictMoveOn:
		case verdictDamage:
			gap(&it, p, p.next)
			if here != orderNone {
				i-- // now it is the expected one
			}
		case verdictDamageThenEnd:
			gap(&it, p, p.synced+1)
			r.end(TailUnsynced, i, items)
			break walk
		case verdictUnsyncedTail:
			r.end(TailUnsynced, i, items)
			break walk
		case verdictTornTail:
			r.end(TailTorn, i, items)
			break walk
		case verdictEndOfLog:
			r.endClean(i, items)
			break walk
		}
	}
	r.last = expected - 1
	for i := range items {
		r.dataSynced = max(r.dataSynced, items[i].dataSynced)
	}
	r.dataSynced = min(r.dataSynced, r.last)
	return r
}

// orderOf compares an item with the expected position.
func orderOf(it *item, expected Position) order {
	switch {
	case !it.live():
		return orderNone
	case it.seen == seenFrame && it.last < expected, it.seen == seenFileStart && it.first < expected:
		return orderBehind
	case it.first <= expected:
		return orderExpected
	}
	return orderAhead
}

// end notes where and how the log ended.
func (r *replay) end(tail Tail, at int, items []item) {
	r.tail, r.tailAt = tail, at
	for _, it := range items[at:] {
		if it.seen == seenFrame {
			r.discarded++
		}
	}
}

// endClean is for an end at a place that tells nothing: a place behind it may
// tell more.
func (r *replay) endClean(at int, items []item) {
	for i := at; i < len(items); i++ {
		if items[i].seen >= seenMisplaced {
			r.end(TailTorn, i, items)
			return
		}
	}
	r.end(TailClean, at, items)
}

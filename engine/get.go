package engine

import (
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/table"
)

// Get reads blocks. Every item is answered when it returns: Hit with the
// complete verified bytes, Miss, Busy, or, after the deadline, Late. The error
// is for the call as a whole (bad arguments, closed store); then no item was
// touched.
func (ns *Namespace) Get(items []GetItem, o GetOptions) error {
	for i := range items {
		if err := checkKey(items[i].Key); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return ns.get(ns.byKey(len(items), func(i int) Key { return items[i].Key }), items, o)
}

func (ns *Namespace) get(a asked, items []GetItem, o GetOptions) error {
	if err := ns.checkGet(items, o); err != nil {
		return err
	}
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	b := &readBatch{s: s, ns: ns, items: items, opts: o, done: make(chan struct{})}
	b.find(&a)
	if len(b.reads) > 0 {
		b.run()
	}
	s.countReads(ns, items)
	return nil
}

// MatchGet reads the longest prefix of items that is present and returns how
// many leading items were Hit. Items behind the prefix are Miss without a read.
func (ns *Namespace) MatchGet(items []GetItem, o GetOptions) (int, error) {
	if err := ns.checkGet(items, o); err != nil {
		return 0, err
	}
	keys := make([]Key, len(items))
	for i := range items {
		keys[i] = items[i].Key
	}
	m, err := ns.Match(keys, MatchOptions{})
	if err != nil {
		return 0, err
	}
	for i := range items[m.Prefix:] {
		items[m.Prefix+i].Status, items[m.Prefix+i].Err = Miss, nil
	}
	if err := ns.Get(items[:m.Prefix], o); err != nil {
		return 0, err
	}
	ns.s.countReads(ns, items[m.Prefix:])
	n := 0
	for n < m.Prefix && items[n].Status == Hit {
		n++
	}
	return n, nil
}

func (ns *Namespace) checkGet(items []GetItem, o GetOptions) error {
	if (!o.Deadline.IsZero() || o.Done != nil) && !o.Bounce && o.Released == nil {
		return fmt.Errorf("%w: a deadline or Done without Bounce needs Released", ErrConfig)
	}
	for i := range items {
		if err := ns.checkPieces(items[i].Dst); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func (ns *Namespace) checkPieces(pieces [][]byte) error {
	total := 0
	for _, p := range pieces {
		total += len(p)
	}
	if total != ns.descriptor.BlockBytes {
		return fmt.Errorf("%w: %d bytes in %d pieces, blocks of namespace %q have %d",
			ErrSize, total, len(pieces), ns.descriptor.Name, ns.descriptor.BlockBytes)
	}
	return nil
}

func checkKey(k Key) error {
	if len(k.Bytes) == 0 || len(k.Bytes) > KeyMaxBytes {
		return fmt.Errorf("%w, not %d", ErrKey, len(k.Bytes))
	}
	return nil
}

// find looks all blocks up, pins the slots of those that are here and builds
// their transfers. The rest are misses.
func (b *readBatch) find(a *asked) {
	s, ns := b.s, b.ns
	ids, refs := a.all()
	for i := range b.items {
		it := &b.items[i]
		it.Status, it.Err, it.StartedAt, it.Version, it.Checksum = Unanswered, nil, time.Time{}, Version{}, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ns.findLocked(a, ids, refs)
	if s.monitor.sick != nil {
		b.missAllLocked(refs)
	}
	found := 0
	for i, ref := range refs {
		if ref != 0 && s.table.At(ref).State() != statePresent {
			refs[i] = 0
		}
		if refs[i] != 0 {
			found++
		}
	}
	b.reads = make([]readOp, 0, found)
	b.pending.Store(int64(found))
	// Tail first, so that a leaf ages before its parent.
	for i := len(refs) - 1; i >= 0; i-- {
		if refs[i] == 0 {
			b.items[i].Status = Miss
			continue
		}
		if s.table.At(refs[i]).Pins == table.PinsMax {
			b.items[i].Status = Busy
			b.pending.Add(-1)
			continue
		}
		if !b.opts.NoTouch {
			ns.touchLocked(refs[i], s.table.At(refs[i]), ns.usedLocked(refs, i))
		}
		b.pinLocked(i, ids[i], refs[i])
	}
}

// pinLocked builds the transfer of one present block.
func (b *readBatch) pinLocked(i int, id table.ID, ref table.Ref) {
	s := b.s
	rec := s.table.At(ref)
	place := Place(rec.Place())
	g := s.segments[place.Segment()]
	rec.Pins++
	s.calls.Add(1)
	b.reads = append(b.reads, readOp{batch: b, index: i, ref: ref, place: place, position: rec.Position(),
		checksum: rec.Checksum, id: id, file: g.file, offset: g.header.slotOffset(place.Slot())})
	r := &b.reads[len(b.reads)-1]
	b.items[i].Version, b.items[i].Checksum = Version{idBytes(id), rec.Position()}, rec.Checksum
	dst := b.items[i].Dst
	r.direct = !b.opts.Bounce && s.facts.Aligned(dst)
}

// countReads adds a finished batch to the counters.
func (s *Store) countReads(ns *Namespace, items []GetItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range items {
		switch items[i].Status {
		case Hit:
			s.counters.Hits++
			s.counters.ReadBytes += uint64(ns.descriptor.BlockBytes)
		case Miss:
			s.counters.Misses++
		case Late:
			s.counters.LateReads++
		case Busy:
			s.counters.BusyReads++
		}
	}
}

package engine

import (
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
)

// Get reads blocks. Every item is answered when it returns: Hit with the
// complete verified bytes, Miss, Busy, or, after the deadline, Late. The error
// is for the call as a whole (bad arguments, closed store); then no item was
// touched.
func (ns *Namespace) Get(items []GetItem, o GetOptions) error {
	if err := ns.checkGet(items, o); err != nil {
		return err
	}
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	b := &readBatch{s: s, ns: ns, items: items, opts: o, done: make(chan struct{})}
	b.find()
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
	if !o.Deadline.IsZero() && !o.Bounce && o.Released == nil {
		return fmt.Errorf("%w: a deadline without Bounce needs Released", ErrConfig)
	}
	for i := range items {
		if err := ns.checkItem(items[i].Key, items[i].Dst); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func (ns *Namespace) checkItem(k Key, pieces [][]byte) error {
	if err := checkKey(k); err != nil {
		return err
	}
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

// find looks all keys up, pins the slots of the blocks that are here and
// builds their transfers. The rest are misses.
func (b *readBatch) find() {
	s, ns := b.s, b.ns
	ids, refs, incarnation := ns.lookup(len(b.items), func(i int) Key { return b.items[i].Key })
	for i := range b.items {
		b.items[i].Status, b.items[i].Err = Unanswered, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ns.incarnation != incarnation {
		clear(refs)
	} else {
		s.table.FindBatch(ids, refs)
	}
	if s.monitor.sick != nil {
		b.missAllLocked(refs)
	}
	found := 0
	for i, ref := range refs {
		if ref != 0 && s.table.At(ref).State != statePresent {
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
		b.pinLocked(i, ids[i], refs[i])
	}
}

// pinLocked builds the transfer of one present block.
func (b *readBatch) pinLocked(i int, id table.ID, ref table.Ref) {
	s := b.s
	rec := s.table.At(ref)
	place := Place(rec.Place)
	g := s.segments[place.Segment()]
	if !b.opts.NoTouch {
		b.ns.policy.Touch(evict.Handle(ref), b.ns.accessLocked(rec))
		g.lastUse = s.useLocked()
	}
	rec.Pins++
	s.calls.Add(1)
	b.reads = append(b.reads, readOp{batch: b, index: i, ref: ref, place: place, position: rec.Position,
		checksum: rec.Checksum, id: id, file: g.file, offset: g.header.slotOffset(place.Slot())})
	r := &b.reads[len(b.reads)-1]
	dst := b.items[i].Dst
	r.direct = !b.opts.Bounce && s.facts.Aligned(dst)
}

// run submits the transfers as room allows and waits until every item is
// answered, by its transfer or by the deadline.
func (b *readBatch) run() {
	var late <-chan time.Time
	if !b.opts.Deadline.IsZero() {
		timer := time.NewTimer(time.Until(b.opts.Deadline))
		defer timer.Stop()
		late = timer.C
	}
	next := len(b.reads) - 1 // root first: reads were pinned tail first
	for {
		var progress <-chan struct{} // nil once everything is handed over
		next, progress = b.submit(next)
		select {
		case <-b.done:
			return
		case <-progress:
			b.s.stopWaiting()
		case <-late:
			if progress != nil {
				b.s.stopWaiting()
			}
			b.giveUp(next)
			<-b.done // what is settling at this moment
			return
		}
	}
}

// stopWaiting undoes the count of a batch that waited for transfers or frames.
func (s *Store) stopWaiting() {
	s.mu.Lock()
	s.waiting--
	s.mu.Unlock()
}

// submit hands over reads[..next] as far as transfers and frames allow, and
// returns where it stopped and what to wait for.
func (b *readBatch) submit(next int) (int, <-chan struct{}) {
	s := b.s
	ops := make([]*device.Op, 0, next+1)
	now := time.Now()
	s.mu.Lock()
	if s.monitor.sick != nil {
		next = b.missLocked(next)
	}
	for ; next >= 0; next-- {
		r := &b.reads[next]
		if !r.direct && s.joinLocked(r) {
			continue
		}
		if s.transfers >= s.transfersMax {
			break
		}
		if !r.direct {
			blockBytes := int64(b.ns.descriptor.BlockBytes)
			if r.frame = s.frames.TryGet(int(roundUp(blockBytes, int64(s.facts.OffsetAlignBytes)))); r.frame == nil {
				break
			}
		}
		if !r.direct || planted.Active(planted.CoalesceFromClient) {
			if s.inflight[r.ref] == nil {
				s.inflight[r.ref] = r
			}
		}
		s.startLocked(&r.transfer, now)
		r.submitted = true
		r.prepare(b.ns.descriptor.BlockBytes)
		ops = append(ops, &r.op)
	}
	var progress <-chan struct{}
	if next >= 0 {
		progress = s.progress
		s.waiting++
	}
	s.mu.Unlock()
	if len(ops) > 0 {
		s.dev.Submit(ops)
	}
	return next, progress
}

// missAllLocked makes misses of blocks that a sick drive holds.
func (b *readBatch) missAllLocked(refs []table.Ref) {
	for i, ref := range refs {
		if ref != 0 {
			refs[i] = 0
			b.items[i].Err = b.s.monitor.sick
		}
	}
}

// missLocked makes misses of the reads that wait for a drive gone sick.
func (b *readBatch) missLocked(next int) int {
	s := b.s
	for ; next >= 0; next-- {
		r := &b.reads[next]
		r.answer.Store(answerGiven)
		b.items[r.index].Status, b.items[r.index].Err = Miss, s.monitor.sick
		s.unpinLocked(r.ref, r.place, r.position)
		s.calls.Done()
		b.answered()
	}
	return next
}

// joinLocked lets r wait for another framed read of the same block.
func (s *Store) joinLocked(r *readOp) bool {
	leader := s.inflight[r.ref]
	if leader == nil || leader.position != r.position {
		return false
	}
	leader.followers = append(leader.followers, r)
	r.submitted = true
	s.unpinLocked(r.ref, r.place, r.position)
	s.counters.Coalesced++
	return true
}

// giveUp answers Late for everything still pending. Reads not handed over and
// framed reads never touch the destination again, so they are released here.
func (b *readBatch) giveUp(next int) {
	s := b.s
	for i := range b.reads {
		r := &b.reads[i]
		if !r.answer.CompareAndSwap(answerPending, answerLate) {
			continue
		}
		b.items[r.index].Status = Late
		if i <= next { // never submitted
			s.mu.Lock()
			s.unpinLocked(r.ref, r.place, r.position)
			s.mu.Unlock()
			s.calls.Done()
		}
		if (i <= next || !r.direct) && b.opts.Released != nil {
			b.opts.Released(r.index)
		}
		b.answered()
	}
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

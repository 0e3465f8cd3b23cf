package engine

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/table"
)

func checkKeys(keys []Key) error {
	for i, k := range keys {
		if err := checkKey(k); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
	}
	return nil
}

// Match says which blocks are present, from memory, without reading or
// touching them, and leases what it found if asked.
func (ns *Namespace) Match(keys []Key, o MatchOptions) (MatchResult, error) {
	if err := checkKeys(keys); err != nil {
		return MatchResult{}, err
	}
	return ns.match(ns.byKey(len(keys), func(i int) Key { return keys[i] }), o)
}

func (ns *Namespace) match(a asked, o MatchOptions) (MatchResult, error) {
	if o.Lease < 0 || o.TrailingN < 0 {
		return MatchResult{}, fmt.Errorf("%w: lease %v, trailing %d", ErrConfig, o.Lease, o.TrailingN)
	}
	s := ns.s
	if err := s.begin(); err != nil {
		return MatchResult{}, err
	}
	defer s.end()
	ids, refs := make([]table.ID, min(a.n, holdMax)), make([]table.Ref, min(a.n, holdMax))
	res := MatchResult{Present: make([]bool, a.n)}
	for from := 0; from < a.n; from += holdMax {
		present := res.Present[from:min(from+holdMax, a.n)]
		ids, refs = ids[:len(present)], refs[:len(present)]
		a.derive(from, ids)
		s.mu.Lock()
		ns.findLocked(&a, ids, refs)
		for i, ref := range refs {
			present[i] = ref != 0 && s.table.At(ref).State() == statePresent
		}
		if o.Lease > 0 {
			ns.leaseLocked(&res, refs, present, min(o.Lease, s.opts.LeaseMax))
		}
		s.mu.Unlock()
	}
	for res.Prefix < a.n && res.Present[res.Prefix] {
		res.Prefix++
	}
	for i := a.n - 1; i >= 0 && res.Present[i] && res.Trailing < o.TrailingN; i-- {
		res.Trailing++
	}
	return res, nil
}

// Touch makes the blocks of a chain, given root first, young again. It returns
// how many are present.
func (ns *Namespace) Touch(keys []Key) (int, error) {
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	return ns.touch(ns.byKey(len(keys), func(i int) Key { return keys[i] }))
}

func (ns *Namespace) touch(a asked) (int, error) {
	s := ns.s
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.end()
	ids, refs := a.all()
	touched := 0
	s.mu.Lock()
	defer s.mu.Unlock()
	ns.findLocked(&a, ids, refs)
	for i := len(refs) - 1; i >= 0; i-- {
		if refs[i] == 0 {
			continue
		}
		if rec := s.table.At(refs[i]); rec.State() == statePresent {
			ns.touchLocked(refs[i], rec, ns.usedLocked(refs, i))
			touched++
		}
	}
	return touched, nil
}

func (ns *Namespace) touchLocked(ref table.Ref, rec *table.Record, a evict.Access) {
	ns.policy.Touch(evict.Handle(ref), a)
	if g := ns.s.segments[Place(rec.Place()).Segment()]; g != nil {
		g.lastUse = ns.s.useLocked()
	}
}

// Delete removes blocks and returns how many were present. When it returns
// without an error, no get answers their bytes again, not even after a power
// cut; puts of them that are under way, those answered Late included, come to
// nothing. Leases do not hold against it. During a drop it answers ErrGone.
func (ns *Namespace) Delete(keys []Key) (int, error) {
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	return ns.delete(ns.byKey(len(keys), func(i int) Key { return keys[i] }))
}

func (ns *Namespace) delete(a asked) (int, error) {
	s := ns.s
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.end()
	ids, refs := a.all()
	s.mu.Lock()
	if ns.incarnation != a.incarnation || ns.dropping {
		s.mu.Unlock()
		return 0, ErrGone // whether the drop is durable is its caller's to learn
	}
	ns.findLocked(&a, ids, refs)
	deleted, last, err := ns.deleteLocked(ids, refs)
	s.mu.Unlock()
	if err == nil && last > 0 {
		err = s.syncDeletion(last)
	}
	return deleted, err
}

// deleteLocked logs the deletion of all IDs as barrier records and takes those
// that are present out of memory. A record buries every put of its keys so far,
// also of blocks that left memory earlier: whether the log says durably that
// they went does not matter any more. Keys whose deletion the log refused stay.
func (ns *Namespace) deleteLocked(ids []table.ID, refs []table.Ref) (deleted int, last uint64, err error) {
	s := ns.s
	newest := uint64(s.wal.Last())
	for len(ids) > 0 {
		n := min(len(ids), freeItemsMax)
		items := make([]freeItem, n)
		for i, id := range ids[:n] {
			items[i] = freeItem{id: id, position: newest}
		}
		if last, err = s.appendLocked(appendFree(nil, recordDelete, ns.number, ns.incarnation, items), true); err != nil {
			return deleted, last, err
		}
		for i, ref := range refs[:n] { // a key may be given twice
			rec := s.table.Peek(ref)
			switch {
			case rec == nil || rec.ID != ids[i]:
			case rec.State() == stateWriting: // its put, perhaps answered Late, comes to nothing
				rec.SetDoomed(true)
			default:
				ns.policy.Forget(evict.Handle(ref))
				ns.dropBlockLocked(ref)
				s.counters.Deleted++
				deleted++
			}
		}
		ids, refs = ids[n:], refs[n:]
	}
	return deleted, last, nil
}

// syncLog makes the log durable up to position.
func (s *Store) syncLog(position uint64) error {
	err := s.syncLogOnce(position)
	if err != nil {
		s.fail(fmt.Errorf("sync of the log failed: %w", err))
		return errors.Join(ErrReadOnly, err)
	}
	return nil
}

package engine

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/table"
)

// matchChunk bounds how many keys are looked up in one hold of the lock.
const matchChunk = 1024

// lookup derives the IDs of n keys under the namespace's incarnation of this
// moment; refs is room for the answers.
func (ns *Namespace) lookup(n int, key func(int) Key) (ids []table.ID, refs []table.Ref, incarnation uint32) {
	ns.s.mu.Lock()
	incarnation = ns.incarnation
	ns.s.mu.Unlock()
	ids, refs = make([]table.ID, n), make([]table.Ref, n)
	var scratch []byte
	for i := range ids {
		ids[i], scratch = blockID(&ns.nsID, uint64(incarnation), key(i), scratch)
	}
	return ids, refs, incarnation
}

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
	if o.Lease < 0 || o.TrailingN < 0 {
		return MatchResult{}, fmt.Errorf("%w: lease %v, trailing %d", ErrConfig, o.Lease, o.TrailingN)
	}
	s := ns.s
	if err := s.begin(); err != nil {
		return MatchResult{}, err
	}
	defer s.end()
	ids, refs, incarnation := ns.lookup(len(keys), func(i int) Key { return keys[i] })
	res := MatchResult{Present: make([]bool, len(keys))}
	for from := 0; from < len(keys); from += matchChunk {
		to := min(from+matchChunk, len(keys))
		s.mu.Lock()
		if ns.incarnation == incarnation {
			s.table.FindBatch(ids[from:to], refs[from:to])
			for i := from; i < to; i++ {
				res.Present[i] = refs[i] != 0 && s.table.At(refs[i]).State == statePresent
			}
			if o.Lease > 0 {
				ns.leaseLocked(&res, refs[from:to], res.Present[from:to], min(o.Lease, s.opts.LeaseMax))
			}
		}
		s.mu.Unlock()
	}
	for res.Prefix < len(keys) && res.Present[res.Prefix] {
		res.Prefix++
	}
	for i := len(keys) - 1; i >= 0 && res.Present[i] && res.Trailing < o.TrailingN; i-- {
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
	s := ns.s
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.end()
	ids, refs, incarnation := ns.lookup(len(keys), func(i int) Key { return keys[i] })
	touched := 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if ns.incarnation != incarnation {
		return 0, nil
	}
	s.table.FindBatch(ids, refs)
	for i := len(refs) - 1; i >= 0; i-- {
		if refs[i] == 0 {
			continue
		}
		if rec := s.table.At(refs[i]); rec.State == statePresent {
			ns.touchLocked(refs[i], rec)
			touched++
		}
	}
	return touched, nil
}

func (ns *Namespace) touchLocked(ref table.Ref, rec *table.Record) {
	ns.policy.Touch(evict.Handle(ref), ns.accessLocked(rec))
	if g := ns.s.segments[Place(rec.Place).Segment()]; g != nil {
		g.lastUse = ns.s.useLocked()
	}
}

// Delete removes blocks and returns how many were present. When it returns
// without an error, no get answers their bytes again, not even after a power
// cut. Leases do not hold against it. During a drop it answers ErrGone.
func (ns *Namespace) Delete(keys []Key) (int, error) {
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	s := ns.s
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.end()
	ids, refs, incarnation := ns.lookup(len(keys), func(i int) Key { return keys[i] })
	s.mu.Lock()
	if ns.incarnation != incarnation || ns.dropping {
		s.mu.Unlock()
		return 0, ErrGone // whether the drop is durable is its caller's to learn
	}
	s.table.FindBatch(ids, refs)
	deleted, last, err := ns.deleteLocked(refs)
	if err == nil {
		last, err = ns.goneLocked(last)
	}
	s.mu.Unlock()
	if err == nil && last > 0 {
		err = s.syncDeletion(last)
	}
	return deleted, err
}

// goneLocked returns the position whose sync makes it durable that no block
// which has left memory before is in the store: an eviction of which the log
// does not durably say so would be undone by a power cut, and with it an earlier
// put of a key that has just been deleted.
func (ns *Namespace) goneLocked(last uint64) (uint64, error) {
	if err := ns.appendFreesLocked(); err != nil {
		return last, err
	}
	if n := len(ns.s.freeQueue); n > 0 {
		last = max(last, ns.s.freeQueue[n-1].position)
	}
	if last > 0 {
		return last, nil
	}
	// All is durable already, but a directory may still name the blocks: it has
	// to be older than this deletion.
	return ns.s.appendLocked(appendFree(nil, recordDelete, ns.number, ns.incarnation, nil), true)
}

// deleteLocked takes the present blocks among refs out of memory and logs that
// as barrier records. A block whose deletion the log refused stays.
func (ns *Namespace) deleteLocked(refs []table.Ref) (deleted int, last uint64, err error) {
	s := ns.s
	var batch []table.Ref
	flush := func() error {
		items := make([]freeItem, len(batch))
		for i, ref := range batch {
			rec := s.table.At(ref)
			items[i] = freeItem{id: rec.ID, position: rec.Position}
		}
		p, err := s.appendLocked(appendFree(nil, recordDelete, ns.number, ns.incarnation, items), true)
		if err != nil {
			return err
		}
		last = p
		for _, ref := range batch {
			ns.policy.Forget(evict.Handle(ref))
			ns.dropBlockLocked(ref)
			s.counters.Deleted++
		}
		deleted += len(batch)
		batch = batch[:0]
		return nil
	}
	seen := make(map[table.Ref]bool, len(refs))
	for _, ref := range refs {
		if ref == 0 || seen[ref] || s.table.At(ref).State != statePresent {
			continue
		}
		seen[ref] = true
		batch = append(batch, ref)
		if len(batch) == freeItemsMax {
			if err := flush(); err != nil {
				return deleted, last, err
			}
		}
	}
	if len(batch) > 0 {
		err = flush()
	}
	return deleted, last, err
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

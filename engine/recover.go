package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
	"github.com/spillway-kv/spillway/wal"
)

// recover brings the store to the state of its newest surviving log record:
//
//  1. open the segments that belong to a living incarnation, unlink the rest;
//  2. replay the log into the durable index, from where the index ends;
//  3. where damage swallowed deletions, give up everything older than it;
//  4. note which positions an unclean stop may have cost their bytes;
//  5. flush the index and start a new log, so that old files are done with, while
//     the index is read;
//  6. load the table from what was read: the highest position owns a slot;
//  7. give up segments beyond a lowered capacity or quota.
//
// Every step may be cut short by a crash and repeated.
func (s *Store) recover() error {
	if err := s.openSegments(); err != nil {
		return err
	}
	var reserving sync.WaitGroup
	defer reserving.Wait()
	reserving.Go(s.reserve) // at first the rest waits for the drive
	applied, known, err := s.index.applied()
	if err != nil {
		return err
	}
	if !known && len(s.segments) > 0 && s.opts.RefuseLostIndex {
		return fmt.Errorf("%w: %d segments are there, but the index is lost", ErrIndexLost, len(s.segments))
	}
	if !known && len(s.segments) > 0 { // the first open of a store notes it before its first segment
		s.log.Error("the index is lost: blocks that the log does not name are misses, their room is used again; a check with rebuild before this would have named most",
			"segments", len(s.segments))
	}
	noted, err := s.openDeletions()
	if err != nil {
		return err
	}
	last, err := s.replayLog(applied, noted)
	if err != nil {
		return err
	}
	s.synced, s.logSynced, s.useClock = last, last, last
	found := s.startReaders()
	defer found.free()
	if err := errors.Join(s.startLog(last, noted), found.wait()); err != nil {
		return err
	}
	reserving.Wait()
	if err := s.loadTable(found); err != nil {
		return err
	}
	s.shrink()
	return s.unlinkRemovals()
}

// reserve makes room in the table for about as many blocks as the index has, and
// no more than there are slots. Too few cost time only.
func (s *Store) reserve() {
	slots := 0
	for _, g := range s.segments {
		slots += g.usable()
	}
	s.table.Reserve(min(slots, s.index.fewBlocks()))
}

// startLog makes what was replayed durable and starts a new log behind it.
func (s *Store) startLog(last uint64, deletionsNoted bool) error {
	if err := s.index.flush(); err != nil {
		return err
	}
	if !deletionsNoted {
		if err := s.mendDeletions(last); err != nil {
			return err
		}
	}
	log, err := wal.Open(s.dev, s.walOptions(), wal.Position(last+1))
	if err != nil {
		return fmt.Errorf("start a new log: %w", err)
	}
	s.wal = log
	s.apply.start(s, last)
	s.wal.Trim(wal.Position(last))
	return nil
}

func (s *Store) walOptions() wal.Options {
	return wal.Options{StoreID: s.id, FileBytes: s.layout.logFileBytes, FilesMax: logFilesMax,
		OnWritten: s.apply.onWritten, OnPressure: s.apply.flushSoon, Logger: s.log}
}

// openSegments opens every usable segment file.
func (s *Store) openSegments() error {
	names, err := s.dev.List()
	if err != nil {
		return err
	}
	numbers := map[string]uint32{}
	for _, name := range names {
		if number, ok := segmentNumber(name); ok {
			numbers[name] = number
			s.nextNumber = max(s.nextNumber, number+1)
		}
	}
	if len(numbers) > s.segmentsMax {
		return fmt.Errorf("the store has %d segments and needs %d open files, this process may have %d: raise the limit (ulimit -n)",
			len(numbers), len(numbers)+filesReserve, s.segmentsMax+filesReserve)
	}
	for _, name := range names {
		if number, ok := numbers[name]; ok {
			if err := s.openSegment(name, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// openSegment opens one segment file. One that nobody owns any more, or whose
// header and mirror are both damaged, is unlinked: what it holds cannot be
// served. One that cannot be read, or that belongs elsewhere, is left alone
// and its size is taken from the budget.
func (s *Store) openSegment(name string, number uint32) error {
	f, err := s.dev.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open segment %s: %w", name, err)
	}
	h, err := readSegmentHeader(s.dev, f)
	switch {
	case errors.Is(err, ErrVersion):
		return errors.Join(fmt.Errorf("segment %s: %w", name, err), f.Close())
	case errors.Is(err, ErrCorrupt):
		s.log.Error("a segment lost its header; its blocks are misses and its file is removed", "segment", name, "cause", err)
		return errors.Join(f.Close(), s.dev.Remove(name))
	case err != nil:
		s.log.Error("a segment cannot be read; its blocks are misses and its file stays", "segment", name, "cause", err)
		s.costBytes += f.SizeBytes()
		return f.Close()
	case h.storeID != s.id || h.number != number:
		s.log.Error("a segment file belongs elsewhere; it is left alone", "file", name,
			"store", fmt.Sprintf("%x", h.storeID), "segment", h.number)
		s.costBytes += f.SizeBytes()
		return f.Close()
	}
	ns := s.owner(&h)
	if ns == nil {
		return errors.Join(f.Close(), s.dev.Remove(name))
	}
	g := newSegment(h, f)
	if lost := g.loseBeyond(f.SizeBytes()); lost > 0 {
		s.log.Error("a segment's file is cut short; blocks beyond its end are misses and their slots are not used", "segment", name, "slots", lost)
	}
	if g.usable() == 0 {
		return errors.Join(f.Close(), s.dev.Remove(name))
	}
	g.directory = s.findDirectory(g)
	s.segments[number] = g
	s.costBytes += segmentCostBytes(h.slotBytes, h.slots)
	ns.join(g)
	return nil
}

// owner is the namespace incarnation a segment belongs to, nil if it is gone.
func (s *Store) owner(h *segmentHeader) *Namespace {
	if h.namespace == 0 || int(h.namespace) > len(s.namespaces) {
		return nil
	}
	ns := s.namespaces[h.namespace-1]
	current := ns.incarnation == h.incarnation || planted.Active(planted.ForgetIncarnation)
	if !current || ns.nsID != h.nsID || h.slotBytes != ns.slotBytes || int(h.blockBytes) != ns.descriptor.BlockBytes {
		return nil
	}
	return ns
}

// replayLog copies the surviving log into the index, without a flush, and returns
// the last position that exists anywhere. Behind a gap the index does not say how far it
// is until the gap is dealt with: a crash in between must find it again.
func (s *Store) replayLog(applied uint64, deletionsNoted bool) (last uint64, err error) {
	b := s.index.db.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	before, gap := applied, false
	found, err := wal.Recover(s.dev, s.walOptions(), wal.Position(applied), func(p wal.Position, payload []byte) error {
		if err := applyRecord(b, uint64(p), payload); err != nil {
			return err
		}
		gap = gap || uint64(p) != before+1
		before = uint64(p)
		if b.Len() < 1<<20 {
			return nil
		}
		if !gap {
			if err := setApplied(b, before); err != nil {
				return err
			}
		}
		err := b.Commit(pebble.NoSync)
		b.Reset()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("recover the log: %w", err)
	}
	deletion := s.lastDeletion()
	last = max(applied, uint64(found.Last), deletion)
	for _, g := range s.segments { // should index and log be lost: no position is used again
		last = max(last, g.header.createdAfter, g.directory.position)
	}
	if !deletionsNoted && len(s.segments) > 0 {
		last++ // later than every directory
	}
	lost := deletion > max(applied, uint64(found.Last)) // the log's end, with a deletion
	if !deletionsNoted && found.Tail != wal.TailClean { // what the end held, nobody can tell
		lost, deletion = true, last+1
	}
	if last >= table.PositionMax {
		return 0, fmt.Errorf("%w: position %d, the last one there can be is %d", ErrCorrupt, last, uint64(table.PositionMax))
	}
	if len(found.Gaps) > 0 || lost {
		err := b.Commit(pebble.NoSync)
		b.Reset()
		if err = errors.Join(err, s.mendGaps(found.Gaps)); err == nil && lost {
			s.log.Error("the log lost its end, perhaps with a deletion: all older blocks are given up", "end", found.Last,
				"deletion", deletion, "deletions_known", deletionsNoted, "tail", found.Tail, "cause", found.TailCause)
			err = s.giveUpBefore(deletion)
		}
		if err != nil {
			return 0, fmt.Errorf("index: %w", err)
		}
	}
	if err := errors.Join(setApplied(b, last), b.Delete(keyClean, nil), b.Commit(pebble.NoSync)); err != nil {
		return 0, fmt.Errorf("index: %w", err)
	}
	return last, s.noteSuspects(uint64(found.DataSynced), last)
}

// shrink gives up the coldest whole segments beyond capacity and quotas.
func (s *Store) shrink() {
	s.trimToQuotas()
	s.mu.Lock()
	defer s.mu.Unlock()
	leaving := int64(0)
	for _, g := range s.removals {
		leaving += segmentCostBytes(g.header.slotBytes, g.header.slots)
	}
	excess := s.costBytes - leaving - s.layout.segmentBudgetBytes()
	for excess > 0 {
		g := coldest(maps.Values(s.segments))
		if g == nil {
			return
		}
		excess -= segmentCostBytes(g.header.slotBytes, g.header.slots)
		s.giveUpLocked(g)
	}
}

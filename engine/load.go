package engine

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/table"
)

// loader fills the table from the durable index at Open.
type loader struct {
	s       *Store
	dead    *pebble.Batch // entries that own nothing any more
	segment *segment      // of the last block
	ages    loadedAges
}

// loadTable gives every living entry of the index its place in the table. An
// entry is dead if its incarnation or its segment is gone, if the segment's file is
// younger than it, or if a later put owns its slot or its key. Dead entries are
// deleted.
//
// Blocks enter the table in the order of their puts. So a later put finds the one whose slot or key it
// has taken, and the records of a chain are neighbours in memory.
func (s *Store) loadTable(found *indexReaders) error {
	l := &loader{s: s, dead: s.index.db.NewBatch()}
	defer l.dead.Close()
	if err := l.readLoadedAges(min(found.blocks(), s.table.Max())); err != nil {
		return err
	}
	defer l.ages.mem.Free()
	if err := l.addQuarantined(); err != nil {
		return err
	}
	for _, r := range found.readers {
		s.counters.TornBlocks += r.torn
		for _, key := range r.dead {
			if err := l.dead.Delete(key, nil); err != nil {
				return err
			}
		}
	}
	if err := l.addAll(found); err != nil {
		return err
	}
	if err := l.bury(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return l.admitAll()
}

// bury deletes the dead entries for good. One that lost to a later put must not
// be there any more when the later one is deleted.
func (l *loader) bury() error {
	if l.dead.Empty() {
		return nil
	}
	return errors.Join(l.dead.Commit(pebble.NoSync), l.s.index.flush())
}

// addAll adds what was found, oldest first.
func (l *loader) addAll(found *indexReaders) error {
	var blocks [64]foundBlock // as many cache misses at once
	var ids [len(blocks)]table.ID
	var refs [len(blocks)]table.Ref
	for n := found.next(blocks[:]); n > 0; n = found.next(blocks[:]) {
		for i := range n {
			ids[i] = blocks[i].id
		}
		l.s.table.FindBatch(ids[:n], refs[:n]) // only to have the memory at hand
		for i := range n {
			if err := l.add(&blocks[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add publishes a block, unless its slot is never used again.
func (l *loader) add(b *foundBlock) error {
	s, g, slot := l.s, l.segment, b.place.Slot()
	if g == nil || g.header.number != b.place.Segment() {
		g = s.segments[b.place.Segment()]
		l.segment = g
	}
	if other := g.owner[slot]; other == slotQuarantined {
		if g.beyond(slot) {
			s.counters.TornBlocks++
		}
		return l.remember(g, b.id, b.position)
	} else if other != slotFree {
		if err := l.remove(other); err != nil {
			return err
		}
	}
	if other := s.table.Find(b.id); other != 0 {
		if err := l.remove(other); err != nil {
			return err
		}
	}
	ref, err := s.table.Insert(b.id)
	if errors.Is(err, table.ErrFull) && s.table.Len() < s.table.Max() { // see claimLocked
		return l.remember(g, b.id, b.position)
	}
	if errors.Is(err, table.ErrFull) {
		return fmt.Errorf("%w: the store holds more than %d blocks; raise Options.IndexMemoryMaxBytes above %d",
			ErrConfig, s.table.Max(), s.opts.IndexMemoryMaxBytes)
	} else if err != nil {
		return err
	}
	ns := s.namespaces[g.header.namespace-1]
	rec := s.table.At(ref)
	rec.Checksum, rec.Depth, rec.Importance = b.checksum, b.depth, b.importance
	rec.SetPosition(b.position)
	rec.SetPlace(uint64(b.place))
	rec.SetNamespace(ns.number)
	rec.SetState(statePresent)
	l.ages.note(ref, b.position)
	g.owner[slot] = ref
	g.addFree(-1)
	g.addBlocks(1)
	g.lastUse = b.position
	if b.position > g.directory.position {
		g.directory.changes++
	}
	return nil
}

// remove takes a block out that a later put has replaced.
func (l *loader) remove(ref table.Ref) error {
	s := l.s
	rec := s.table.At(ref)
	id, position, place := rec.ID, rec.Position(), Place(rec.Place())
	g := s.segments[place.Segment()]
	g.release(place.Slot())
	if position > g.directory.position {
		g.directory.changes--
	}
	g.addBlocks(-1)
	l.ages.forget(ref)
	s.table.Remove(ref)
	return l.remember(g, id, position)
}

// remember notes a dead entry.
func (l *loader) remember(g *segment, id table.ID, position uint64) error {
	return l.dead.Delete(appendIndexKey(nil, g.header.namespace, g.header.incarnation, id, position), nil)
}

// addQuarantined marks the slots that are never used again. A mark of a segment
// that is gone goes too, since its number is used again.
func (l *loader) addQuarantined() error {
	s := l.s
	return s.index.scan([]byte{prefixQuarantine}, func(key, _ []byte) error {
		p, err := decodeQuarantineKey(key)
		if err != nil {
			return err
		}
		g := s.segments[p.Segment()]
		if g == nil || p.Slot() >= g.header.slots {
			return l.dead.Delete(key, nil)
		}
		if g.owner[p.Slot()] == slotQuarantined {
			return nil
		}
		g.quarantine(p.Slot())
		s.counters.QuarantinedSlots++
		return nil
	})
}

package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/table"
)

// loader fills the table from the durable index at Open.
type loader struct {
	s     *Store
	dead  *pebble.Batch // entries that own nothing any more
	order []loadedBlock
}

type loadedBlock struct {
	position uint64
	ref      table.Ref
}

// loadTable reads every entry of the index once. An entry is dead if its
// incarnation or its segment is gone, if the segment's file is younger than
// it, or if a later put owns its slot or its key. Dead entries are deleted.
func (s *Store) loadTable() error {
	l := &loader{s: s, dead: s.index.db.NewBatch()}
	defer l.dead.Close()
	if err := l.addQuarantined(); err != nil {
		return err
	}
	if err := s.index.scan([]byte{prefixBlock}, l.add); err != nil {
		return fmt.Errorf("load the index: %w", err)
	}
	if err := l.bury(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	// The eviction order of the puts: publication is tail first.
	slices.SortFunc(l.order, func(a, b loadedBlock) int {
		if a.position < b.position {
			return -1
		}
		return 1
	})
	for _, b := range l.order {
		rec := s.table.Peek(b.ref)
		if rec == nil || rec.Position != b.position {
			continue // lost its slot or key to a later one
		}
		ns := s.namespaces[rec.Namespace-1]
		ns.policy.Admit(evict.Handle(b.ref), ns.accessLocked(rec))
		g := s.segments[Place(rec.Place).Segment()]
		g.lastUse = max(g.lastUse, b.position)
		if b.position > g.directory.position {
			g.directory.changes++
		}
	}
	return nil
}

// bury deletes the dead entries for good. One that lost to a later put must not
// be there any more when the later one is deleted.
func (l *loader) bury() error {
	if l.dead.Empty() {
		return nil
	}
	return errors.Join(l.dead.Commit(pebble.NoSync), l.s.index.flush())
}

// add judges one index entry. An entry that cannot be decoded is damage of the
// index: it is dropped, a miss.
func (l *loader) add(key, value []byte) error {
	s := l.s
	e, err := decodeIndexEntry(key, value)
	if err != nil {
		s.log.Error("an index entry is damaged; its block is a miss", "cause", err)
		s.counters.TornBlocks++
		return l.dead.Delete(key, nil)
	}
	g := s.segments[e.place.Segment()]
	if g == nil || !g.header.mayHold(&e) {
		return l.dead.Delete(key, nil)
	}
	if other := g.owner[e.place.Slot()]; other == slotQuarantined {
		if g.beyond(e.place.Slot()) {
			s.counters.TornBlocks++
		}
		return l.dead.Delete(key, nil)
	} else if other != slotFree {
		if s.table.At(other).Position > e.position {
			return l.dead.Delete(key, nil)
		}
		if err := l.remove(other); err != nil {
			return err
		}
	}
	if other := s.table.Find(e.id); other != 0 { // keys come in ascending position
		if err := l.remove(other); err != nil {
			return err
		}
	}
	ref, err := s.table.Insert(e.id)
	if errors.Is(err, table.ErrFull) {
		return fmt.Errorf("%w: the store holds more than %d blocks; raise Options.IndexMemoryMaxBytes above %d",
			ErrConfig, s.table.Max(), s.opts.IndexMemoryMaxBytes)
	} else if err != nil {
		return err
	}
	rec := s.table.At(ref)
	rec.Checksum, rec.Position, rec.Place = e.checksum, e.position, uint64(e.place)
	rec.Namespace, rec.Depth, rec.Importance, rec.State = e.namespace, e.depth, e.importance, statePresent
	g.owner[e.place.Slot()] = ref
	g.free--
	s.namespaces[e.namespace-1].blocks++
	l.order = append(l.order, loadedBlock{e.position, ref})
	return nil
}

// remove takes a block out that a later entry has replaced.
func (l *loader) remove(ref table.Ref) error {
	s := l.s
	rec := s.table.At(ref)
	place := Place(rec.Place)
	g := s.segments[place.Segment()]
	ns := s.namespaces[rec.Namespace-1]
	g.release(place.Slot())
	ns.blocks--
	key := appendIndexKey(nil, rec.Namespace, g.header.incarnation, rec.ID, rec.Position)
	s.table.Remove(ref)
	return l.dead.Delete(key, nil)
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
		g.owner[p.Slot()] = slotQuarantined
		g.free--
		g.quarantined++
		s.counters.QuarantinedSlots++
		return nil
	})
}

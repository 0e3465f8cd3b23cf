package engine

import (
	"fmt"
	"slices"

	"github.com/spillway-kv/spillway/engine/table"
)

// blockName is the key of an index entry.
type blockName struct {
	namespace, incarnation uint32
	id                     table.ID
	position               uint64
}

func (e *indexEntry) name() blockName {
	return blockName{e.namespace, e.incarnation, e.id, e.position}
}

// namedBlock is an entry and the log position at which it was there for sure.
type namedBlock struct {
	indexEntry
	seen uint64
}

// blockSet is the content of an index, in memory.
type blockSet struct {
	named map[blockName]namedBlock
	bad   map[Place]bool // quarantined slots
	// forRebuild keeps what a check does not need: keys, and gone, the names that
	// the log says are gone.
	forRebuild bool
	gone       map[blockName]bool
	// buried is, by name without a position, up to where the puts of a block are
	// deleted.
	buried map[blockName]uint64
}

func newBlockSet(forRebuild bool) *blockSet {
	return &blockSet{named: map[blockName]namedBlock{}, bad: map[Place]bool{}, forRebuild: forRebuild,
		gone: map[blockName]bool{}, buried: map[blockName]uint64{}}
}

// add takes an entry in; its key is copied if it is needed.
func (b *blockSet) add(e indexEntry, seen uint64) {
	if b.forRebuild {
		e.key = slices.Clone(e.key)
	} else {
		e.key = nil
	}
	name := e.name()
	b.named[name] = namedBlock{e, max(seen, b.named[name].seen)}
}

// apply changes the set as one log record changes the index.
func (b *blockSet) apply(position uint64, payload []byte) (err error) {
	if len(payload) == 0 {
		return fmt.Errorf("%w: empty log record %d", ErrCorrupt, position)
	}
	switch payload[0] {
	case recordPut:
		var r putRecord
		if r, err = decodePut(payload); err != nil {
			return err
		}
		e := indexEntry{namespace: r.namespace, incarnation: r.incarnation, id: r.id, position: position, place: r.place,
			checksum: r.checksum, depth: r.depth, importance: r.importance, group: r.group, key: r.key}
		b.add(e, position)
	case recordFree:
		return decodeFree(payload, func(ns, incarnation uint32, it freeItem) {
			name := blockName{ns, incarnation, it.id, it.position}
			delete(b.named, name)
			if b.forRebuild {
				b.gone[name] = true
			}
		})
	case recordDelete:
		return decodeFree(payload, func(ns, incarnation uint32, it freeItem) {
			block := blockName{ns, incarnation, it.id, 0}
			b.buried[block] = max(b.buried[block], it.position)
		})
	case recordQuarantine:
		return decodeQuarantine(payload, func(p Place) { b.bad[p] = true })
	case recordSegmentGone:
		var n uint32
		if n, err = decodeSegmentGone(payload); err != nil {
			return err
		}
		for p := range b.bad {
			if p.Segment() == n {
				delete(b.bad, p)
			}
		}
	case recordDrop:
		ns, incarnation, err := decodeDrop(payload)
		if err != nil {
			return err
		}
		for name := range b.named {
			if name.namespace == ns && name.incarnation <= incarnation {
				delete(b.named, name)
			}
		}
	default:
		return fmt.Errorf("%w: log record %d of unknown kind %d", ErrCorrupt, position, payload[0])
	}
	return nil
}

// isGone reports whether the log says that a put's block is gone.
func (b *blockSet) isGone(name blockName) bool {
	block := name
	block.position = 0
	return b.gone[name] || name.position <= b.buried[block]
}

// alive reports whether an entry may be served, unless a later one owns its slot
// or its ID.
func (c *checker) alive(e *indexEntry) bool {
	g := c.segments[e.place.Segment()]
	return g != nil && g.header.mayHold(e) && !c.blocks.bad[e.place]
}

// checkBlocks judges the entries of the index, with the log replayed on top, and
// leaves in blocks only those that an open store would serve.
func (c *checker) checkBlocks() error {
	// For a rebuild the log brings back what is long dead.
	strict := c.report.Clean && !c.o.Rebuild
	bySlot, byID := map[Place]uint64{}, map[table.ID]uint64{}
	for name, e := range c.blocks.named {
		if c.blocks.isGone(name) {
			delete(c.blocks.named, name)
			continue
		}
		if strict {
			c.checkPlace(&e.indexEntry)
		}
		if !c.alive(&e.indexEntry) {
			delete(c.blocks.named, name)
			continue
		}
		bySlot[e.place] = max(bySlot[e.place], e.position)
		byID[e.id] = max(byID[e.id], e.position)
	}
	for name, e := range c.blocks.named {
		if bySlot[e.place] == e.position && byID[e.id] == e.position {
			continue
		}
		if strict {
			c.damage(indexFolder, -1, fmt.Sprintf("two blocks are named for %v or under one ID (log position %d)", e.place, e.position),
				"the newer one counts")
		}
		delete(c.blocks.named, name)
	}
	c.report.Blocks = len(c.blocks.named)
	return nil
}

// checkPlace judges where an entry of a cleanly closed store points: after a
// kill an entry may be dead, after a close none is.
func (c *checker) checkPlace(e *indexEntry) {
	if e.namespace > 0 && int(e.namespace) <= len(c.namespaces) && e.incarnation < c.namespaces[e.namespace-1].incarnation {
		return // of a dropped incarnation: the record of the drop only cleans up
	}
	g := c.segments[e.place.Segment()]
	slot := e.place.Slot()
	f := Fault{Severity: Damage, File: segmentName(e.place.Segment()), Segment: e.place.Segment(), Slot: &slot, Offset: -1, Means: "the block is a miss"}
	switch {
	case g == nil:
		f.What = "the index names a block in it, and the segment is missing or unusable"
	case slot >= g.header.slots:
		f.What = fmt.Sprintf("the index names slot %d of %d", slot, g.header.slots)
	case e.namespace != g.header.namespace || e.incarnation != g.header.incarnation:
		f.What = fmt.Sprintf("the index names a block of namespace %d, incarnation %d in a segment of %d, %d",
			e.namespace, e.incarnation, g.header.namespace, g.header.incarnation)
	case e.position <= g.header.createdAfter:
		f.What = fmt.Sprintf("the index names a block (log position %d) older than the segment (%d)", e.position, g.header.createdAfter)
	case c.blocks.bad[e.place]:
		f.What = "the index names a block in a slot that is quarantined"
	default:
		return
	}
	c.fault(f)
}

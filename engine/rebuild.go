package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/table"
)

// rebuild makes a new index:
//
//  1. gather what names blocks: the old index as far as it could be read, the
//     log, and the directories of the segments;
//  2. leave out whatever a deletion may have named since;
//  3. read every slot that is named and prove it: the newest name that its bytes
//     prove counts, and for one ID the newest block;
//  4. build the new index beside the old one and let it take its place.
func (c *checker) rebuild() error {
	began := time.Now()
	r := &RebuildReport{}
	before := c.report.Bytes
	reads := c.gather(r)
	live := map[Place]blockName{}
	for name, b := range c.blocks.named {
		if b.seen >= c.index.applied {
			live[b.place] = name
		}
	}
	if err := c.readSlots("rebuild", reads); err != nil {
		return err
	}
	proven := map[table.ID]*indexEntry{}
	for i := range reads {
		read := &reads[i]
		if name, ok := live[read.place]; ok && name == read.named[0].name() {
			c.judgeRead(read) // also a fault of the store as it was
		}
		switch e := read.proof; {
		case e == nil:
			r.Lost++
		case proven[e.id] == nil || proven[e.id].position < e.position:
			proven[e.id] = e
		}
	}
	blocks := make([]*indexEntry, 0, len(proven))
	for _, e := range proven {
		blocks = append(blocks, e)
		if len(e.key) == 0 {
			r.Unnamed++
		}
	}
	r.Restored, r.Bytes = len(blocks), c.report.Bytes-before
	if err := c.syncSegments(); err != nil {
		return err
	}
	if err := c.replaceIndex(blocks, r); err != nil {
		return fmt.Errorf("rebuild the index: %w", err)
	}
	r.Elapsed = time.Since(began)
	c.report.Rebuilt = r
	return nil
}

// undeleted reports whether a block that was there at a position has not been
// deleted since: no deletion is newer, or the log shows all that happened.
func (c *checker) undeleted(seen uint64) bool {
	last := max(c.log.last, c.index.applied)
	return c.deletionKnown && c.deletion <= seen || seen >= c.log.unbroken && (!c.deletionKnown || c.deletion <= last)
}

// gather lists the slots that something names, each with its names, the newest
// first.
func (c *checker) gather(r *RebuildReport) []slotRead {
	bySlot := map[Place]map[blockName]*indexEntry{}
	add := func(e *indexEntry) {
		if bySlot[e.place] == nil {
			bySlot[e.place] = map[blockName]*indexEntry{}
		}
		if old := bySlot[e.place][e.name()]; old == nil || len(old.key) == 0 {
			bySlot[e.place][e.name()] = e
		}
	}
	for _, b := range c.blocks.named {
		if !c.undeleted(b.seen) {
			r.GivenUp++
			continue
		}
		add(&b.indexEntry)
	}
	for _, g := range c.segments {
		for i := range g.pages {
			c.gatherPage(g, &g.pages[i], r, add)
		}
	}
	reads := make([]slotRead, 0, len(bySlot))
	for place, names := range bySlot {
		read := slotRead{place: place}
		for _, e := range names {
			read.named = append(read.named, e)
		}
		slices.SortFunc(read.named, func(a, b *indexEntry) int { return int(int64(b.position) - int64(a.position)) })
		reads = append(reads, read)
	}
	slices.SortFunc(reads, func(a, b slotRead) int { return int(int64(a.place) - int64(b.place)) })
	return reads
}

// gatherPage adds what one directory page names.
func (c *checker) gatherPage(g *checkedSegment, p *directoryPage, r *RebuildReport, add func(*indexEntry)) {
	usable := c.deletionKnown && c.undeleted(p.position)
	for i := range p.entries {
		d := &p.entries[i]
		e := &indexEntry{namespace: g.header.namespace, incarnation: g.header.incarnation, id: d.id, position: d.position,
			place: MakePlace(g.header.number, d.slot), checksum: d.checksum, depth: d.depth, importance: d.importance,
			group: d.group, key: d.key}
		if c.blocks.isGone(e.name()) || !c.alive(e) {
			continue
		}
		if !usable {
			r.GivenUp++
			continue
		}
		add(e)
	}
}

// syncSegments makes what was read, and proven, durable.
func (c *checker) syncSegments() error {
	for _, g := range c.segments {
		if err := device.Do(c.dev, &device.Op{Kind: device.Sync, File: g.file}); err != nil {
			return fmt.Errorf("sync %s: %w", segmentName(g.header.number), err)
		}
	}
	return nil
}

// newest is the highest log position that anything names: none up to it is
// ever used again.
func (c *checker) newest() uint64 {
	n := max(c.log.last, c.index.applied, c.deletion)
	for _, g := range c.segments {
		n = max(n, g.header.createdAfter)
		for i := range g.pages {
			n = max(n, g.pages[i].position)
			for j := range g.pages[i].entries {
				n = max(n, g.pages[i].entries[j].position)
			}
		}
	}
	return n
}

// replaceIndex builds the new index and lets it take the old one's place. Cut
// short anywhere, there is one whole index, or a whole one that the next open
// takes (adoptIndex).
func (c *checker) replaceIndex(blocks []*indexEntry, r *RebuildReport) error {
	building, ready, current := c.indexPath(indexBuildingFolder), c.indexPath(indexNewFolder), c.indexPath(indexFolder)
	if err := errors.Join(c.fs.RemoveAll(building), c.buildIndex(building, blocks)); err != nil {
		return err
	}
	damaged := ""
	if c.index.folder == indexFolder || exists(c.fs, current) {
		for n := 1; ; n++ {
			damaged = fmt.Sprintf("%s%d", indexDamagedPrefix, n)
			if !exists(c.fs, c.indexPath(damaged)) {
				break
			}
		}
	}
	err := errors.Join(c.fs.RemoveAll(ready), c.fs.Rename(building, ready), c.syncDir())
	if err == nil && damaged != "" {
		err = errors.Join(c.fs.Rename(current, c.indexPath(damaged)), c.syncDir())
	}
	if err == nil {
		err = errors.Join(c.fs.Rename(ready, current), c.syncDir())
	}
	r.OldIndex = damaged
	return err
}

// buildIndex writes a whole index into an empty folder.
func (c *checker) buildIndex(path string, blocks []*indexEntry) error {
	ix, err := openIndex(c.fs, path, c.o.Logger)
	if err != nil {
		return err
	}
	err = ix.trouble.guard(func() error { return c.fillIndex(ix, blocks) })
	return errors.Join(err, ix.close())
}

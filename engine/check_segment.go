package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/table"
)

// checkedSegment is a segment that belongs to a living incarnation.
type checkedSegment struct {
	header segmentHeader
	file   device.File
	pages  []directoryPage // the sound ones; read by checkDirectories
}

// checkSegments reads the headers of all segments.
func (c *checker) checkSegments() error {
	for _, name := range c.names {
		number, ok := segmentNumber(name)
		if !ok {
			continue
		}
		f, err := c.dev.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open segment %s: %w", name, err)
		}
		h, known := c.checkHeader(name, f)
		if known && c.belongs(name, number, h) {
			if f.SizeBytes() != h.fileBytes() {
				c.damage(name, -1, fmt.Sprintf("the file has %d bytes, its header says %d", f.SizeBytes(), h.fileBytes()),
					"blocks beyond its end are misses")
			}
			c.segments[number] = &checkedSegment{header: *h, file: f}
			c.report.Segments++
			continue
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

const headerMeans = "the segment's blocks are misses and its file goes at the next open"

// checkHeader reads a header and its mirror and compares them. known is false
// if neither tells what the file is.
func (c *checker) checkHeader(name string, f device.File) (h *segmentHeader, known bool) {
	if f.SizeBytes() == 0 {
		return nil, false // what is left of a creation that was cut short
	}
	mirror, attrErr := f.Attr(segmentAttr)
	if attrErr != nil && !errors.Is(attrErr, fs.ErrNotExist) && !errors.Is(attrErr, errors.ErrUnsupported) {
		c.damage(name, -1, "the header's mirror cannot be read: "+attrErr.Error(), "there is no copy of the header")
	}
	mirrored, mirrorErr := decodeSegmentHeader(mirror)
	if attrErr == nil && mirrorErr != nil {
		c.damage(name, -1, "the header's mirror, an extended attribute: "+mirrorErr.Error(), "there is no copy of the header")
	}
	if attrErr != nil {
		mirrorErr = attrErr
	}
	page := device.AlignedBuffer(headerBytes, headerBytes)
	err := device.Do(c.dev, &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{page}})
	if err == nil && attrErr != nil && allZero(page) {
		return nil, false // a creation that was cut short before the header
	}
	means := "the mirror is used instead"
	if mirrorErr != nil {
		means = headerMeans
	}
	if err != nil {
		c.damage(name, 0, "the header cannot be read: "+err.Error(), means)
		return &mirrored, mirrorErr == nil
	}
	own, err := decodeSegmentHeader(page)
	if err != nil {
		c.damage(name, 0, err.Error(), means)
		return &mirrored, mirrorErr == nil
	}
	if !allZero(page[segmentHeaderBytes:]) {
		c.damage(name, segmentHeaderBytes, "bytes behind the header are not zero", "nothing reads them")
	}
	if mirrorErr == nil && !bytes.Equal(mirror, page[:segmentHeaderBytes]) {
		c.damage(name, -1, "the header's mirror, an extended attribute, says something else", "the header is used")
	}
	return &own, true
}

// belongs reports whether a segment is part of the living store.
func (c *checker) belongs(name string, number uint32, h *segmentHeader) bool {
	if h.storeID != c.id || h.number != number {
		c.notice(name, fmt.Sprintf("the file is segment %d of store %x", h.number, h.storeID), "it is left alone, and takes capacity")
		return false
	}
	if h.namespace == 0 || int(h.namespace) > len(c.namespaces) {
		c.damage(name, 68, fmt.Sprintf("namespace %d is not in the store file", h.namespace), headerMeans)
		return false
	}
	ns := c.namespaces[h.namespace-1]
	if h.incarnation < ns.incarnation {
		return false // what is left of a drop
	}
	if h.incarnation != ns.incarnation || h.nsID != ns.id || int(h.blockBytes) != ns.blockBytes || h.slotBytes != ns.slotBytes {
		c.damage(name, 32, fmt.Sprintf("the header and the store file differ about namespace %d", h.namespace), headerMeans)
		return false
	}
	return true
}

// checkDirectories reads the directories of all segments.
func (c *checker) checkDirectories() error {
	buf := device.AlignedBuffer(directoryWritePages*directoryPageBytes, directoryPageBytes)
	for _, name := range c.names {
		number, _ := segmentNumber(name)
		g := c.segments[number]
		if g == nil {
			continue
		}
		for at := int64(0); at < int64(g.header.dirBytes); at += int64(len(buf)) {
			part := buf[:min(int64(len(buf)), int64(g.header.dirBytes)-at)]
			offset := g.header.directoryOffset() + at
			err := device.Do(c.dev, &device.Op{Kind: device.Read, File: g.file, Offset: offset, Bufs: [][]byte{part}})
			if errors.Is(err, io.ErrUnexpectedEOF) {
				break // the size was reported
			}
			if err != nil {
				c.damage(name, offset, "the directory cannot be read: "+err.Error(), pageMeans)
				continue
			}
			for ; len(part) > 0; part = part[directoryPageBytes:] {
				c.checkPage(name, g, offset, part[:directoryPageBytes])
				offset += directoryPageBytes
			}
		}
	}
	return nil
}

const pageMeans = "a rebuild of the index would not know the blocks that only this page names"

func (c *checker) checkPage(name string, g *checkedSegment, offset int64, page []byte) {
	if allZero(page) {
		return
	}
	p, err := decodeDirectoryPage(page)
	if err != nil {
		// Only a power cut tears a page.
		crc, want := crc32.Checksum(page[4:], castagnoli), binary.LittleEndian.Uint32(page)
		torn := crc != want && (!c.report.Clean || len(c.suspect) > 0)
		if !torn || oneBitOff(crc, want, directoryPageBytes-4) {
			c.damage(name, offset, err.Error(), pageMeans)
		}
		return
	}
	h := &g.header
	if p.segment != h.number || int64(p.page) != (offset-h.directoryOffset())/directoryPageBytes || p.incarnation != h.incarnation {
		c.damage(name, offset, fmt.Sprintf("the directory page is number %d of segment %d, incarnation %d", p.page, p.segment, p.incarnation), pageMeans)
		return
	}
	ns := c.namespaces[h.namespace-1]
	for i := range p.entries {
		e := &p.entries[i]
		e.key = bytes.Clone(e.key)
		if e.slot >= h.slots || !ns.named(e.id, h.incarnation, e.group, e.key) {
			c.damage(name, offset, fmt.Sprintf("the directory page names a block for slot %d that cannot be", e.slot), pageMeans)
			return
		}
	}
	g.pages = append(g.pages, p)
}

// named reports whether an ID is that of the key; a lost key may have been any.
func (ns *checkedNamespace) named(id table.ID, incarnation, group uint32, key []byte) bool {
	if len(key) == 0 {
		return true
	}
	own, _ := blockID(&ns.id, uint64(incarnation), Key{Group: group, Bytes: key}, nil)
	return own == id
}

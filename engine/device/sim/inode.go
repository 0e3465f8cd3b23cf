package sim

import (
	"bytes"
	"maps"
)

// pageBytes is the unit in which file content is allocated, on first write.
const pageBytes = 16 << 10

type page [pageBytes]byte

var zeroPage page

// inode is one file's content and what a power cut may take from it. The
// Disk's mutex guards it.
type inode struct {
	id     uint64
	linked bool // it has a name in Disk.names

	size       int64
	stableSize int64           // the size a power cut may fall back to
	pages      map[int64]*page // by page number; a missing one reads as zeros
	holes      map[int64]bool  // punched pages: they need room again when written

	attrs       map[string][]byte
	stableAttrs map[string][]byte

	landed    uint64 // number of writes and punches that landed
	undo      []undo // of those not covered by a sync, in the order of landing
	undoBytes int64
}

// chargedBytes is the room the file takes.
func (ino *inode) chargedBytes() int64 { return ino.size - int64(len(ino.holes))*pageBytes }

// roomFor is the room that a write of n bytes at offset adds.
func (ino *inode) roomFor(offset, n int64) int64 {
	room := max(0, offset+n-ino.size)
	if len(ino.holes) > 0 {
		for no := offset / pageBytes; no*pageBytes < offset+n; no++ {
			if ino.holes[no] {
				room += pageBytes
			}
		}
	}
	return room
}

// readAt fills dst from offset on, with zeros where nothing was written.
func (ino *inode) readAt(dst []byte, offset int64) {
	for len(dst) > 0 {
		no, at := offset/pageBytes, offset%pageBytes
		n := min(len(dst), int(pageBytes-at))
		if pg := ino.pages[no]; pg != nil {
			copy(dst[:n], pg[at:])
		} else {
			clear(dst[:n])
		}
		dst, offset = dst[n:], offset+int64(n)
	}
}

// writeAt stores src at offset. The size is the caller's business.
func (ino *inode) writeAt(src []byte, offset int64) {
	for len(src) > 0 {
		no, at := offset/pageBytes, offset%pageBytes
		n := min(len(src), int(pageBytes-at))
		pg := ino.pages[no]
		if pg == nil && !bytes.Equal(src[:n], zeroPage[:n]) {
			pg = new(page)
			ino.pages[no] = pg
		}
		if pg != nil {
			copy(pg[at:], src[:n])
		}
		delete(ino.holes, no)
		src, offset = src[n:], offset+int64(n)
	}
}

// punch zeroes n bytes at offset, within the size, and gives whole pages back.
func (ino *inode) punch(offset, n int64) {
	for n > 0 {
		no, at := offset/pageBytes, offset%pageBytes
		k := min(n, pageBytes-at)
		pg := ino.pages[no]
		if pg != nil {
			ino.remember(offset, k)
		}
		switch {
		case k == pageBytes:
			delete(ino.pages, no)
			if ino.holes == nil {
				ino.holes = map[int64]bool{}
			}
			ino.holes[no] = true
		case pg != nil:
			clear(pg[at : at+k])
		}
		offset, n = offset+k, n-k
	}
}

// truncate sets the size; what is cut off is gone.
func (ino *inode) truncate(size int64) {
	ino.size = size
	for no, pg := range ino.pages {
		switch start := no * pageBytes; {
		case start >= size:
			delete(ino.pages, no)
		case start+pageBytes > size:
			clear(pg[size-start:])
		}
	}
	maps.DeleteFunc(ino.holes, func(no int64, _ bool) bool { return (no+1)*pageBytes > size })
}

// content returns a copy of the whole file.
func (ino *inode) content() []byte {
	b := make([]byte, ino.size)
	ino.readAt(b, 0)
	return b
}

// flipBit flips one bit of the byte at offset.
func (ino *inode) flipBit(offset int64, bit uint) {
	var b [1]byte
	ino.readAt(b[:], offset)
	b[0] ^= 1 << (bit & 7)
	ino.writeAt(b[:], offset)
}

// clone is a deep copy. Undo records never change and are shared.
func (ino *inode) clone() *inode {
	c := *ino
	c.pages = make(map[int64]*page, len(ino.pages))
	for no, pg := range ino.pages {
		copied := *pg
		c.pages[no] = &copied
	}
	c.holes = maps.Clone(ino.holes)
	c.attrs, c.stableAttrs = maps.Clone(ino.attrs), maps.Clone(ino.stableAttrs)
	c.undo = append([]undo(nil), ino.undo...)
	return &c
}

package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/table"
)

// What a slot holds: a table.Ref while a block lives in it, or one of these.
// Refs stay far below the markers (table.New is bounded).
const (
	slotFree        = table.Ref(0)         // may be written
	slotFreeing     = table.Ref(1<<32 - 1) // its block is gone, the log does not durably say so yet
	slotDraining    = table.Ref(1<<32 - 2) // the log says so, but a read of it is still in flight
	slotQuarantined = table.Ref(1<<32 - 3) // never used again
)

// isBlock reports whether an owner is a block's Ref and not a marker.
func isBlock(owner table.Ref) bool { return owner != slotFree && owner < slotQuarantined }

// segment is one open segment file. All fields but header and file are guarded
// by Store.mu.
type segment struct {
	header      segmentHeader
	file        device.File
	owner       []table.Ref // per slot
	sizeBytes   int64       // of the file, when it was opened
	roomy       roomyGroups // where the free slots are
	free        int         // slots that are slotFree
	quarantined int
	blocks      int       // present and writing
	writing     int       // blocks being written
	leased      int       // blocks under at least one lease
	sums        *slotSums // of the namespace that has it; nil outside
	cursor      uint32    // where the search for a free slot goes on, ascending
	lastUse     uint64    // Store.useClock of the newest put or touch in it
	dirty       bool      // written since the last data sync
	directory   directoryState
	leaving     bool   // being emptied or unlinked: takes no new block and no new lease
	emptied     uint32 // of a leaving one: slots below hold no block any more
}

// slotSums are of all segments of a namespace, so that nothing has to walk them.
type slotSums struct {
	usable int
	free   int
	blocks int
	leased int
}

// addFree counts slots that have become free, or, below 0, are not any more.
func (g *segment) addFree(n int) {
	g.free += n
	if g.sums != nil {
		g.sums.free += n
	}
}

// addBlocks counts blocks that have come or gone.
func (g *segment) addBlocks(n int) {
	g.blocks += n
	if g.sums != nil {
		g.sums.blocks += n
	}
}

// addLeased counts blocks that have come under a lease, or are under none any more.
func (g *segment) addLeased(n int) {
	g.leased += n
	if g.sums != nil {
		g.sums.leased += n
	}
}

// quarantine takes a slot out of use for good, unless it is already.
func (g *segment) quarantine(slot uint32) {
	switch g.owner[slot] {
	case slotQuarantined:
		return
	case slotFree:
		g.addFree(-1)
	}
	g.owner[slot] = slotQuarantined
	g.quarantined++
	if g.sums != nil {
		g.sums.usable--
	}
}

// join gives a segment to a namespace.
func (ns *Namespace) join(g *segment) {
	ns.segments = append(ns.segments, g)
	g.sums = &ns.sums
	g.addToSums(1)
}

func (g *segment) addToSums(sign int) {
	g.sums.usable += sign * g.usable()
	g.sums.free += sign * g.free
	g.sums.blocks += sign * g.blocks
	g.sums.leased += sign * g.leased
}

// part takes it away.
func (ns *Namespace) part(g *segment) {
	if i := slices.Index(ns.segments, g); i >= 0 {
		ns.segments = slices.Delete(ns.segments, i, i+1)
	}
	g.addToSums(-1)
	g.sums = nil
	if ns.open == g {
		ns.open = nil
	}
}

const segmentPrefix = "seg-"

func segmentName(number uint32) string { return fmt.Sprintf("%s%08d", segmentPrefix, number) }

// segmentNumber parses a segment's file name.
func segmentNumber(name string) (uint32, bool) {
	digits, ok := strings.CutPrefix(name, segmentPrefix)
	if !ok || len(digits) < 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && n > 0
}

func newSegment(h segmentHeader, f device.File) *segment {
	return &segment{header: h, file: f, sizeBytes: h.fileBytes(), owner: make([]table.Ref, h.slots),
		roomy: newRoomyGroups(h.slots), free: int(h.slots)}
}

// take claims the next free slot in ascending order, starting at the cursor.
func (g *segment) take() (slot uint32, ok bool) {
	if g.free == 0 {
		return 0, false
	}
	if slot, ok = g.roomy.next(g.owner, g.cursor); !ok {
		slot, ok = g.roomy.next(g.owner, 0)
	}
	if !ok {
		panic("engine: segment " + segmentName(g.header.number) + " miscounts its free slots")
	}
	g.cursor = slot + 1
	g.addFree(-1)
	return slot, true
}

// release makes a slot free again.
func (g *segment) release(slot uint32) {
	if g.owner[slot] == slotFree {
		panic("engine: slot " + MakePlace(g.header.number, slot).String() + " was free already")
	}
	g.owner[slot] = slotFree
	g.roomy.add(slot)
	g.addFree(1)
}

// loseBeyond takes out of use the slots that lie beyond the end of a file that
// is shorter than it should be: nothing can be written there.
func (g *segment) loseBeyond(sizeBytes int64) (lost int) {
	g.sizeBytes = sizeBytes
	for slot := range g.owner {
		if g.beyond(uint32(slot)) {
			g.quarantine(uint32(slot))
			lost++
		}
	}
	return lost
}

// beyond reports whether a slot lies beyond the end of a file cut short.
func (g *segment) beyond(slot uint32) bool { return g.header.slotOffset(slot+1) > g.sizeBytes }

// usable is how many slots can hold a block.
func (g *segment) usable() int { return int(g.header.slots) - g.quarantined }

// createSegmentFile makes the file of a new segment: space reserved, header
// written and durable, name durable. On an error nothing is left behind.
func createSegmentFile(dev device.Device, h segmentHeader) (device.File, error) {
	name := segmentName(h.number)
	f, err := dev.Create(name, h.fileBytes())
	if err != nil {
		return nil, fmt.Errorf("create segment %s: %w", name, err)
	}
	encoded := h.encode()
	buf := device.AlignedBuffer(headerBytes, headerBytes)
	copy(buf, encoded)
	err = device.Do(dev, &device.Op{Kind: device.Write, File: f, Bufs: [][]byte{buf}})
	if err == nil {
		err = device.Do(dev, &device.Op{Kind: device.Sync, File: f})
	}
	if err == nil {
		// The mirror is a second copy, not a condition.
		if attrErr := f.SetAttr(segmentAttr, encoded); attrErr != nil && !errors.Is(attrErr, errors.ErrUnsupported) {
			err = attrErr
		}
	}
	if err == nil {
		err = dev.SyncDir()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create segment %s: %w", name, err), f.Close(), dev.Remove(name))
	}
	return f, nil
}

// readSegmentHeader reads a segment's header, or its mirror where the header
// is damaged.
func readSegmentHeader(dev device.Device, f device.File) (segmentHeader, error) {
	buf := device.AlignedBuffer(headerBytes, headerBytes)
	err := device.Do(dev, &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{buf}})
	var h segmentHeader
	if err == nil {
		if h, err = decodeSegmentHeader(buf); err == nil {
			return h, nil
		}
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: segment header is cut short", ErrCorrupt)
	}
	if errors.Is(err, ErrVersion) {
		return h, err
	}
	mirror, attrErr := f.Attr(segmentAttr)
	if attrErr != nil {
		return h, err
	}
	if h, mirrorErr := decodeSegmentHeader(mirror); mirrorErr == nil {
		return h, nil
	}
	return h, err
}

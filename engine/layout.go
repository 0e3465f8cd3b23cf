package engine

import (
	"fmt"

	"github.com/spillway-kv/spillway/engine/table"
)

// Limits of the layout.
const (
	slotsMax           = table.SlotMax + 1 // slots per segment: 1 GiB of 4 KiB slots
	segmentBytesMin    = 16 << 20
	segmentBytesMax    = 1 << 30
	segmentSlotsMin    = 8
	logFilesMax        = 4
	logFileBytesMin    = 256 << 10
	logFileBytesMax    = 16 << 20
	indexBytesPerSlot  = 256      // reserve on disk for one index entry, its overwrites and compaction
	indexFixedBytesMax = 16 << 20 // reserve for the index's own files
	storeFileReserve   = 64 << 10
)

// layout divides a store's capacity. Everything on disk is inside it:
//
//	capacity = log files + store file + fixed index reserve
//	         + segments x (file bytes + slots x indexBytesPerSlot)
//
// If the index outgrows its reserve (long keys), the coldest segment goes.
type layout struct {
	capacityBytes int64
	segmentBytes  int64 // target size of one segment
	logFileBytes  int64
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// newLayout derives the sizes of a new store.
func newLayout(capacityBytes, segmentBytes int64) layout {
	if segmentBytes == 0 {
		segmentBytes = min(max(capacityBytes/64, segmentBytesMin), segmentBytesMax)
	}
	return layout{
		capacityBytes: capacityBytes,
		segmentBytes:  roundUp(segmentBytes, headerBytes),
		logFileBytes:  logFileBytesFor(capacityBytes),
	}
}

func logFileBytesFor(capacityBytes int64) int64 {
	return min(max(roundUp(capacityBytes/256, headerBytes), logFileBytesMin), logFileBytesMax)
}

// overheadBytes is what the store needs before its first segment.
func (l layout) overheadBytes() int64 {
	return logFilesMax*l.logFileBytes + l.ballastBytes() + storeFileReserve + l.indexFixedBytes()
}

// indexFixedBytes is the reserve for the index's own files, blocks apart.
func (l layout) indexFixedBytes() int64 { return min(indexFixedBytesMax, l.capacityBytes/16) }

// segmentBudgetBytes is what segments, with their share of the index, may cost.
func (l layout) segmentBudgetBytes() int64 { return l.capacityBytes - l.overheadBytes() }

// check refuses a capacity that leaves no room for one segment.
func (l layout) check() error {
	if l.segmentBudgetBytes() < l.segmentBytes {
		return fmt.Errorf("%w: capacity %d bytes is too small: log, index and one segment need %d",
			ErrConfig, l.capacityBytes, l.capacityFor(l.segmentBytes))
	}
	return nil
}

// capacityFor is a capacity that leaves segments a budget of budgetBytes, in
// this store or in a new one. The overhead grows with the capacity, by less
// than a tenth of it.
func (l layout) capacityFor(budgetBytes int64) int64 {
	for at := budgetBytes; ; {
		at = roundUp(at, headerBytes)
		l.capacityBytes, l.logFileBytes = at, max(l.logFileBytes, logFileBytesFor(at))
		if l.segmentBudgetBytes() >= budgetBytes {
			return at
		}
		at = budgetBytes + l.overheadBytes()
	}
}

// directoryBytes is the room for the directory at the end of a segment.
func directoryBytes(slots uint32) int64 {
	return roundUp(int64(slots)*directoryBytesPerSlot, directoryPageBytes)
}

// segmentFileBytes is the length of a segment's file.
func segmentFileBytes(slotBytes, slots uint32) int64 {
	return headerBytes + int64(slots)*int64(slotBytes) + directoryBytes(slots)
}

// shape gives the slot size and the slots per segment for a block size. The
// file is at most segmentBytes long, unless that leaves too few slots.
func (l layout) shape(blockBytes int) (slotBytes, slots uint32) {
	slotBytes = uint32(roundUp(int64(blockBytes), headerBytes))
	n := max((l.segmentBytes-headerBytes)/(int64(slotBytes)+directoryBytesPerSlot), segmentSlotsMin)
	if n > segmentSlotsMin && segmentFileBytes(slotBytes, uint32(min(n, slotsMax))) > l.segmentBytes {
		n-- // the directory takes whole pages
	}
	return slotBytes, uint32(min(n, slotsMax))
}

// segmentCostBytes is what one segment takes from the budget.
func segmentCostBytes(slotBytes, slots uint32) int64 {
	return segmentFileBytes(slotBytes, slots) + int64(slots)*indexBytesPerSlot
}

// checkFits refuses a capacity that cannot hold one segment of this block
// size, naming the smallest that can.
func (l layout) checkFits(blockBytes int) error {
	slotBytes, slots := l.shape(blockBytes)
	if cost := segmentCostBytes(slotBytes, slots); cost > l.segmentBudgetBytes() {
		return fmt.Errorf("%w: capacity %d bytes cannot hold one segment of %d blocks of %d bytes: it needs at least %d",
			ErrConfig, l.capacityBytes, slots, blockBytes, l.capacityFor(cost))
	}
	return nil
}

// reserveSlots is how many of a namespace's slots are kept free ahead of
// need, so that a put finds a slot whose free record is already durable.
func reserveSlots(slots int) int { return min(max(slots/64, 2), 1024) }

package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/wal"
)

// checkedLog is what was found of the log.
type checkedLog struct {
	// oldest is the first position that the files in use still hold; records
	// before it were trimmed.
	oldest uint64
	last   uint64 // the newest record, 0 without any
	// unbroken: of the records after this position none is missing that could
	// have been a deletion.
	unbroken uint64
}

// usedLogFile is a log file in use.
type usedLogFile struct {
	name   string
	number uint64
	first  uint64 // position
}

// deviceReader reads a file of a device at any offset.
type deviceReader struct {
	dev   device.Device
	file  device.File
	align int64
}

// ReadAt implements io.ReaderAt.
func (r deviceReader) ReadAt(b []byte, offset int64) (int, error) {
	start := offset &^ (r.align - 1)
	end := roundUp(offset+int64(len(b)), r.align)
	buf := device.AlignedBuffer(int(end-start), headerBytes)
	op := device.Op{Kind: device.Read, File: r.file, Offset: start, Bufs: [][]byte{buf}}
	err := device.Do(r.dev, &op)
	n := 0
	if got := int64(op.N) - (offset - start); got > 0 {
		n = copy(b, buf[offset-start:op.N])
	}
	if n == len(b) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// checkLog inspects each log file, and then reads the log as a whole as an open
// would.
func (c *checker) checkLog() error {
	var used []usedLogFile
	for _, name := range c.names {
		number, ok := wal.FileNumber(name)
		if !ok {
			continue
		}
		c.report.LogFiles++
		first, err := c.inspectLogFile(name, number)
		if err != nil {
			return err
		}
		if first > 0 {
			used = append(used, usedLogFile{name, number, first})
		}
	}
	slices.SortFunc(used, func(a, b usedLogFile) int { return int(int64(b.number) - int64(a.number)) })
	c.log.oldest = c.index.applied + 1
	for i, f := range used { // newest first; a file that begins no earlier than a newer one is dead
		if i == 0 || f.first < c.log.oldest {
			c.log.oldest = f.first
		}
	}
	if c.report.LogFiles == 0 {
		if c.index.applied > 0 || len(c.segments) > 0 {
			c.damage("wal-*", -1, "there is no log file", "blocks put or deleted lately may be wrong about themselves: puts are lost, deletions undone")
		}
		return nil
	}
	if len(used) == 0 && c.report.Clean {
		c.damage("wal-*", -1, "no log file is in use", "the index has what was in it; only a rebuild would miss it")
	}
	return c.readLog()
}

// inspectLogFile looks at one file and returns the first position that it holds,
// 0 if it is not in use.
func (c *checker) inspectLogFile(name string, number uint64) (first uint64, err error) {
	f, err := c.dev.Open(name)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close() // read only
	size := f.SizeBytes()
	if size == 0 {
		return 0, nil // a creation that was cut short
	}
	if size != c.layout.logFileBytes {
		c.damage(name, -1, fmt.Sprintf("the file has %d bytes instead of %d", size, c.layout.logFileBytes), "records beyond its end are lost")
	}
	r := deviceReader{c.dev, f, int64(c.dev.Facts().OffsetAlignBytes)}
	headless := false
	for s := range wal.Inspect(r, size, number) {
		switch {
		case s.Sight == wal.SightHeader && s.Header.Number == number:
			first = uint64(s.Header.First)
		case s.Sight == wal.SightNoHeader:
			headless = true
			if oneBitOffUnit(r, number) {
				c.damage(name, 0, "the header fails its checksum", "the frames behind it still count; without any, the log may seem to end earlier")
				headless = false
			}
		case s.Sight == wal.SightFrame && first == 0:
			first = uint64(s.Frame.FileFirst)
			if headless {
				c.damage(name, 0, "the header is damaged", "the frames behind it still count")
			}
		}
		if s.Sight == wal.SightUnreadable {
			c.damage(name, s.Offset, fmt.Sprintf("%d bytes cannot be read: %v", s.Bytes, s.Cause), "records in them are lost")
		}
		if err := c.ctx.Err(); err != nil {
			return first, err
		}
	}
	return first, nil
}

// oneBitOffUnit reports whether the first unit of a log file would be this
// number's sound header with one bit changed. One with another number is a spare
// file's, and means nothing.
func oneBitOffUnit(r io.ReaderAt, number uint64) bool {
	unit := make([]byte, headerBytes)
	if _, err := r.ReadAt(unit, 0); err != nil {
		return false
	}
	const numberAt, sumAt = 32, headerBytes - 4 // docs/format/wal.md
	own, want := crc32.Checksum(unit[:sumAt], castagnoli), binary.LittleEndian.Uint32(unit[sumAt:])
	if binary.LittleEndian.Uint64(unit[numberAt:]) == number {
		return oneBitOff(own, want, sumAt)
	}
	binary.LittleEndian.PutUint64(unit[numberAt:], number) // is the number what was changed?
	return crc32.Checksum(unit[:sumAt], castagnoli) == want
}

// readLog replays the log behind the index, and judges what is missing.
func (c *checker) readLog() error {
	from := c.log.oldest - 1
	if c.index.known {
		from = min(from, c.index.applied)
	}
	opts := wal.Options{StoreID: c.id, FileBytes: c.layout.logFileBytes, FilesMax: logFilesMax, Logger: c.o.Logger}
	found, err := wal.Recover(c.dev, opts, wal.Position(from), func(p wal.Position, payload []byte) error {
		if uint64(p) <= c.index.applied && !c.o.Rebuild {
			return nil // the index has it
		}
		if err := c.blocks.apply(uint64(p), payload); err != nil {
			c.damage("wal-*", -1, err.Error(), "the store does not open with it")
		}
		return c.ctx.Err()
	})
	if errors.Is(err, wal.ErrForeign) || errors.Is(err, wal.ErrVersion) {
		c.damage("wal-*", -1, err.Error(), "the store does not open with it")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	c.log.last, c.log.unbroken = uint64(found.Last), c.log.oldest-1
	last := max(c.log.last, c.index.applied)
	synced := max(c.index.synced, uint64(found.DataSynced))
	earlier := slices.Clone(c.suspect)
	if synced < last {
		c.suspect = append(c.suspect, suspectRange{synced, last})
	}
	for _, gap := range found.Gaps {
		c.checkGap(gap, earlier)
	}
	c.checkTail(&found, earlier)
	return nil
}

// tornAt reports whether records (after, before) at the end of a run may be
// missing because a power cut ended it: the index had them, or nobody was
// promised them.
func tornAt(after, before uint64, stops []suspectRange) bool {
	for _, r := range stops {
		if r.to+1 == before && r.from <= after {
			return true
		}
	}
	return false
}

// checkGap judges records missing in the middle of the log.
func (c *checker) checkGap(gap wal.Gap, stops []suspectRange) {
	after, before := uint64(gap.After), uint64(gap.Before)
	if gap.BarrierLost {
		c.log.unbroken = max(c.log.unbroken, before-1)
	}
	if before <= c.index.applied+1 && tornAt(after, before, stops) {
		return
	}
	file, offset := "wal-*", int64(-1)
	if at, ok := errors.AsType[*wal.CorruptError](gap.Cause); ok {
		file, offset = at.File, at.Offset
	}
	what := fmt.Sprintf("log records %d to %d are missing: %v", after+1, before-1, gap.Cause)
	switch {
	case before <= c.index.applied+1:
		c.damage(file, offset, what, "the index has them; only a rebuild would miss them")
	case gap.BarrierLost:
		c.damage(file, offset, what, "a deletion may be among them: all older blocks are given up at the next open")
		for name := range c.blocks.named {
			if name.position < before && !c.o.Rebuild {
				delete(c.blocks.named, name)
			}
		}
	default:
		c.damage(file, offset, what, "blocks put there are lost")
	}
}

// checkTail judges the end of the log. After a kill it may be torn; the end of
// a log that was closed is where the index says.
func (c *checker) checkTail(found *wal.Recovered, stops []suspectRange) {
	if !c.report.Clean {
		return
	}
	file, offset := "wal-*", int64(-1)
	if at, ok := errors.AsType[*wal.CorruptError](found.TailCause); ok {
		file, offset = at.File, at.Offset
	}
	if c.log.last < c.index.applied && !tornAt(c.log.last, c.index.applied+1, stops) {
		c.damage(file, offset, fmt.Sprintf("the log ends at record %d, the index has %d", c.log.last, c.index.applied),
			"the index has what is missing; only a rebuild would miss it")
	} else if found.Tail != wal.TailClean {
		c.damage(file, offset, fmt.Sprintf("the log of a closed store ends %v: %v", found.Tail, found.TailCause), "records behind it are lost")
	}
}

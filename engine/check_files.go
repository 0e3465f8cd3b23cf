package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/wal"
)

// checkedNamespace is what the store file says of one namespace.
type checkedNamespace struct {
	id          [32]byte
	incarnation uint32
	blockBytes  int
	slotBytes   uint32
}

// checkStoreFile reads the store file; without a sound one nothing else means
// anything.
func (c *checker) checkStoreFile() (known bool, err error) {
	raw, err := c.dev.ReadFile(storeFileName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%w: %s has no file %s", ErrNotAStore, c.o.Dir, storeFileName)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", storeFileName, err)
	}
	f, err := decodeStoreFile(raw)
	if err != nil {
		// A sound rest proves that only the first bytes are wrong.
		ours := len(raw) >= storeHeaderBytes && crc32.Checksum(raw[12:], castagnoli) == binary.LittleEndian.Uint32(raw[8:])
		if !ours && !errors.Is(err, ErrCorrupt) {
			return false, err
		}
		if ours && errors.Is(err, ErrVersion) && string(raw[:8]) == storeMagic {
			return false, err
		}
		c.damage(storeFileName, 0, err.Error(), "the store cannot be opened: which blocks were erased is not known any more; remove the directory and start over")
		return false, nil
	}
	c.id = f.storeID()
	c.report.StoreID = f.StoreID
	c.layout = layout{capacityBytes: f.CapacityBytes, segmentBytes: f.SegmentBytes, logFileBytes: f.LogFileBytes}
	for _, r := range f.Namespaces {
		id, err := r.Descriptor.ID()
		if err != nil {
			return false, err
		}
		slotBytes, _ := c.layout.shape(r.Descriptor.BlockBytes)
		c.namespaces = append(c.namespaces, checkedNamespace{id, r.Incarnation, r.Descriptor.BlockBytes, slotBytes})
	}
	if c.names, err = c.dev.List(); err != nil {
		return false, err
	}
	for _, name := range c.names {
		_, isSegment := segmentNumber(name)
		_, isLog := wal.FileNumber(name)
		if !isSegment && !isLog && name != storeFileName && name != deletionsName && name != ballastName {
			c.notice(name, "this file is none of the store's", "it is left alone")
		}
	}
	return true, nil
}

// checkBallast reads the ballast, which is made of zeros and never written.
func (c *checker) checkBallast() error {
	f, err := c.dev.Open(ballastName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is given up on a full file system
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", ballastName, err)
	}
	defer f.Close() // read only
	const means = "nothing reads it; remove the file, and the store makes it anew"
	size := f.SizeBytes() &^ (headerBytes - 1)
	buf := device.AlignedBuffer(int(min(max(size, headerBytes), prewriteBytes)), headerBytes)
	for at := int64(0); at < size; at += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), size-at)]
		if err := device.Do(c.dev, &device.Op{Kind: device.Read, File: f, Offset: at, Bufs: [][]byte{part}}); err != nil {
			c.damage(ballastName, at, "it cannot be read: "+err.Error(), means)
			return nil
		}
		if n := firstNonZero(part); n >= 0 {
			c.damage(ballastName, at+int64(n), "a byte is not zero", means)
			return nil
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// firstNonZero is where the first byte lies that is not zero; -1: nowhere.
func firstNonZero(b []byte) int {
	if allZero(b) {
		return -1
	}
	return slices.IndexFunc(b, func(c byte) bool { return c != 0 })
}

// checkDeletions reads the position of the newest deletion.
func (c *checker) checkDeletions() error {
	f, position, err := readDeletions(c.dev, c.id)
	if f != nil {
		defer f.Close() // read only
	}
	const means = "a rebuild would use no directory; the next open writes the file anew"
	switch {
	case err == nil:
		c.deletion, c.deletionKnown = position, true
	case len(c.segments) == 0 && !c.report.Clean: // it is made before the first segment
	case errors.Is(err, fs.ErrNotExist):
		c.damage(deletionsName, -1, "the file is missing", means)
	default:
		c.damage(deletionsName, 0, err.Error(), means)
	}
	return nil
}

// checkOrder compares the log with the newest deletion.
func (c *checker) checkOrder() error {
	last := max(c.index.applied, c.log.last)
	if c.deletionKnown && c.deletion > last {
		c.damage(deletionsName, 32, fmt.Sprintf("the newest deletion has log position %d, the log ends at %d", c.deletion, last),
			"the log lost its end: at the next open all blocks older than the deletion are given up")
	}
	return nil
}

// oneBitOff reports whether a CRC-32C differs as if exactly one bit of the n
// bytes under it, or of itself, had been flipped. A write that was torn does
// not look like that.
func oneBitOff(found, want uint32, n int) bool {
	diff := found ^ want
	if diff&(diff-1) == 0 {
		return diff != 0
	}
	const polynomial = crc32.Castagnoli
	at := uint32(polynomial) // what a flip of the very last bit does
	for range 8 * n {
		if at == diff {
			return true
		}
		if at&1 != 0 {
			at = at>>1 ^ polynomial
		} else {
			at >>= 1
		}
	}
	return false
}

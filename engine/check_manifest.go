package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// The index library's list of files is a log of records in chunks:
// checksum u32 | length u16 | type u8 | payload. A chunk does not cross a border of
// 32 KiB; the rest before one is zero.
const (
	manifestBlockBytes  = 32 << 10
	manifestHeaderBytes = 7
	manifestBytesMax    = 1 << 30
)

// checkManifest reads the list of the index's files. Pebble may take damage in
// it for its end and go back to an older state of the index.
func (c *checker) checkManifest(path string) {
	name, err := atomicfs.ReadMarker(readOnlyFS{c.fs}, path, markerManifest)
	if err != nil || name == "" {
		c.damage(c.index.folder, -1, fmt.Sprintf("no marker tells the manifest (%v)", err), indexMeans)
		return
	}
	in := c.index.folder + "/" + name
	f, err := c.fs.Open(c.fs.PathJoin(path, name))
	if err != nil {
		c.damage(in, -1, err.Error(), indexMeans)
		return
	}
	raw, err := io.ReadAll(io.LimitReader(f, manifestBytesMax))
	if err = errors.Join(err, f.Close()); err != nil {
		c.damage(in, -1, err.Error(), indexMeans)
		return
	}
	at, what, torn := readManifest(raw)
	switch {
	case what == "":
	case torn: // after a power cut that is normal
		c.index.manifestTorn = what
	default:
		c.damage(in, int64(at), what, indexMeans)
	}
}

// readManifest walks the chunks. what says what is wrong at an offset; torn, that
// a write cut short may have left it so.
func readManifest(raw []byte) (at int, what string, torn bool) {
	for at < len(raw) {
		left := manifestBlockBytes - at%manifestBlockBytes
		if left < manifestHeaderBytes {
			if !allZero(raw[at:min(at+left, len(raw))]) {
				return at, "bytes between two chunks are not zero", false
			}
			at += left
			continue
		}
		rest := raw[at:min(at+left, len(raw))]
		if len(rest) < manifestHeaderBytes || allZero(raw[at:]) {
			return at, "it ends within a chunk", true
		}
		sum, n := unmask(binary.LittleEndian.Uint32(rest)), int(binary.LittleEndian.Uint16(rest[4:]))
		covered := rest[6:] // type and payload
		if n < len(covered) {
			own := crc32.Checksum(covered[:1+n], castagnoli)
			if own == sum {
				at += manifestHeaderBytes + n
				continue
			}
			if maskedOneBitOff(own, sum, 1+n) {
				return at, "a chunk fails its checksum", false
			}
		}
		// Does the checksum prove another length?
		for running, end := uint32(0), 0; end < len(covered); end++ {
			if running = crc32.Update(running, castagnoli, covered[end:end+1]); running == sum {
				return at, "a chunk has the wrong length", false
			}
		}
		return at, "a chunk is cut short or fails its checksum", true
	}
	return at, "", false
}

// unmask undoes what Pebble does to its checksums.
func unmask(v uint32) uint32 {
	v -= 0xa282ead8
	return v>>17 | v<<15
}

// maskedOneBitOff is oneBitOff for a stored checksum that was masked.
func maskedOneBitOff(own, stored uint32, n int) bool {
	if oneBitOff(own, stored, n) {
		return true
	}
	masked := func(v uint32) uint32 { return (v>>15 | v<<17) + 0xa282ead8 }
	diff := masked(own) ^ masked(stored)
	return diff&(diff-1) == 0
}

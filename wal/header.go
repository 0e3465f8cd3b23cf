package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Frozen numbers of the format; see docs/format/wal.md.
const (
	unitBytes     = 4096
	formatVersion = 1
	headerMagic   = "SPILLWAL"
	headerSumAt   = unitBytes - 4
	filePrefix    = "wal-"
	numberMax     = 1e17 // names with larger numbers are not ours
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileName is the name of the file with a log number.
func fileName(number uint64) string { return fmt.Sprintf("%s%08d", filePrefix, number) }

// fileNumber is the log number in a name, false if the name is not a log file's.
func fileNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && number > 0 && number <= numberMax && fileName(number) == name
}

// fileHeader is the first unit of a file.
type fileHeader struct {
	version uint32
	storeID [16]byte
	number  uint64
	first   Position
}

// encode fills unit, which is unitBytes long.
func (h fileHeader) encode(unit []byte) {
	clear(unit)
	copy(unit, headerMagic)
	binary.LittleEndian.PutUint32(unit[8:], h.version)
	copy(unit[16:], h.storeID[:])
	binary.LittleEndian.PutUint64(unit[32:], h.number)
	binary.LittleEndian.PutUint64(unit[40:], uint64(h.first))
	binary.LittleEndian.PutUint32(unit[headerSumAt:], crc32.Checksum(unit[:headerSumAt], castagnoli))
}

// decodeHeader reads a unit; false if magic or checksum are wrong.
func decodeHeader(unit []byte) (h fileHeader, sound bool) {
	if len(unit) != unitBytes || string(unit[:8]) != headerMagic ||
		binary.LittleEndian.Uint32(unit[headerSumAt:]) != crc32.Checksum(unit[:headerSumAt], castagnoli) {
		return h, false
	}
	h.version = binary.LittleEndian.Uint32(unit[8:])
	copy(h.storeID[:], unit[16:])
	h.number = binary.LittleEndian.Uint64(unit[32:])
	h.first = Position(binary.LittleEndian.Uint64(unit[40:]))
	return h, true
}

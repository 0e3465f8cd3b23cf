package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/spillway-kv/spillway/engine/device"
)

// The store file (docs/format/store.md): magic 8 | crc32c u32 | version u32 |
// body bytes u32 | JSON body. It holds what must never be guessed: the store's
// identity, its capacity and segment size, and every namespace with its
// incarnation. It is replaced atomically and is the last thing a creation
// publishes: a directory without it holds no store.
const (
	storeFileName    = "SPILLWAY"
	storeMagic       = "SPWYSTO1"
	storeVersion     = 1
	storeHeaderBytes = 20
	storeBytesMax    = 64 << 20
	namespacesMax    = 4096 // at most table.NamespaceMax
)

// storeFile is the decoded body.
type storeFile struct {
	StoreID       string            `json:"store_id"` // 32 hex digits
	CapacityBytes int64             `json:"capacity_bytes"`
	SegmentBytes  int64             `json:"segment_bytes"`
	LogFileBytes  int64             `json:"log_file_bytes"`
	Namespaces    []namespaceRecord `json:"namespaces"`
}

// namespaceRecord is kept for ever: its incarnation is the floor below which
// nothing is served again.
type namespaceRecord struct {
	Number      uint32     `json:"number"` // from 1, never used again
	Incarnation uint32     `json:"incarnation"`
	QuotaBytes  int64      `json:"quota_bytes,omitempty"`
	Descriptor  Descriptor `json:"descriptor"`
}

func (f *storeFile) storeID() (id [16]byte) {
	raw, err := hex.DecodeString(f.StoreID)
	if err != nil || len(raw) != len(id) {
		panic("engine: store ID was not validated")
	}
	copy(id[:], raw)
	return id
}

func encodeStoreFile(f *storeFile) ([]byte, error) {
	body, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, err
	}
	b := make([]byte, storeHeaderBytes, storeHeaderBytes+len(body))
	copy(b, storeMagic)
	binary.LittleEndian.PutUint32(b[12:], storeVersion)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(body)))
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b, nil
}

// decodeStoreFile tells another format version (ErrVersion) and another
// program's file (ErrNotAStore) from damage (ErrCorrupt).
func decodeStoreFile(b []byte) (*storeFile, error) {
	if len(b) < storeHeaderBytes || string(b[:8]) != storeMagic {
		if len(b) >= 7 && string(b[:7]) == storeMagic[:7] {
			return nil, fmt.Errorf("%w: store file of generation %q", ErrVersion, b[7:min(8, len(b))])
		}
		return nil, fmt.Errorf("%w: file %s is not a store file", ErrNotAStore, storeFileName)
	}
	if got, want := crc32.Checksum(b[12:], castagnoli), binary.LittleEndian.Uint32(b[8:]); got != want {
		return nil, fmt.Errorf("%w: file %s: checksum %08x, computed %08x", ErrCorrupt, storeFileName, want, got)
	}
	if v := binary.LittleEndian.Uint32(b[12:]); v != storeVersion {
		return nil, fmt.Errorf("%w: store format %d, this program reads %d", ErrVersion, v, storeVersion)
	}
	if n := binary.LittleEndian.Uint32(b[16:]); int(n) != len(b)-storeHeaderBytes {
		return nil, fmt.Errorf("%w: file %s: body of %d bytes, %d announced", ErrCorrupt, storeFileName, len(b)-storeHeaderBytes, n)
	}
	var f storeFile
	dec := json.NewDecoder(bytes.NewReader(b[storeHeaderBytes:]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("%w: file %s: %v", ErrCorrupt, storeFileName, err)
	}
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("%w: file %s: %v", ErrCorrupt, storeFileName, err)
	}
	return &f, nil
}

func (f *storeFile) validate() error {
	if raw, err := hex.DecodeString(f.StoreID); err != nil || len(raw) != 16 {
		return fmt.Errorf("store id %q", f.StoreID)
	}
	if f.CapacityBytes <= 0 || f.SegmentBytes <= 0 || f.LogFileBytes <= 0 || len(f.Namespaces) > namespacesMax {
		return fmt.Errorf("impossible sizes (capacity %d, segment %d, log file %d, %d namespaces)",
			f.CapacityBytes, f.SegmentBytes, f.LogFileBytes, len(f.Namespaces))
	}
	for i, ns := range f.Namespaces {
		if ns.Number != uint32(i+1) || ns.Incarnation == 0 || ns.QuotaBytes < 0 {
			return fmt.Errorf("namespace record %d", i)
		}
		if err := ns.Descriptor.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// readStoreFile returns nil without an error when there is none.
func readStoreFile(dev device.Device) (*storeFile, error) {
	b, err := dev.ReadFile(storeFileName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", storeFileName, err)
	}
	if len(b) > storeBytesMax {
		return nil, fmt.Errorf("%w: file %s has %d bytes", ErrCorrupt, storeFileName, len(b))
	}
	return decodeStoreFile(b)
}

func writeStoreFile(dev device.Device, f *storeFile) error {
	b, err := encodeStoreFile(f)
	if err != nil {
		return err
	}
	if err := dev.WriteFile(storeFileName, b); err != nil {
		return fmt.Errorf("write %s: %w", storeFileName, err)
	}
	return nil
}

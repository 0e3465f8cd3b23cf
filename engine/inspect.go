package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// Flaw is one thing wrong in a file.
type Flaw struct {
	Offset int64  // in bytes from the start of the file
	Text   string // what is wrong there
	Damage bool   // bytes are lost or changed; false: only noteworthy
}

// Names of the files of a store's directory, for those who look from outside.
const (
	StoreFileName = storeFileName
	IndexFolder   = indexFolder
)

// SegmentNumber is the number in a segment file's name, false if the name is
// not that of a segment.
func SegmentNumber(name string) (number uint32, ours bool) { return segmentNumber(name) }

// IsStoreFile reports whether a file that starts with head is a store file, of
// whatever generation.
func IsStoreFile(head []byte) bool { return bytes.HasPrefix(head, []byte(storeMagic[:7])) }

// IsSegment reports whether a file that starts with head is a segment, of
// whatever generation.
func IsSegment(head []byte) bool { return bytes.HasPrefix(head, []byte(segmentMagic[:7])) }

// StoreFileFacts are what a store file says. With a damaged file some are
// missing or not to be trusted; Flaws tells.
type StoreFileFacts struct {
	Version       uint32
	StoreID       string // 32 hex digits
	CapacityBytes int64
	SegmentBytes  int64
	LogFileBytes  int64
	Namespaces    []NamespaceFacts
	Flaws         []Flaw
}

// NamespaceFacts are one namespace record of a store file.
type NamespaceFacts struct {
	Number      uint32     `json:"number"`                // from 1, never used again
	Incarnation uint32     `json:"incarnation"`           // rises with each drop
	QuotaBytes  int64      `json:"quota_bytes,omitempty"` // absent: none
	ID          string     `json:"id"`                    // 64 hex digits: SHA-256 of the canonical descriptor
	Descriptor  Descriptor `json:"descriptor"`            // whose blocks the namespace holds
}

// InspectStoreFile decodes what it can of a store file's bytes. The error
// matches ErrNotAStore: nothing here is a store file.
func InspectStoreFile(b []byte) (StoreFileFacts, error) {
	var facts StoreFileFacts
	if !IsStoreFile(b) {
		return facts, fmt.Errorf("%w: no store file's magic", ErrNotAStore)
	}
	flaw := func(offset int64, damage bool, format string, args ...any) {
		facts.Flaws = append(facts.Flaws, Flaw{offset, fmt.Sprintf(format, args...), damage})
	}
	if len(b) < storeHeaderBytes {
		flaw(int64(len(b)), true, "cut short: %d bytes, the header alone has %d", len(b), storeHeaderBytes)
		return facts, nil
	}
	facts.Version = binary.LittleEndian.Uint32(b[12:])
	if string(b[:8]) != storeMagic || facts.Version != storeVersion {
		flaw(0, false, "generation %q, version %d: this program reads %q, version %d", b[7:8], facts.Version, storeMagic[7:], storeVersion)
	}
	body := b[storeHeaderBytes:]
	if n := binary.LittleEndian.Uint32(b[16:]); int64(n) != int64(len(body)) {
		flaw(16, true, "body of %d bytes, %d announced", len(body), n)
	}
	got, want := crc32.Checksum(b[12:], castagnoli), binary.LittleEndian.Uint32(b[8:])
	if got != want {
		flaw(8, true, "checksum %08x, computed %08x: what follows is not to be trusted", want, got)
	}
	var f storeFile
	if err := json.Unmarshal(body, &f); err != nil {
		offset := int64(storeHeaderBytes)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset += syntax.Offset
		}
		flaw(offset, true, "body: %v", err)
	} else if _, err := decodeStoreFile(b); err != nil && got == want && facts.Version == storeVersion {
		flaw(storeHeaderBytes, errors.Is(err, ErrCorrupt), "%v", err)
	}
	facts.StoreID, facts.CapacityBytes, facts.SegmentBytes, facts.LogFileBytes = f.StoreID, f.CapacityBytes, f.SegmentBytes, f.LogFileBytes
	for _, r := range f.Namespaces {
		ns := NamespaceFacts{Number: r.Number, Incarnation: r.Incarnation, QuotaBytes: r.QuotaBytes, Descriptor: r.Descriptor}
		if id, err := r.Descriptor.ID(); err == nil {
			ns.ID = hex.EncodeToString(id[:])
		}
		facts.Namespaces = append(facts.Namespaces, ns)
	}
	return facts, nil
}

// SegmentFacts are what a segment file's header says.
type SegmentFacts struct {
	Source       string `json:"source"`        // header; mirror, if only that is sound; none: unproven values of the header
	Version      uint32 `json:"version"`       // of the format
	StoreID      string `json:"store_id"`      // 32 hex digits
	NamespaceID  string `json:"namespace_id"`  // 64 hex digits
	Number       uint32 `json:"segment"`       // the segment's number, as in the file's name
	Namespace    uint32 `json:"namespace"`     // number of the namespace in the store file
	Incarnation  uint32 `json:"incarnation"`   // of the namespace
	Slots        uint32 `json:"slots"`         // blocks that fit
	SlotBytes    uint32 `json:"slot_bytes"`    // from one slot to the next
	BlockBytes   uint32 `json:"block_bytes"`   // used in each slot
	CreatedAfter uint64 `json:"created_after"` // log position when the file was made
	DirBytes     uint32 `json:"dir_bytes"`     // room for the directory behind the slots
	Flaws        []Flaw `json:"-"`
}

// SegmentHeaderBytes is how much of a segment file's start InspectSegment wants.
const SegmentHeaderBytes = headerBytes

// SegmentAttr names the extended attribute that mirrors a segment's header.
const SegmentAttr = "user.spillway." + segmentAttr

// InspectSegment decodes what it can of a segment's header: head is the start of
// the file, mirror the value of SegmentAttr or nil, sizeBytes the file's length,
// number the one in its name or 0.
func InspectSegment(head, mirror []byte, sizeBytes int64, number uint32) SegmentFacts {
	var facts SegmentFacts
	flaw := func(offset int64, damage bool, format string, args ...any) {
		facts.Flaws = append(facts.Flaws, Flaw{offset, fmt.Sprintf(format, args...), damage})
	}
	head = head[:min(len(head), segmentHeaderBytes)]
	h, headErr := decodeSegmentHeader(head)
	m, mirrorErr := decodeSegmentHeader(mirror)
	facts.Source = "header"
	switch {
	case headErr == nil && mirror != nil && mirrorErr != nil:
		flaw(0, true, "the mirror in %s is damaged: %v", SegmentAttr, mirrorErr)
	case headErr == nil && mirror != nil && m != h:
		flaw(0, true, "the mirror in %s says something else: segment %d of namespace %d.%d", SegmentAttr, m.number, m.namespace, m.incarnation)
	case headErr != nil && mirrorErr == nil:
		facts.Source, h = "mirror", m
		flaw(0, true, "%v; the mirror in %s is sound and serves", headErr, SegmentAttr)
	case headErr != nil:
		facts.Source, h = "none", rawSegmentHeader(head)
		flaw(0, !errors.Is(headErr, ErrVersion), "%v", headErr)
	}
	facts.fill(&h)
	if len(head) >= 16 {
		facts.Version = binary.LittleEndian.Uint32(head[12:])
	}
	if facts.Source == "none" {
		return facts
	}
	if facts.Source == "mirror" {
		facts.Version = binary.LittleEndian.Uint32(mirror[12:])
	}
	if number != 0 && number != h.number {
		flaw(64, false, "header of segment %d in file number %d: a store leaves it alone", h.number, number)
	}
	if want := h.fileBytes(); sizeBytes < want {
		flaw(sizeBytes, true, "the file has %d bytes, %d slots need %d: blocks past the end are misses", sizeBytes, h.slots, want)
	}
	return facts
}

func (f *SegmentFacts) fill(h *segmentHeader) {
	f.StoreID, f.NamespaceID = hex.EncodeToString(h.storeID[:]), hex.EncodeToString(h.nsID[:])
	f.Number, f.Namespace, f.Incarnation = h.number, h.namespace, h.incarnation
	f.Slots, f.SlotBytes, f.BlockBytes, f.CreatedAfter = h.slots, h.slotBytes, h.blockBytes, h.createdAfter
	f.DirBytes = h.dirBytes
}

// rawSegmentHeader reads the fields of a header that does not prove itself.
func rawSegmentHeader(head []byte) (h segmentHeader) {
	b := make([]byte, segmentHeaderBytes)
	copy(b, head)
	le := binary.LittleEndian
	copy(h.storeID[:], b[16:32])
	copy(h.nsID[:], b[32:64])
	h.number, h.namespace, h.incarnation = le.Uint32(b[64:]), le.Uint32(b[68:]), le.Uint32(b[72:])
	h.slots, h.slotBytes, h.blockBytes, h.createdAfter = le.Uint32(b[76:]), le.Uint32(b[80:]), le.Uint32(b[84:]), le.Uint64(b[88:])
	h.dirBytes = le.Uint32(b[96:])
	return h
}

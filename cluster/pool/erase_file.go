package pool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
)

// The files of a node's pool state: docs/format/pool-state.md.
const (
	stateName    = "POOL"
	stateNewName = "POOL.new"
	stateMagic   = "SPWYPOL1"
	stateVersion = 1

	logPrefix      = "ERASED-"
	logMagic       = "SPWYERA1"
	logHeaderBytes = 64
	logRecordBytes = 92
)

var (
	// ErrStateVersion: the node's pool state was written by another version.
	ErrStateVersion = errors.New("unsupported version of the pool state")

	errStateDamaged = errors.New("the pool state is damaged")
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func checksumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// stateFile is the content of the file POOL.
type stateFile struct {
	id     [16]byte  // the state's own, random: its log files repeat it
	node   member.ID // who had it open last
	origin member.ID // who that node is in clocks
	starts uint64    // how often the state was opened
	// damages is how often it was found damaged, and learned anew.
	damages uint32
	drains  bool
	pooled  bool // it has merged with another node
	first   uint32
	last    uint32 // log files that count
	// written is how many records of the last one were durable by then.
	written uint32
	floors  []peer.Floor
	lost    []lostMark
	stores  [][16]byte
}

// lostMark says that erasures of an origin in a namespace, the latest of which had this
// number, are not known by name any more.
type lostMark struct {
	space  [32]byte
	origin member.ID
	seq    uint64
}

const (
	stateHeadBytes = 8 + 4 + 4
	flagDrains     = 1 << 0
	flagPooled     = 1 << 1
)

func (s *stateFile) encode() []byte {
	b := append(make([]byte, 0, 256), stateMagic...)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, stateVersion)
	b = append(append(append(b, s.id[:]...), s.node[:]...), s.origin[:]...)
	b = le.AppendUint64(b, s.starts)
	var flags uint32
	if s.drains {
		flags |= flagDrains
	}
	if s.pooled {
		flags |= flagPooled
	}
	for _, n := range []uint32{flags, s.damages, s.first, s.last, s.written} {
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint32(b, uint32(len(s.floors)))
	for i := range s.floors {
		b = le.AppendUint32(append(b, s.floors[i].Namespace[:]...), s.floors[i].Incarnation)
	}
	b = le.AppendUint32(b, uint32(len(s.lost)))
	for i := range s.lost {
		m := &s.lost[i]
		b = le.AppendUint64(append(append(b, m.space[:]...), m.origin[:]...), m.seq)
	}
	b = le.AppendUint32(b, uint32(len(s.stores)))
	for i := range s.stores {
		b = append(b, s.stores[i][:]...)
	}
	le.PutUint32(b[8:], checksumOf(b[12:]))
	return b
}

// decodeState tells another version (ErrStateVersion) from damage.
func decodeState(b []byte) (s stateFile, err error) {
	bad := func(what string) (stateFile, error) {
		return stateFile{}, fmt.Errorf("%w: file %s %s", errStateDamaged, stateName, what)
	}
	switch {
	case len(b) < stateHeadBytes || string(b[:8]) != stateMagic:
		return bad("has no magic")
	case checksumOf(b[12:]) != le.Uint32(b[8:]):
		return bad("fails its checksum")
	}
	if v := le.Uint32(b[12:]); v != stateVersion {
		return stateFile{}, fmt.Errorf("%w: file %s has version %d, this program reads %d", ErrStateVersion, stateName, v, stateVersion)
	}
	f := fields{b: b[stateHeadBytes:]}
	s.id, s.node, s.origin, s.starts = [16]byte(f.take(16)), member.ID(f.take(16)), member.ID(f.take(16)), f.u64()
	flags := f.u32()
	s.drains, s.pooled = flags&flagDrains != 0, flags&flagPooled != 0
	s.damages, s.first, s.last, s.written = f.u32(), f.u32(), f.u32(), f.u32()
	for range f.count(36) {
		s.floors = append(s.floors, peer.Floor{Namespace: [32]byte(f.take(32)), Incarnation: f.u32()})
	}
	for range f.count(56) {
		s.lost = append(s.lost, lostMark{space: [32]byte(f.take(32)), origin: member.ID(f.take(16)), seq: f.u64()})
	}
	for range f.count(16) {
		s.stores = append(s.stores, [16]byte(f.take(16)))
	}
	switch {
	case f.short || len(f.b) > 0:
		return bad("has another length than its content")
	case flags&^(flagDrains|flagPooled) != 0:
		return bad("has unknown flags")
	case s.first == 0 || s.last < s.first:
		return bad("names log files out of order")
	}
	return s, nil
}

// fields takes numbers off a checked file; what is not there reads as zeros.
type fields struct {
	b     []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.b) {
		f.short = true
		return make([]byte, n)
	}
	taken := f.b[:n]
	f.b = f.b[n:]
	return taken
}

func (f *fields) u32() uint32 { return le.Uint32(f.take(4)) }
func (f *fields) u64() uint64 { return le.Uint64(f.take(8)) }

// count is the number of items of so many bytes that follow.
func (f *fields) count(bytesEach int) int {
	n := int(f.u32())
	if n > len(f.b)/bytesEach {
		f.short = true
		return 0
	}
	return n
}

// sort makes equal states equal bytes.
func (s *stateFile) sort() {
	slices.SortFunc(s.floors, func(a, b peer.Floor) int { return bytes.Compare(a.Namespace[:], b.Namespace[:]) })
	slices.SortFunc(s.lost, func(a, b lostMark) int {
		if c := bytes.Compare(a.space[:], b.space[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.origin[:], b.origin[:])
	})
}

// logName is the name of a log file.
func logName(number uint32) string { return fmt.Sprintf("%s%08d", logPrefix, number) }

// logNumber is the number of a log file, 0 if it is none.
func logNumber(name string) (n uint32) {
	if _, err := fmt.Sscanf(name, logPrefix+"%08d", &n); err != nil || logName(n) != name {
		return 0
	}
	return n
}

// encodeLogHeader is the head of a log file.
func encodeLogHeader(state [16]byte, number, records uint32) []byte {
	b := make([]byte, logHeaderBytes)
	copy(b, logMagic)
	le.PutUint32(b[12:], stateVersion)
	copy(b[16:], state[:])
	le.PutUint32(b[32:], number)
	le.PutUint32(b[36:], records)
	le.PutUint32(b[8:], checksumOf(b[12:]))
	return b
}

// decodeLogHeader is how many records a log file has room for.
func decodeLogHeader(b []byte, state [16]byte, number uint32) (records uint32, err error) {
	bad := func(what string) (uint32, error) {
		return 0, fmt.Errorf("%w: file %s %s", errStateDamaged, logName(number), what)
	}
	switch {
	case len(b) < logHeaderBytes || string(b[:8]) != logMagic:
		return bad("has no magic")
	case checksumOf(b[12:logHeaderBytes]) != le.Uint32(b[8:]):
		return bad("has a damaged header")
	}
	if v := le.Uint32(b[12:]); v != stateVersion {
		return 0, fmt.Errorf("%w: file %s has version %d, this program reads %d", ErrStateVersion, logName(number), v, stateVersion)
	}
	if [16]byte(b[16:32]) != state || le.Uint32(b[32:]) != number {
		return bad("belongs elsewhere")
	}
	return le.Uint32(b[36:]), nil
}

// logged is one record of a log file.
type logged struct {
	origin member.ID
	peer.Erasure
}

// stamp is where a record stands: what of an earlier run was left behind it in the file
// is none.
type stamp struct {
	number uint32 // of the file
	synced uint32 // records before it in the file that were on stable media for certain
	starts uint32 // the run that wrote it
}

// appendRecord encodes a record.
func appendRecord(b []byte, r *logged, at stamp) []byte {
	from := len(b)
	b = append(append(append(b, r.origin[:]...), r.Namespace[:]...), r.ID[:]...)
	b = le.AppendUint64(b, r.Seq)
	b = le.AppendUint32(le.AppendUint32(b, r.Incarnation), at.number)
	b = le.AppendUint32(le.AppendUint32(b, at.synced), at.starts)
	return le.AppendUint32(b, checksumOf(b[from:]))
}

// decodeRecord reads a record; ok is false if it is none of this file.
func decodeRecord(b []byte, number uint32) (r logged, at stamp, ok bool) {
	at = stamp{number: le.Uint32(b[76:]), synced: le.Uint32(b[80:]), starts: le.Uint32(b[84:])}
	if checksumOf(b[:logRecordBytes-4]) != le.Uint32(b[logRecordBytes-4:]) || at.number != number {
		return r, at, false
	}
	copy(r.origin[:], b)
	copy(r.Namespace[:], b[16:])
	copy(r.ID[:], b[48:])
	r.Seq, r.Incarnation = le.Uint64(b[64:]), le.Uint32(b[72:])
	return r, at, r.Incarnation > 0
}

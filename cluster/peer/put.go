package peer

import (
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// Flags of a Put.
const (
	PutDurable    = 1 << 0 // acknowledged when on stable media
	PutDropIfBusy = 1 << 1 // dropped rather than waiting for a free slot
	PutPartial    = 1 << 2 // the last block is not full: the prompt ends within it
	PutSpanOn     = 1 << 3 // the block behind the last one is of its stretch
	PutAdmitted   = 1 << 4 // admission has judged the blocks before, but for the write budget
	putFlagsAll   = PutDurable | PutDropIfBusy | PutPartial | PutSpanOn | PutAdmitted
)

// PutBlocksMax bounds the blocks of one Put.
const PutBlocksMax = 1 << 10

// Put brings blocks of one run. Their bytes come as the blocks of a Push, in the order of
// Items. The fields mean what they do in engine.PutOptions and engine.PutItem.
type Put struct {
	Scope    Scope
	Flags    uint32
	TimeMS   uint32 // after so long the caller wants no answer; 0: it says when
	EndDepth uint32
	After    engine.Key // without bytes: none
	Before   engine.Key // without bytes: none
	Items    []PutItem
}

// PutItem is one block of a Put.
type PutItem struct {
	Checksum   uint64 // engine.Checksum of its bytes, as the sender has them
	Depth      uint32
	Span       uint32
	Importance uint8
	Key        engine.Key
}

// putItemBytesMin is the least length of a PutItem: a key has a byte at least.
const putItemBytesMin = 8 + 4 + 4 + 1 + keyBytesMin + 1

// keyBytesMin is the length of a key without bytes.
const keyBytesMin = 4 + 2

// Append encodes what follows the scope of m.
func (m *Put) Append(b []byte) []byte {
	for _, n := range []uint32{m.Flags, m.TimeMS, m.EndDepth} {
		b = le.AppendUint32(b, n)
	}
	b = appendKey(appendKey(b, m.After), m.Before)
	b = le.AppendUint32(b, uint32(len(m.Items)))
	for i := range m.Items {
		item := &m.Items[i]
		b = le.AppendUint64(b, item.Checksum)
		b = le.AppendUint32(le.AppendUint32(b, item.Depth), item.Span)
		b = appendKey(append(b, item.Importance), item.Key)
	}
	return b
}

// ParsePut decodes a Put; its keys refer to body.
func ParsePut(body []byte) (m Put, err error) {
	r := read(body)
	m.Scope = r.scope()
	if m.Flags = r.U32("flags"); m.Flags&^putFlagsAll != 0 {
		r.Fail("unknown flags %#x", m.Flags)
	}
	m.TimeMS, m.EndDepth = r.U32("time"), r.U32("depth of the chain's end")
	m.After, m.Before = r.key("key before"), r.key("key behind")
	m.Items = make([]PutItem, r.count(PutBlocksMax, putItemBytesMin, "blocks"))
	for i := range m.Items {
		item := &m.Items[i]
		item.Checksum = r.U64("checksum")
		item.Depth, item.Span, item.Importance = r.U32("depth"), r.U32("span"), r.U8("importance")
		if item.Key = r.key("key"); r.Err() == nil && len(item.Key.Bytes) == 0 {
			r.Fail("block %d has no key", i)
		}
	}
	return m, r.Done()
}

func appendKey(b []byte, k engine.Key) []byte {
	b = le.AppendUint16(le.AppendUint32(b, k.Group), uint16(len(k.Bytes)))
	return append(b, k.Bytes...)
}

func (r *reader) key(what string) (k engine.Key) {
	k.Group = r.U32("group")
	n := int(r.U16("length of a " + what))
	if n > engine.KeyMaxBytes {
		r.Fail("a %s of %d bytes, at most %d are allowed", what, n, engine.KeyMaxBytes)
	}
	k.Bytes = r.Take(n, what)
	return k
}

// PutStatus is the answer for one block of a Put.
type PutStatus uint8

// Statuses of a Put's blocks.
const (
	PutStored  PutStatus = 1 + iota // it is in the peer's stores, and durably if so asked
	PutPresent                      // another put of it was published there before
	PutDropped                      // refused, if there is a reason, or else it failed
	PutLate                         // not done in time; it may be stored all the same
	PutWrong                        // the bytes that arrived are not those that the checksum is of
	PutErased                       // it, or its namespace, has been erased since it was put
	putStatusEnd
)

// Taken answers a Put, for one block.
type Taken struct {
	Status PutStatus
	Reason admit.Reason // why it was not admitted
}

// AppendTaken encodes the answer to a Put.
func AppendTaken(b []byte, all []Taken) []byte {
	for _, t := range all {
		b = append(b, byte(t.Status), byte(t.Reason))
	}
	return b
}

// ParseTaken decodes the answer to a Put of so many blocks.
func ParseTaken(body []byte, blocks int) ([]Taken, error) {
	r := read(body)
	all := make([]Taken, blocks)
	for i := range all {
		all[i] = Taken{PutStatus(r.U8("status")), admit.Reason(r.U8("reason"))}
		if s := all[i].Status; r.Err() == nil && (s == 0 || s >= putStatusEnd) {
			r.Fail("status %d", s)
		}
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return all, nil
}

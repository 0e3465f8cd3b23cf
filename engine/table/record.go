package table

import (
	"fmt"
	"math"
)

// Record is what the store knows about one block, in 48 bytes. The table owns ID
// and the mark that the record is in use; the rest is the caller's, and zero after
// Insert. Set single fields only: a whole Record assigned over one in the table wipes
// the table's mark, and the next At panics. An ID lies within a cache line.
type Record struct {
	ID            ID
	Checksum      uint64 // XXH3-64 of the payload, seeded with the ID
	positionLow   uint32
	positionHigh  uint16
	Importance    uint8 // outranks age when room is needed
	flags         uint8
	segment       uint32
	slotNamespace uint32 // slot 18 bits, above it namespace 14
	Depth         uint32 // position in the chain, root = 0
	Pins          uint16 // transfers in flight
	Leases        uint16
}

const (
	recordBytes = 48

	// PositionMax is the highest log position that a record can hold. No drive lives
	// to see it: so many puts of the smallest block are 1 EiB.
	PositionMax = 1<<48 - 1
	// PinsMax is the most transfers in flight that a record can count.
	PinsMax = math.MaxUint16
	// LeasesMax is the most leases that a record can count.
	LeasesMax = math.MaxUint16
	// SlotMax is the highest number of a slot in its segment.
	SlotMax = 1<<slotBits - 1
	// NamespaceMax is the highest number of a namespace.
	NamespaceMax = 1<<(32-slotBits) - 1

	slotBits = 18
)

// The flags of a record; two bits are the state.
const (
	stateMask  = 1<<2 - 1
	flagParked = 1 << (iota + 1)
	flagDoomed
	flagShared
	flagLive // the record is in use
)

// Position is the log position that owns the slot.
func (r *Record) Position() uint64 { return uint64(r.positionHigh)<<32 | uint64(r.positionLow) }

// SetPosition panics above PositionMax.
func (r *Record) SetPosition(position uint64) {
	if position > PositionMax {
		panic(fmt.Sprintf("table: position %d, want at most %d", position, uint64(PositionMax)))
	}
	r.positionLow, r.positionHigh = uint32(position), uint16(position>>32)
}

// Place is the place of the slot: the segment's number in the upper, the slot's in the
// lower 32 bits.
func (r *Record) Place() uint64 { return uint64(r.segment)<<32 | uint64(r.slotNamespace&SlotMax) }

// SetPlace panics if the slot is above SlotMax.
func (r *Record) SetPlace(place uint64) {
	slot := uint32(place)
	if slot > SlotMax {
		panic(fmt.Sprintf("table: slot %d, want at most %d", slot, SlotMax))
	}
	r.segment, r.slotNamespace = uint32(place>>32), r.slotNamespace&^SlotMax|slot
}

// Namespace is the number of the block's namespace.
func (r *Record) Namespace() uint32 { return r.slotNamespace >> slotBits }

// SetNamespace panics above NamespaceMax.
func (r *Record) SetNamespace(number uint32) {
	if number > NamespaceMax {
		panic(fmt.Sprintf("table: namespace %d, want at most %d", number, NamespaceMax))
	}
	r.slotNamespace = r.slotNamespace&SlotMax | number<<slotBits
}

// State is a number below 4 of the caller's.
func (r *Record) State() uint8 { return r.flags & stateMask }

// SetState panics above 3.
func (r *Record) SetState(state uint8) {
	if state > stateMask {
		panic(fmt.Sprintf("table: state %d, want at most %d", state, stateMask))
	}
	r.flags = r.flags&^stateMask | state
}

// Parked says that the block is out of its place in the eviction order.
func (r *Record) Parked() bool { return r.flags&flagParked != 0 }

// SetParked notes it.
func (r *Record) SetParked(on bool) { r.set(flagParked, on) }

// Doomed says that the block goes as soon as it can.
func (r *Record) Doomed() bool { return r.flags&flagDoomed != 0 }

// SetDoomed notes it.
func (r *Record) SetDoomed(on bool) { r.set(flagDoomed, on) }

// Shared says that the block was put from memory that others could write.
func (r *Record) Shared() bool { return r.flags&flagShared != 0 }

// SetShared notes it.
func (r *Record) SetShared(on bool) { r.set(flagShared, on) }

func (r *Record) set(flag uint8, on bool) {
	r.flags &^= flag
	if on {
		r.flags |= flag
	}
}

func (r *Record) live() bool { return r.flags&flagLive != 0 }

// A record that is not in use holds the number of the next one on the free list.

func freeRecord(next uint32) Record { return Record{Depth: next} }

func (r *Record) nextFree() uint32 { return r.Depth }

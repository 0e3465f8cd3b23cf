package engine

import "fmt"

// Place is where a block lies: a segment's number in the high 32 bits, the
// slot within it in the low 32. The zero Place is nowhere: segment numbers
// start at 1.
type Place uint64

// MakePlace packs a segment number and a slot number.
func MakePlace(segment, slot uint32) Place { return Place(uint64(segment)<<32 | uint64(slot)) }

// Segment is the segment's number.
func (p Place) Segment() uint32 { return uint32(p >> 32) }

// Slot is the slot's number within its segment, from 0.
func (p Place) Slot() uint32 { return uint32(p) }

func (p Place) String() string { return fmt.Sprintf("seg-%08d/%d", p.Segment(), p.Slot()) }

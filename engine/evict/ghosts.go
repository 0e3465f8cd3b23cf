package evict

import (
	"encoding/binary"
	"math/bits"

	"github.com/spillway-kv/spillway/engine/offheap"
)

// ghosts remember evicted blocks, at most as many as the factory holds, in 8 bytes
// each: buckets of eight, found by the ID, where the one used longest ago makes
// room. An entry, from the lowest bit up:
//
//	class 5 | tick of the latest use 32 | tag 27
//
// and 0 is an empty one. A tag stands for an ID with a chance of error of 1 in
// 17 million a look-up, and an error costs a wrong guess.
type ghosts struct {
	mem     *offheap.Array[uint64]
	entries []uint64
	buckets int // in use
	most    int // blocks ever held at once
	kept    int
	// dropped is told of a ghost that is forgotten, if set.
	dropped func(class int, tick uint32)
}

const (
	ghostWays      = 8
	ghostTickShift = 5
	ghostTagShift  = 37
)

func newGhosts(max int) (g ghosts, err error) {
	g.mem, err = offheap.Make[uint64](max)
	if err == nil {
		g.entries = g.mem.Slice()
	}
	return g, err
}

func (g *ghosts) free() {
	if g.mem != nil {
		g.mem.Free()
	}
	g.entries = nil
}

// fit lets there be as many ghosts as blocks held, less a ninth at most. What was
// remembered is dropped when their number grows; a store that grows has little to
// remember, as it did not evict.
func (g *ghosts) fit(held int) {
	if held <= g.most {
		return
	}
	g.most = held
	n := held / ghostWays
	if n <= g.buckets+g.buckets/8 || n*ghostWays > len(g.entries) {
		return
	}
	for i, e := range g.entries[:g.buckets*ghostWays] {
		if e != 0 {
			g.drop(i)
		}
	}
	g.buckets = n
}

// bucket is the place and the tag of an ID.
func (g *ghosts) bucket(id *[16]byte) (from int, tag uint64) {
	at, _ := bits.Mul64(binary.LittleEndian.Uint64(id[:8]), uint64(g.buckets))
	return int(at) * ghostWays, binary.LittleEndian.Uint64(id[8:])>>ghostTagShift | 1
}

// take finds the ghost of a block and forgets it; dropped is not told.
func (g *ghosts) take(id *[16]byte) (class int, tick uint32, ok bool) {
	if g.kept == 0 {
		return 0, 0, false
	}
	from, tag := g.bucket(id)
	for i := from; i < from+ghostWays; i++ {
		if e := g.entries[i]; e>>ghostTagShift == tag {
			g.entries[i] = 0
			g.kept--
			class, tick = parts(e)
			return class, tick, true
		}
	}
	return 0, 0, false
}

// add remembers a block; false if there is no room for any.
func (g *ghosts) add(id *[16]byte, class int, tick uint32) bool {
	if g.buckets == 0 {
		return false
	}
	from, tag := g.bucket(id)
	at := from
	for i := from; i < from+ghostWays; i++ {
		e := g.entries[i]
		if e == 0 || e>>ghostTagShift == tag {
			at = i
			break
		}
		if _, s := parts(e); s < tickIn(g.entries[at]) {
			at = i
		}
	}
	if g.entries[at] != 0 {
		g.drop(at)
	}
	g.entries[at] = tag<<ghostTagShift | uint64(tick)<<ghostTickShift | uint64(class)
	g.kept++
	return true
}

func (g *ghosts) drop(i int) {
	if g.dropped != nil {
		g.dropped(parts(g.entries[i]))
	}
	g.entries[i] = 0
	g.kept--
}

func parts(e uint64) (class int, tick uint32) {
	return int(e & (1<<ghostTickShift - 1)), tickIn(e)
}

func tickIn(e uint64) uint32 { return uint32(e >> ghostTickShift) }

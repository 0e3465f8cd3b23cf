package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/spillway-kv/spillway/engine/device"
)

// guardBytes lie before, between and behind the pieces of a region.
const guardBytes = 512

// region is a client's memory for one block: its pieces with guards around
// them. The capacity of a piece reaches into the guard behind it, so that
// nobody is kept from overrunning it but by honesty.
type region struct {
	what   string
	whole  []byte
	pieces [][]byte
	spans  [][2]int // of the pieces in whole

	mu       sync.Mutex
	over     bool // the client has taken the memory back
	late     bool // it was answered LATE
	released int
	meddled  change
}

// newRegion lays out a block. layout 0 makes every piece fit a device that
// wants alignBytes, if the block's size allows it.
func newRegion(what string, blockBytes, pieces int, layout uint64, alignBytes int) *region {
	rng := rand.New(rand.NewPCG(layout, 7))
	sizes := make([]int, 0, max(pieces, 1))
	left := blockBytes
	for n := max(pieces, 1); n > 1; n-- {
		size := left / n
		if layout != 0 {
			size = rng.IntN(left + 1)
		} else {
			size = size / alignBytes * alignBytes
		}
		sizes = append(sizes, size)
		left -= size
	}
	sizes = append(sizes, left)
	step := alignBytes
	at := max(guardBytes, alignBytes)
	if layout != 0 {
		step = 1
		at += rng.IntN(8)
	}
	g := &region{what: what}
	for _, size := range sizes {
		g.spans = append(g.spans, [2]int{at, at + size})
		at += size + guardBytes
		at = (at + step - 1) / step * step
	}
	g.whole = device.AlignedBuffer((at+4095)/4096*4096, 4096)
	g.fill(guardByte)
	for _, s := range g.spans {
		g.pieces = append(g.pieces, g.whole[s[0]:s[1]])
	}
	return g
}

func guardByte(i int) byte  { return byte(i*31 + 5) }
func poisonByte(i int) byte { return byte(i*17 + 101) }

func (g *region) fill(pattern func(int) byte) {
	for i := range g.whole {
		g.whole[i] = pattern(i)
	}
}

// store copies a block into the pieces.
func (g *region) store(block []byte) {
	for _, p := range g.pieces {
		block = block[copy(p, block):]
	}
}

// load gathers the pieces.
func (g *region) load() []byte { return bytes.Join(g.pieces, nil) }

// guards reports a byte outside the pieces that has changed.
func (g *region) guards() error {
	next := 0
	check := func(from, to int) error {
		for i := from; i < to; i++ {
			if g.whole[i] != guardByte(i) {
				return fmt.Errorf("%s: byte %d outside of the pieces %v was written (%#x)", g.what, i, g.spans, g.whole[i])
			}
		}
		return nil
	}
	for _, s := range g.spans {
		if err := check(next, s[0]); err != nil {
			return err
		}
		next = s[1]
	}
	return check(next, len(g.whole))
}

// meddle changes one word inside the pieces while the store may use them.
func (g *region) meddle(offset int, mask uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	g.meddled = change{offset, mask}
	at := offset
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], mask)
	for _, b := range word {
		p, i := 0, at
		for i >= len(g.pieces[p]) {
			i -= len(g.pieces[p])
			p++
		}
		g.pieces[p][i] ^= b
		at++
	}
}

// takeBack is called at the end of the answer that gives the memory back to
// the client: inspect looks at it, then the client overwrites all of it.
func (g *region) takeBack(inspect func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return nil
	}
	g.over = true
	err := g.guards()
	if inspect != nil {
		err = errors.Join(err, inspect())
	}
	g.fill(poisonByte)
	return err
}

// release is the store's callback.
func (g *region) release(inspect func() error) error {
	g.mu.Lock()
	g.released++
	n := g.released
	g.mu.Unlock()
	if n > 1 {
		return fmt.Errorf("%s: released %d times", g.what, n)
	}
	return g.takeBack(inspect)
}

// settle checks, when the store is closed, that nobody touched the memory
// after it was the client's again, and that it was released as it should be.
func (g *region) settle(callback bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.late && callback && g.released != 1:
		return fmt.Errorf("%s: LATE, and released %d times", g.what, g.released)
	case !g.late && g.released != 0:
		return fmt.Errorf("%s: released without LATE", g.what)
	case !g.over:
		return fmt.Errorf("%s: never given back", g.what)
	}
	for i, b := range g.whole {
		if b != poisonByte(i) {
			return fmt.Errorf("%s: byte %d was written after the memory was given back (pieces %v)", g.what, i, g.spans)
		}
	}
	return nil
}

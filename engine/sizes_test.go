package engine_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// guarded is memory for one block, in pieces, with guard bytes around each.
type guarded struct {
	pieces        [][]byte
	before, after [][]byte // the guards
}

const guardBytes = 4096

// newGuarded cuts a block into n pieces. Aligned ones lie at multiples of 4096
// and, but for the last, have whole multiples of it; the others do not.
func newGuarded(blockBytes, n int, aligned bool) *guarded {
	g := &guarded{}
	for i := range n {
		size := blockBytes * (i + 1) / n
		size -= blockBytes * i / n
		if aligned {
			pages := blockBytes / 4096
			size = (pages*(i+1)/n - pages*i/n) * 4096
			if i == n-1 {
				size += blockBytes % 4096
			}
		}
		shift := 0
		if !aligned {
			shift = 1 + i%7
		}
		memory := device.AlignedBuffer(guardBytes+size+shift+guardBytes, 4096)
		start, end := guardBytes+shift, guardBytes+shift+size
		g.before, g.after = append(g.before, memory[:start]), append(g.after, memory[end:])
		copy(memory, bytes.Repeat([]byte{0xa5}, start))
		copy(memory[end:], bytes.Repeat([]byte{0xa5}, guardBytes))
		g.pieces = append(g.pieces, memory[start:end])
	}
	return g
}

func (g *guarded) fill(block []byte) {
	for _, p := range g.pieces {
		block = block[copy(p, block):]
	}
}

// check reports the first difference from block, or a guard byte that changed.
func (g *guarded) check(block []byte) error {
	for i, p := range g.pieces {
		if !bytes.Equal(p, block[:len(p)]) {
			return fmt.Errorf("piece %d of %d has wrong bytes", i, len(g.pieces))
		}
		block = block[len(p):]
		for _, guard := range [][]byte{g.before[i], g.after[i]} {
			if len(bytes.Trim(guard, "\xa5")) != 0 {
				return fmt.Errorf("the memory around piece %d was written", i)
			}
		}
	}
	return nil
}

// cuts are the ways in which the tests cut blocks.
var cuts = []struct {
	n       int
	aligned bool
}{{1, true}, {1, false}, {2, true}, {2, false}, {3, true}, {3, false}, {17, true}, {17, false}}

// exerciseCuts puts one block per cut and reads each with every cut.
func exerciseCuts(t *testing.T, ns *engine.Namespace) {
	t.Helper()
	size := ns.Descriptor().BlockBytes
	for n, c := range cuts {
		src := newGuarded(size, c.n, c.aligned)
		src.fill(content(n, size))
		item := []engine.PutItem{{Key: key(n), Src: src.pieces}}
		must(t, ns.Put(item, engine.PutOptions{}))
		if item[0].Status != engine.Stored {
			t.Fatalf("cut %d: %v %v", n, item[0].Status, item[0].Err)
		}
		if err := src.check(content(n, size)); err != nil {
			t.Fatalf("put, cut %d: source: %v", n, err)
		}
	}
	for n := range cuts {
		for m, c := range cuts {
			for _, bounce := range []bool{false, true} {
				if testing.Short() && (n+m)%3 != 0 {
					continue
				}
				dst := newGuarded(size, c.n, c.aligned)
				item := []engine.GetItem{{Key: key(n), Dst: dst.pieces}}
				must(t, ns.Get(item, engine.GetOptions{Bounce: bounce}))
				if item[0].Status != engine.Hit {
					t.Fatalf("put %d, get %d: %v %v", n, m, item[0].Status, item[0].Err)
				}
				if err := dst.check(content(n, size)); err != nil {
					t.Fatalf("put with cut %v, get with cut %v, bounce %v: %v", cuts[n], c, bounce, err)
				}
			}
		}
	}
}

func TestBlockSizesAndPieces(t *testing.T) {
	for _, blockBytes := range []int{4096, 4097, 65536, 1124352, 1000001} {
		t.Run(fmt.Sprint(blockBytes), func(t *testing.T) {
			r := newRig(t, sim.Config{})
			o := engine.Options{CapacityBytes: 64 << 20, SegmentBytes: 1 << 20}
			s := r.open(o)
			exerciseCuts(t, namespace(t, s, "a", blockBytes))
			mustClose(t, s)
			dir := t.TempDir()
			s = openTemp(t, dir, o)
			exerciseCuts(t, namespace(t, s, "a", blockBytes))
			mustClose(t, s)
		})
	}
}

// TestAlignmentOfDevice: with a coarser device some pieces that were direct
// are not any more; the bytes are the same.
func TestAlignmentOfDevice(t *testing.T) {
	for _, c := range []sim.Config{{SectorBytes: 4096, MemAlignBytes: 4096}, {SectorBytes: 512, MemAlignBytes: 4}, {OffsetAlignBytes: 4096}} {
		for _, blockBytes := range []int{4096, 8704, 12289} {
			s := newRig(t, c).open(small(engine.Options{}))
			exerciseCuts(t, namespace(t, s, "a", blockBytes))
			mustClose(t, s)
		}
	}
}

// TestLargestBlock: 64 MiB in and out, and one byte more refused.
func TestLargestBlock(t *testing.T) {
	_, err := newRig(t, sim.Config{}).open(small(engine.Options{})).Namespace(engine.Descriptor{Name: "a", BlockBytes: 64<<20 + 1})
	if err == nil {
		t.Fatal("created")
	}
	wantErr(t, err, engine.ErrConfig, "67108865")
	if testing.Short() {
		t.Skip("writes and reads 64 MiB blocks")
	}
	s := newRig(t, sim.Config{}).open(engine.Options{CapacityBytes: 1 << 30, FrameBytes: 128 << 20})
	ns := namespace(t, s, "a", 64<<20)
	for n := range 2 {
		src := newGuarded(64<<20, 1+2*n, n == 0)
		src.fill(content(n, 64<<20))
		item := []engine.PutItem{{Key: key(n), Src: src.pieces}}
		must(t, ns.Put(item, engine.PutOptions{}))
		if item[0].Status != engine.Stored {
			t.Fatal(item[0].Status, item[0].Err)
		}
		dst := newGuarded(64<<20, 3-2*n, n == 1)
		get := []engine.GetItem{{Key: key(n), Dst: dst.pieces}}
		must(t, ns.Get(get, engine.GetOptions{}))
		if get[0].Status != engine.Hit {
			t.Fatal(get[0].Status, get[0].Err)
		}
		if err := dst.check(content(n, 64<<20)); err != nil {
			t.Fatal(err)
		}
		if !long() {
			break
		}
	}
	mustClose(t, s)
}

// long reports whether the heavier parts run.
func long() bool { return os.Getenv("SPILLWAY_LONG") != "" }

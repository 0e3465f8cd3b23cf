package devicetest

import (
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/engine/device"
)

const guard = 0xA5

// guarded is memory in which each piece has a guard before and after it.
type guarded struct {
	memory []byte
	pieces [][]byte
	inside []bool // per unit of memory: part of a piece
	unit   int
}

// guardedPieces lays out pieces of the given numbers of units.
func (r *rig) guardedPieces(units ...int) *guarded {
	all := 1
	for _, n := range units {
		all += n + 1
	}
	g := &guarded{memory: r.buffer(all * r.unit), inside: make([]bool, all), unit: r.unit}
	set(g.memory, guard)
	at := 1
	for _, n := range units {
		g.pieces = append(g.pieces, g.memory[at*r.unit:(at+n)*r.unit:(at+n)*r.unit])
		for i := range n {
			g.inside[at+i] = true
		}
		at += n + 1
	}
	return g
}

// broken says where a guard byte was changed, or "".
func (g *guarded) broken() string {
	for i, inside := range g.inside {
		if inside {
			continue
		}
		if at := notAll(g.memory[i*g.unit:(i+1)*g.unit], guard); at >= 0 {
			return fmt.Sprintf("byte %d of guard unit %d was changed", at, i)
		}
	}
	return ""
}

// check compares the pieces with what the file holds from offset on.
func (g *guarded) check(r *rig, what string, offset int64, version uint64) {
	r.Helper()
	for i, piece := range g.pieces {
		if at := differsAt(piece, offset, version); at >= 0 {
			r.Errorf("%s: piece %d differs at byte %d", what, i, at)
			return
		}
		offset += int64(len(piece))
	}
	if why := g.broken(); why != "" {
		r.Errorf("%s: %s", what, why)
	}
}

func (g *guarded) fill(offset int64, version uint64) {
	for _, piece := range g.pieces {
		fill(piece, offset, version)
		offset += int64(len(piece))
	}
}

func testRoundTrip(r *rig) {
	units := max(2<<20/r.unit, 64)
	f := r.create("f", units+16)
	defer r.closeFile(f)
	for version, n := range []int{1, 2, 3, 5, 8, 15, 16, 17, 32, 33, units / 2, units} {
		for _, at := range []int{0, 1, 7} {
			offset := int64(at * r.unit)
			src := r.guardedPieces(n)
			src.fill(offset, uint64(version))
			r.mustDo(write(f, offset, src.pieces...))
			src.check(r, "source of a write", offset, uint64(version))
			dst := r.guardedPieces(n)
			r.mustDo(read(f, offset, dst.pieces...))
			dst.check(r, fmt.Sprintf("%d units at %d", n, offset), offset, uint64(version))
		}
	}
}

// split cuts total into random parts.
func (r *rig) split(total int) []int {
	var parts []int
	for total > 0 {
		n := min(1+r.rnd.IntN(9), total)
		parts = append(parts, n)
		total -= n
	}
	return parts
}

func testVectored(r *rig) {
	const units = 200
	f := r.create("f", units)
	defer r.closeFile(f)
	for version := range uint64(30) {
		first := r.rnd.IntN(units)
		n := 1 + r.rnd.IntN(units-first)
		offset := int64(first * r.unit)
		src := r.guardedPieces(r.split(n)...)
		src.fill(offset, version)
		r.mustDo(write(f, offset, src.pieces...))
		dst := r.guardedPieces(r.split(n)...) // other cuts than the write
		r.mustDo(read(f, offset, dst.pieces...))
		dst.check(r, fmt.Sprintf("version %d: %d units at %d in %d pieces", version, n, offset, len(dst.pieces)), offset, version)
	}
}

// testManyPieces: more pieces than one system call takes.
func testManyPieces(r *rig) {
	const pieces = 2500
	f := r.create("f", pieces)
	defer r.closeFile(f)
	ones := make([]int, pieces)
	for i := range ones {
		ones[i] = 1
	}
	src := r.guardedPieces(ones...)
	src.fill(0, 9)
	r.mustDo(write(f, 0, src.pieces...))
	dst := r.guardedPieces(ones...)
	r.mustDo(read(f, 0, dst.pieces...))
	dst.check(r, "2500 pieces", 0, 9)
	whole := r.guardedPieces(pieces)
	r.mustDo(read(f, 0, whole.pieces...))
	whole.check(r, "written in 2500 pieces, read in one", 0, 9)
}

func testEndOfFile(r *rig) {
	for i, size := range []int64{0, 8, int64(r.unit), 3*int64(r.unit) + 8, 4 * int64(r.unit)} {
		name := fmt.Sprintf("f%d", i)
		r.must(r.d.WriteFile(name, r.filled(int(size), 0, 3)))
		f := r.open(name)
		for _, at := range []int{0, 1, 2, 3, 4, 100} {
			for _, cuts := range [][]int{{8}, {1, 7}, {1, 1, 1, 1, 1, 3}, {3, 5}} {
				dst := r.guardedPieces(cuts...)
				op := read(f, int64(at*r.unit), dst.pieces...)
				r.do(op)
				what := fmt.Sprintf("%d bytes, read 8 units in %d pieces at %d", size, len(cuts), op.Offset)
				r.wantIs(what, op.Err, io.ErrUnexpectedEOF)
				want := max(size-op.Offset, 0)
				if int64(op.N) != want {
					r.Errorf("%s: N = %d, want %d", what, op.N, want)
				}
				r.checkPrefix(what, dst, op.N, op.Offset)
			}
		}
		r.closeFile(f)
	}
}

// checkPrefix compares the first n bytes of the pieces, and the guards.
func (r *rig) checkPrefix(what string, g *guarded, n int, offset int64) {
	r.Helper()
	for _, piece := range g.pieces {
		part := piece[:min(n, len(piece))]
		if at := differsAt(part, offset, 3); at >= 0 {
			r.Errorf("%s: differs at %d", what, offset+int64(at))
		}
		n -= len(part)
		offset += int64(len(part))
	}
	if why := g.broken(); why != "" {
		r.Errorf("%s: %s", what, why)
	}
}

func testUnaligned(r *rig) {
	f := r.create("f", 8)
	defer r.closeFile(f)
	r.mustDo(write(f, 0, r.filled(8*r.unit, 0, 1)))
	memory := r.buffer(4 * r.unit)
	type shape struct {
		what   string
		offset int64
		bufs   [][]byte
	}
	shapes := []shape{{"negative offset", -int64(r.unit), [][]byte{memory[:r.unit]}}}
	if align := r.facts.OffsetAlignBytes; align > 1 {
		shapes = append(shapes,
			shape{"offset 1", 1, [][]byte{memory[:r.unit]}},
			shape{"offset of half an alignment", int64(align / 2), [][]byte{memory[:r.unit]}},
			shape{"length 1", 0, [][]byte{memory[:1]}},
			shape{"length one byte short", 0, [][]byte{memory[:r.unit-1]}},
			shape{"second piece of odd length", 0, [][]byte{memory[:r.unit], memory[r.unit : 2*r.unit-8], memory[2*r.unit : 2*r.unit+8]}})
	}
	if align := r.facts.MemAlignBytes; align > 1 {
		shapes = append(shapes,
			shape{"odd address", 0, [][]byte{memory[1 : 1+r.unit]}},
			shape{"half-aligned address", 0, [][]byte{memory[align/2 : align/2+r.unit]}},
			shape{"second piece at an odd address", 0, [][]byte{memory[:r.unit], memory[r.unit+1 : 2*r.unit+1]}})
	}
	for _, s := range shapes {
		for _, kind := range []device.Kind{device.Read, device.Write} {
			set(memory, guard)
			op := &device.Op{Kind: kind, File: f, Offset: s.offset, Bufs: s.bufs, N: 77}
			ended := false // Done runs before Submit returns
			r.d.Submit([]*device.Op{r.counted(op, func(*device.Op) { ended = true })})
			what := fmt.Sprintf("kind %d, %s", kind, s.what)
			if !ended {
				r.Fatalf("%s: Submit returned before Done", what)
			}
			r.wantIs(what, op.Err, device.ErrUnaligned)
			if op.N != 0 || notAll(memory, guard) >= 0 {
				r.Errorf("%s: N = %d, first changed byte %d", what, op.N, notAll(memory, guard))
			}
		}
	}
	got := r.buffer(8 * r.unit)
	r.mustDo(read(f, 0, got))
	if i := differsAt(got, 0, 1); i >= 0 {
		r.Errorf("a refused write changed the file at %d", i)
	}
}

func testPastTheEnd(r *rig) {
	f := r.create("f", 4)
	defer r.closeFile(f)
	r.mustDo(write(f, 0, r.filled(4*r.unit, 0, 1)))
	end := int64(4 * r.unit)
	for _, op := range []*device.Op{
		write(f, end, r.filled(r.unit, 0, 2)),
		write(f, end-int64(r.unit), r.filled(2*r.unit, 0, 2)),
		{Kind: device.Punch, File: f, Offset: end - int64(r.unit), LengthBytes: int64(2 * r.unit)},
		{Kind: device.Punch, File: f, Offset: 0, LengthBytes: -int64(r.unit)},
		{Kind: device.Punch, File: f, Offset: -int64(r.unit), LengthBytes: int64(r.unit)},
	} {
		r.do(op)
		r.wantIs(fmt.Sprintf("kind %d at %d", op.Kind, op.Offset), op.Err, device.ErrUnaligned)
		if op.N != 0 {
			r.Errorf("kind %d at %d: N = %d", op.Kind, op.Offset, op.N)
		}
	}
	data, err := r.d.ReadFile("f")
	r.must(err)
	if int64(len(data)) != end || differsAt(data, 0, 1) >= 0 {
		r.Errorf("the file has %d bytes, want %d; first difference at %d", len(data), end, differsAt(data, 0, 1))
	}
}

func testPunch(r *rig) {
	f := r.create("f", 32)
	defer r.closeFile(f)
	r.mustDo(write(f, 0, r.filled(32*r.unit, 0, 4)))
	punched := make([]bool, 32)
	for _, hole := range [][2]int{{0, 1}, {5, 3}, {16, 8}, {31, 1}} {
		r.mustDo(&device.Op{Kind: device.Punch, File: f, Offset: int64(hole[0] * r.unit), LengthBytes: int64(hole[1] * r.unit)})
		for i := range hole[1] {
			punched[hole[0]+i] = true
		}
	}
	got := r.buffer(32 * r.unit)
	r.mustDo(read(f, 0, got))
	for i, gone := range punched {
		unit := got[i*r.unit : (i+1)*r.unit]
		if gone && notAll(unit, 0) >= 0 {
			r.Errorf("punched unit %d does not read as zeros", i)
		}
		if !gone && differsAt(unit, int64(i*r.unit), 4) >= 0 {
			r.Errorf("unit %d beside a hole was changed", i)
		}
	}
	r.mustDo(write(f, int64(16*r.unit), r.filled(r.unit, 0, 5))) // a hole can be written again
	r.mustDo(read(f, int64(16*r.unit), got[:r.unit]))
	if i := differsAt(got[:r.unit], 0, 5); i >= 0 {
		r.Errorf("written into a hole: differs at %d", i)
	}
	again := r.open("f")
	if again.SizeBytes() != int64(32*r.unit) {
		r.Errorf("Punch changed the size to %d", again.SizeBytes())
	}
	r.closeFile(again)
}

func testSync(r *rig) {
	f := r.create("f", 4)
	r.mustDo(write(f, 0, r.filled(4*r.unit, 0, 6)))
	r.mustDo(&device.Op{Kind: device.Sync, File: f})
	r.closeFile(f)
	f = r.open("f")
	got := r.buffer(4 * r.unit)
	r.must(device.Do(r.d, read(f, 0, got)))
	if i := differsAt(got, 0, 6); i >= 0 {
		r.Errorf("after Sync and Open: differs at %d", i)
	}
	r.closeFile(f)
}

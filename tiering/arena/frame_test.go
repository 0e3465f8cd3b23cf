package arena

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func TestFrameShape(t *testing.T) {
	a := small(t, 16<<20)
	for _, nBytes := range []int{1, 4095, 4096, 4097, 327_680, 1 << 20, 1<<20 + 1, 16 << 20} {
		f := get(t, a, nBytes)
		b := f.Bytes()
		rounded := (nBytes + AlignBytes - 1) &^ (AlignBytes - 1)
		if len(b) != nBytes || cap(b) != rounded || addressOf(b)%AlignBytes != 0 {
			t.Errorf("%d bytes: len %d cap %d at %#x", nBytes, len(b), cap(b), addressOf(b))
		}
		if u := a.Usage(); u.Frames != 1 || u.LentBytes != int64(rounded) {
			t.Errorf("%d bytes: %+v", nBytes, u)
		}
		b[0], b[nBytes-1] = 1, 2
		f.Release()
		if u := a.Usage(); u != (Usage{TotalBytes: 16 << 20, FreeBytes: 16 << 20}) {
			t.Errorf("after the release of %d bytes: %+v", nBytes, u)
		}
	}
	for _, nBytes := range []int{-1, 0, 16<<20 + 1, 1 << 40} {
		if _, err := a.Get(nBytes); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: %v", nBytes, err)
		}
	}
}

func TestReferences(t *testing.T) {
	a := small(t, 4<<20)
	f := get(t, a, 8192)
	f.Retain()
	f.Retain()
	f.Release()
	f.Release()
	f.Bytes()[0] = 1
	if a.Usage().Frames != 1 {
		t.Error("the frame went back with a reader left")
	}
	f.Release()
	mustPanic(t, "second release", f.Release)
	mustPanic(t, "retain after release", f.Retain)
	mustPanic(t, "bytes after release", func() { f.Bytes() })
	again := get(t, a, 8192)
	if &again.Bytes()[0] != &a.memory.mem[f.offset] {
		t.Fatal("not the memory that came back last")
	}
	mustPanic(t, "release of a stale frame", f.Release)
	mustPanic(t, "bytes of a stale frame", func() { f.Bytes() })
	again.Bytes()[0] = 2
	again.Release()
	other := get(t, a, 4096) // the same unit, other frames
	mustPanic(t, "stale after another size", f.Release)
	other.Release()
	mustPanic(t, "no frame", Frame{}.Release)
	if (Frame{}).Valid() || !f.Valid() {
		t.Error("Valid")
	}
}

// TestDense: frames of a size that is no power of two leave at most an eighth
// unused, and all goes back to other sizes.
func TestDense(t *testing.T) {
	a := small(t, 64<<20)
	for _, nBytes := range []int{4096, 12288, 100_000, 327_680, 900 << 10, 1 << 20, 5 << 20, 9 << 20} {
		var frames []Frame
		for {
			f, err := a.Get(nBytes)
			if err != nil {
				if err != ErrFull {
					t.Fatal(err)
				}
				break
			}
			frames = append(frames, f)
		}
		if got := len(frames) * nBytes; got < 7*(64<<20)/8 {
			t.Errorf("%d frames of %d bytes fill %d %% of the arena", len(frames), nBytes, got*100/(64<<20))
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
		for _, f := range frames {
			f.Release()
		}
		get(t, a, a.FrameBytesMax()).Release()
	}
}

// TestSlabsComeFree: to free the frames of one slab makes room for another size.
func TestSlabsComeFree(t *testing.T) {
	a := small(t, 4<<20)
	bySlab := map[int][]Frame{}
	for {
		f, err := a.Get(4096)
		if err != nil {
			break
		}
		bySlab[f.Slab()] = append(bySlab[f.Slab()], f)
	}
	if _, err := a.Get(64 << 10); err != ErrFull {
		t.Fatalf("got %v", err)
	}
	first := true
	for _, frames := range bySlab {
		for _, f := range frames {
			f.Release()
		}
		if first {
			get(t, a, 64<<10).Release()
			first = false
		}
	}
}

// TestEmptierSlabsDrain: with releases at random and new frames wanted, the
// emptier slabs become free by themselves.
func TestEmptierSlabsDrain(t *testing.T) {
	a := small(t, 64<<20)
	rnd := rand.New(rand.NewPCG(3, 4))
	var frames []Frame
	for len(frames) < 60<<20/65536 {
		frames = append(frames, get(t, a, 65536))
	}
	turn := func(shrink bool) {
		i := rnd.IntN(len(frames))
		frames[i].Release()
		if shrink {
			frames[i] = frames[len(frames)-1]
			frames = frames[:len(frames)-1]
			return
		}
		frames[i] = get(t, a, 65536)
	}
	for len(frames) > 30<<20/65536 {
		turn(true)
	}
	for range 100_000 {
		turn(false)
	}
	if u := a.Usage(); u.FreeBytes < 24<<20 {
		t.Errorf("half empty, and only %d bytes are free for other sizes", u.FreeBytes)
	}
	for _, f := range frames {
		f.Release()
	}
}

// TestAgainstModel: frames never overlap, the accounts are right, and an empty
// arena is whole again.
func TestAgainstModel(t *testing.T) {
	a := small(t, 8<<20)
	rapid.Check(t, func(t *rapid.T) {
		var frames []Frame
		lent := int64(0)
		release := func(i int) {
			lent -= int64(frames[i].sizeBytes)
			frames[i].Release()
			frames = append(frames[:i], frames[i+1:]...)
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				f, err := a.Get(rapid.SampledFrom([]int{8, 4096, 20_000, 300_000, 700_000, 1 << 20, 3 << 20}).Draw(t, "bytes"))
				if err != nil {
					if !errors.Is(err, ErrFull) {
						t.Fatal(err)
					}
					return
				}
				lent += int64(f.sizeBytes)
				frames = append(frames, f)
			},
			"release": func(t *rapid.T) {
				if len(frames) > 0 {
					release(rapid.IntRange(0, len(frames)-1).Draw(t, "which"))
				}
			},
			"": func(t *rapid.T) {
				for i, f := range frames {
					for b := f.Bytes(); len(b) >= 8; b = b[min(AlignBytes, len(b)):] {
						binary.NativeEndian.PutUint64(b, uint64(i))
					}
				}
				for i, f := range frames {
					for b := f.Bytes(); len(b) >= 8; b = b[min(AlignBytes, len(b)):] {
						if got := binary.NativeEndian.Uint64(b); got != uint64(i) {
							t.Fatalf("frame %d shares memory with frame %d", i, got)
						}
					}
				}
				if u := a.Usage(); u.Frames != len(frames) || u.LentBytes != lent || u.LentBytes+u.FreeBytes > u.TotalBytes {
					t.Fatalf("%d frames of %d bytes: %+v", len(frames), lent, u)
				}
			},
		})
		for len(frames) > 0 {
			release(0)
		}
		if u := a.Usage(); u.FreeBytes != u.TotalBytes {
			t.Fatalf("empty: %+v", u)
		}
	})
}

func TestGetAllocatesNothing(t *testing.T) {
	a := small(t, 64<<20)
	for _, nBytes := range []int{4096, 1 << 20, 9 << 20} { // each ends its slab with its release
		if n := testing.AllocsPerRun(100, func() {
			f, err := a.Get(nBytes)
			if err != nil {
				panic(err)
			}
			f.Retain()
			f.Bytes()[0] = 1
			f.Release()
			f.Release()
		}); n != 0 {
			t.Errorf("%d bytes: %v allocations", nBytes, n)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	const workers, rounds = 8, 2000
	a := small(t, 8<<20)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for round := range rounds {
				f, err := a.Get(1 + rnd.IntN(1<<20))
				if err != nil {
					continue // full at this moment
				}
				b, mark := f.Bytes(), byte(w*31+round)
				b[0], b[len(b)-1] = mark, mark
				f.Retain()
				var reader sync.WaitGroup
				reader.Go(func() {
					if b := f.Bytes(); b[0] != mark || b[len(b)-1] != mark {
						t.Errorf("worker %d: somebody else wrote into its frame", w)
					}
					f.Release()
				})
				f.Release()
				reader.Wait()
			}
		})
	}
	group.Wait()
	if u := a.Usage(); u.Frames != 0 || u.FreeBytes != u.TotalBytes {
		t.Errorf("%+v", u)
	}
}

func TestConcurrentReleasePanicsOnce(t *testing.T) {
	a := small(t, 2<<20)
	for range 200 {
		f := get(t, a, 1)
		var panics atomic.Int64
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				defer func() {
					if recover() != nil {
						panics.Add(1)
					}
				}()
				f.Release()
			})
		}
		group.Wait()
		if panics.Load() != 1 || a.Usage().Frames != 0 {
			t.Fatalf("%d panics, %+v", panics.Load(), a.Usage())
		}
	}
}

func TestCloseCountsLeaks(t *testing.T) {
	a, err := New(Options{Bytes: 2 << 20, Pages: PagesSmall})
	if err != nil {
		t.Fatal(err)
	}
	f, g := get(t, a, 4096), get(t, a, 5000)
	var leak *LeakError
	if err := a.Close(); !errors.As(err, &leak) || *leak != (LeakError{2, 12288}) {
		t.Fatalf("got %v", err)
	}
	f.Bytes()[0] = 1 // still there: a transfer may be under way
	if _, err := a.Get(1); err != ErrClosed {
		t.Errorf("got %v", err)
	}
	f.Release()
	g.Release()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != ErrClosed {
		t.Errorf("second close: %v", err)
	}
	mustPanic(t, "release after close", f.Release)
}

func BenchmarkGetRelease(b *testing.B) {
	a := small(b, 64<<20)
	keep := get(b, a, 1<<20)
	defer keep.Release()
	b.ReportAllocs()
	for b.Loop() {
		f, _ := a.Get(1 << 20)
		f.Release()
	}
}

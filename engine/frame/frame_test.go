package frame

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t testing.TB, totalBytes int64) *Pool {
	t.Helper()
	p, err := NewPool(totalBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Free)
	return p
}

func TestFrameShape(t *testing.T) {
	p := newPool(t, 1<<20)
	for _, nBytes := range []int{1, 511, 4095, 4096, 4097, 100_000, 1 << 20} {
		f := p.TryGet(nBytes)
		b := f.Bytes()
		rounded := (nBytes + 4095) &^ 4095
		if len(b) != nBytes || cap(b) != rounded {
			t.Errorf("%d bytes: len %d cap %d, want cap %d", nBytes, len(b), cap(b), rounded)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); at%AlignBytes != 0 {
			t.Errorf("%d bytes at %#x", nBytes, at)
		}
		if p.InUse() != 1 || p.InUseBytes() != int64(rounded) {
			t.Errorf("%d bytes: %d in use, %d bytes", nBytes, p.InUse(), p.InUseBytes())
		}
		f.Release()
		if p.InUse() != 0 || p.InUseBytes() != 0 {
			t.Errorf("%d in use, %d bytes after Release", p.InUse(), p.InUseBytes())
		}
	}
}

func TestProgrammerErrorsPanic(t *testing.T) {
	p := newPool(t, 3*AlignBytes+17)
	if p.TotalBytes() != 3*AlignBytes {
		t.Errorf("total %d, want it rounded down", p.TotalBytes())
	}
	mustPanic(t, "0 bytes", func() { p.TryGet(0) })
	mustPanic(t, "more than the pool", func() { p.TryGet(3*AlignBytes + 1) })
	f := p.TryGet(5)
	mustPanic(t, "free with a frame in use", p.Free)
	f.Release()
	mustPanic(t, "second release", f.Release)
	mustPanic(t, "bytes after release", func() { f.Bytes() })
	again := p.TryGet(5) // the same memory
	mustPanic(t, "second release of a stale frame", f.Release)
	if p.InUse() != 1 {
		t.Errorf("%d in use, want 1", p.InUse())
	}
	again.Release()
	p.Free()
	mustPanic(t, "use after free", func() { p.TryGet(5) })
	for _, totalBytes := range []int64{-1 << 40, 0, AlignBytes - 1} {
		if _, err := NewPool(totalBytes); err == nil {
			t.Errorf("NewPool(%d) gave no error", totalBytes)
		}
	}
}

// TestBoundAgainstModel checks after every step that TryGet fails exactly when
// the frames in use leave no room, that all mapped memory stays within the
// bound, and that no two frames overlap.
func TestBoundAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(1, 12).Draw(t, "pages")
		p, err := NewPool(int64(pages) * AlignBytes)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Free()
		var frames []*Frame
		usedPages, serial := 0, uint64(0)
		release := func(i int) {
			usedPages -= cap(frames[i].Bytes()) / AlignBytes
			frames[i].Release()
			frames = append(frames[:i], frames[i+1:]...)
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				want := rapid.IntRange(1, pages).Draw(t, "want")
				f := p.TryGet(want*AlignBytes - rapid.IntRange(0, 4095-8).Draw(t, "less"))
				if (f != nil) != (usedPages+want <= pages) {
					t.Fatalf("frame %v of %d pages with %d of %d in use", f != nil, want, usedPages, pages)
				}
				if f != nil {
					usedPages += want
					frames = append(frames, f)
				}
			},
			"release": func(t *rapid.T) {
				if len(frames) > 0 {
					release(rapid.IntRange(0, len(frames)-1).Draw(t, "which"))
				}
			},
			"": func(t *rapid.T) {
				first := serial
				for _, f := range frames {
					for b := f.Bytes(); len(b) >= 8; b = b[min(AlignBytes, len(b)):] {
						binary.NativeEndian.PutUint64(b, serial)
					}
					serial++
				}
				for i, f := range frames {
					for b := f.Bytes(); len(b) >= 8; b = b[min(AlignBytes, len(b)):] {
						if got := binary.NativeEndian.Uint64(b); got != first+uint64(i) {
							t.Fatalf("frame %d shares memory with frame %d", i, got-first)
						}
					}
				}
				checkAccounts(t, p, usedPages, len(frames))
			},
		})
		for len(frames) > 0 {
			release(0)
		}
	})
}

func checkAccounts(t *rapid.T, p *Pool, usedPages, frames int) {
	kept := int64(0)
	for sizeBytes, list := range p.kept {
		if len(list) == 0 {
			t.Fatalf("empty list of %d bytes", sizeBytes)
		}
		kept += int64(sizeBytes * len(list))
	}
	used := int64(usedPages) * AlignBytes
	if kept != p.keptBytes || used != p.InUseBytes() || frames != p.InUse() || used+kept > p.totalBytes {
		t.Fatalf("kept %d (counted %d), in use %d (counted %d), bound %d",
			kept, p.keptBytes, used, p.InUseBytes(), p.totalBytes)
	}
}

func TestNotifyBeforeTryLosesNoWakeUp(t *testing.T) {
	p := newPool(t, AlignBytes)
	f := p.TryGet(1)
	returned := p.Notify()
	if p.TryGet(1) != nil {
		t.Fatal("a frame beyond the bound")
	}
	select {
	case <-returned:
		t.Fatal("woken without a return")
	default:
	}
	f.Release() // between the failed try and the wait
	<-returned
	if f = p.TryGet(1); f == nil {
		t.Fatal("no frame after the return")
	}
	select {
	case <-p.Notify():
		t.Fatal("an old return wakes a new waiter")
	default:
	}
	f.Release()
}

func TestWaitersEndByTimerOrReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, AlignBytes)
		f := p.TryGet(1)
		var got, late atomic.Int64
		var waiters sync.WaitGroup
		for i := range 10 { // half of them give up before the return
			waiters.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%2*10)*time.Second)
				defer cancel()
				if f := waitFrame(ctx, p, 1); f != nil {
					got.Add(1)
					f.Release()
				} else {
					late.Add(1)
				}
			})
		}
		time.Sleep(5 * time.Second)
		f.Release()
		waiters.Wait()
		if got.Load() != 5 || late.Load() != 5 {
			t.Fatalf("%d got a frame, %d were late; want 5 and 5", got.Load(), late.Load())
		}
	})
}

// waitFrame is the loop of the package's documentation.
func waitFrame(ctx context.Context, p *Pool, nBytes int) *Frame {
	for {
		returned := p.Notify()
		if f := p.TryGet(nBytes); f != nil {
			return f
		}
		select {
		case <-returned:
		case <-ctx.Done():
			return nil
		}
	}
}

// TestConcurrentUse hangs if a wake-up is lost: most workers wait most of the
// time, and sizes compete for the room.
func TestConcurrentUse(t *testing.T) {
	const workers, rounds, pages = 8, 500, 6
	p := newPool(t, pages*AlignBytes)
	var owners [workers]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for round := range rounds {
				f := waitFrame(t.Context(), p, 1+rnd.IntN(pages*AlignBytes))
				if f == nil {
					t.Error("no frame without a deadline")
					return
				}
				owners[w].Add(1)
				if used := p.InUseBytes(); used > p.TotalBytes() {
					t.Errorf("%d bytes in use of %d", used, p.TotalBytes())
				}
				b, mark := f.Bytes(), byte(w*31+round)
				b[0], b[len(b)-1] = mark, mark
				if p.InUse() > pages {
					t.Errorf("%d frames in use of %d pages", p.InUse(), pages)
				}
				if b[0] != mark || b[len(b)-1] != mark {
					t.Errorf("worker %d: another one wrote into its frame", w)
				}
				f.Release()
			}
		})
	}
	wg.Wait()
	for w := range owners {
		if owners[w].Load() != rounds {
			t.Errorf("worker %d got %d frames of %d", w, owners[w].Load(), rounds)
		}
	}
	if p.InUse() != 0 {
		t.Errorf("%d frames left", p.InUse())
	}
}

func TestConcurrentReleasePanicsOnce(t *testing.T) {
	p := newPool(t, AlignBytes)
	for range 200 {
		f := p.TryGet(1)
		var panics atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				defer func() {
					if recover() != nil {
						panics.Add(1)
					}
				}()
				f.Release()
			})
		}
		wg.Wait()
		if panics.Load() != 1 || p.InUse() != 0 {
			t.Fatalf("%d panics, %d in use; want 1 and 0", panics.Load(), p.InUse())
		}
	}
}

func BenchmarkGetRelease(b *testing.B) {
	p := newPool(b, 64<<20)
	b.ReportAllocs()
	for b.Loop() {
		p.TryGet(1 << 20).Release()
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

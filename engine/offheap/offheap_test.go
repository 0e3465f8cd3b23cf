package offheap

import (
	"errors"
	"math"
	"runtime"
	"syscall"
	"testing"
)

type flat struct {
	A uint64
	B [3]struct{ C, D uint16 }
	E float64
}

func TestArrayIsZeroedAndKeepsWhatIsWritten(t *testing.T) {
	const n = 100_000
	a, err := Make[flat](n)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	s := a.Slice()
	if len(s) != n || cap(s) != n {
		t.Fatalf("len %d cap %d, want %d", len(s), cap(s), n)
	}
	for i := range s {
		if s[i] != (flat{}) {
			t.Fatalf("item %d is %+v, want zero", i, s[i])
		}
		s[i] = flat{A: uint64(i), E: float64(i) / 2}
	}
	runtime.GC()
	for i, got := range a.Slice() {
		if want := (flat{A: uint64(i), E: float64(i) / 2}); got != want {
			t.Fatalf("item %d is %+v, want %+v", i, got, want)
		}
	}
}

func TestReservingCostsNoMemory(t *testing.T) {
	const n = 1 << 36 // 64 GiB of address space
	a, err := Make[byte](n)
	if errors.Is(err, syscall.ENOMEM) {
		t.Skipf("the system limits address space: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	s := a.Slice()
	s[0], s[n-1] = 1, 2
	if s[0] != 1 || s[n/2] != 0 || s[n-1] != 2 {
		t.Fatalf("got %d %d %d, want 1 0 2", s[0], s[n/2], s[n-1])
	}
}

func TestEmptyAndFreed(t *testing.T) {
	empty, err := Make[uint32](0)
	if err != nil || len(empty.Slice()) != 0 {
		t.Fatalf("empty array: %v, %d items", err, len(empty.Slice()))
	}
	empty.Free()

	a, err := Make[uint32](10)
	if err != nil {
		t.Fatal(err)
	}
	a.Free()
	if a.Slice() != nil {
		t.Fatal("Slice after Free is not nil")
	}
	a.Free()
}

func TestRefusals(t *testing.T) {
	if _, err := Make[uint64](math.MaxInt / 4); err == nil {
		t.Error("an array beyond the address space was made")
	}
	if _, err := Make[byte](1 << 60); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("err = %v, want ENOMEM", err)
	}
	mustPanic(t, "negative", func() { _, _ = Make[byte](-1) })
	mustPanic(t, "pointer", func() { _, _ = Make[*int](1) })
	mustPanic(t, "string", func() { _, _ = Make[string](1) })
	mustPanic(t, "slice in struct", func() { _, _ = Make[struct{ A []byte }](1) })
	mustPanic(t, "interface in array", func() { _, _ = Make[[2]any](1) })
	mustPanic(t, "map", func() { _, _ = Make[map[int]int](1) })
	mustPanic(t, "func", func() { _, _ = Make[func()](1) })
	mustPanic(t, "chan", func() { _, _ = Make[chan int](1) })
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

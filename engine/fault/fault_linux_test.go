package fault_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/fault"
)

// gone is memory of a file of which only the first page is left.
func gone(t *testing.T, nBytes int) []byte {
	t.Helper()
	fd, err := unix.MemfdCreate("gone", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(nBytes)); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, nBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	if err := unix.Ftruncate(fd, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	return mem
}

// TestGuard: every kind of access of ours survives memory that is gone, and what is
// there is untouched by that.
func TestGuard(t *testing.T) {
	mem := gone(t, 1<<20)
	own := make([]byte, len(mem))
	for what, touch := range map[string]func(){
		"read a byte":  func() { own[0] = mem[len(mem)-1] },
		"write a byte": func() { mem[len(mem)-1] = 1 },
		"copy out":     func() { copy(own, mem) },
		"copy in":      func() { copy(mem, own) },
		"clear":        func() { clear(mem) },
		"hash":         func() { own[0] = byte(xxh3.HashSeed(mem, 1)) },
		"hash pieces":  func() { h := xxh3.NewSeed(1); _, _ = h.Write(mem[:100]); _, _ = h.Write(mem[100:]) },
	} {
		for range 3 {
			if err := fault.Guard(touch); !errors.Is(err, syscall.EFAULT) || !fault.OfMemory(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if err := fault.Guard(func() { mem[0] = 7 }); err != nil || mem[0] != 7 {
		t.Errorf("memory that is there: %v", err)
	}
}

// TestGuardLetsPanicsThrough: our own mistakes stay fatal.
func TestGuardLetsPanicsThrough(t *testing.T) {
	var none *int
	for what, wrong := range map[string]func(){
		"a value":           func() { panic("why") },
		"an index":          func() { _ = make([]int, 1)[len(os.Args)+1] },
		"a division":        func() { _ = 1 / len(make([]int, max(0, -len(os.Args)))) },
		"a nil dereference": func() { *none = 1 },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			err := fault.Guard(wrong)
			t.Errorf("%s: %v", what, err)
		}()
	}
}

func BenchmarkGuard(b *testing.B) {
	n := 0
	for b.Loop() {
		_ = fault.Guard(func() { n++ })
	}
}

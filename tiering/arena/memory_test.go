package arena

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMemory: whatever kind of pages is asked for, the memory is there, says
// what it is, and nobody can resize it.
func TestMemory(t *testing.T) {
	for _, w := range []wish{{}, {best: PagesHugeTLB}, {best: PagesTHP}, {best: PagesSmall},
		{name: "test"}, {name: "test", best: PagesHugeTLB}, {name: "test", best: PagesTHP}, {name: "test", best: PagesSmall}} {
		best := w.best
		t.Run(w.name+string(best), func(t *testing.T) {
			w.nBytes = 4 << 20
			m, err := makeMemory(w)
			if err != nil {
				t.Fatal(err)
			}
			defer m.close()
			t.Logf("%v; %q", m.facts, m.facts.Notes)
			if best != "" && m.facts.Pages != best && len(m.facts.Notes) == 0 {
				t.Error("no word why the pages are others")
			}
			for i := range m.mem {
				if m.mem[i] != 0 {
					t.Fatal("not zero")
				}
			}
			if addressOf(m.mem)%AlignBytes != 0 || int64(len(m.mem)) != w.nBytes || (m.file != nil) != w.shared() {
				t.Errorf("%d bytes at %#x, file %v", len(m.mem), addressOf(m.mem), m.file)
			}
			if m.file != nil {
				sealed(t, int(m.file.Fd()))
			}
			resident := make([]byte, len(m.mem)/os.Getpagesize())
			if _, _, errno := unix.Syscall(unix.SYS_MINCORE, addressOf(m.mem), uintptr(len(m.mem)), addressOf(resident)); errno != 0 {
				t.Fatal(errno)
			}
			for i, r := range resident {
				if r&1 == 0 {
					t.Fatalf("page %d is not there", i)
				}
			}
		})
	}
	if _, err := makeMemory(wish{name: "test", nBytes: 2 << 20, best: "9k"}); err == nil {
		t.Error("pages of 9k")
	}
}

// sealed wants a file that nobody can resize.
func sealed(t *testing.T, fd int) {
	t.Helper()
	for _, size := range []int64{0, 2 << 20, 8 << 20} {
		if err := unix.Ftruncate(fd, size); !errors.Is(err, unix.EPERM) {
			t.Errorf("resize to %d: %v", size, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("another seal: %v", err)
	}
}

func TestSizes(t *testing.T) {
	for _, nBytes := range []int64{-1 << 40, 0, MinBytes - 1, 1 << 60} {
		if a, err := New(Options{Bytes: nBytes, Pages: PagesSmall}); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: %v, %v", nBytes, a, err)
		}
	}
	a := small(t, 5<<20) // never more than asked for
	if u := a.Usage(); u.TotalBytes != 4<<20 || a.Facts().Bytes != 4<<20 {
		t.Errorf("%+v", u)
	}
	for _, nBytes := range []int64{-1, 0, 1<<63 - 1} {
		if _, err := NewShared("x", nBytes); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: %v", nBytes, err)
		}
	}
}

func TestNodes(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/node0"); err != nil {
		t.Skip("this kernel has no NUMA nodes")
	}
	a, err := New(Options{Bytes: 2 << 20, Pages: PagesSmall, Nodes: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	if f := a.Facts(); len(f.Nodes) != 1 && len(f.Notes) == 0 {
		t.Errorf("%+v", f)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for _, node := range []int{-1, 1023, 1 << 20} {
		if a, err := New(Options{Bytes: 2 << 20, Nodes: []int{node}}); !errors.Is(err, errNode) {
			t.Errorf("node %d: %v, %v", node, a, err)
		}
	}
}

func TestHugeBytes(t *testing.T) {
	const smaps = `7f0000000000-7f0000400000 rw-s 00000000 00:01 5 /memfd:spillway (deleted)
Size:               4096 kB
ShmemPmdMapped:     2048 kB
VmFlags: rd wr sh
7f0000400000-7f0000600000 rw-s 00000000 00:01 5 /memfd:spillway (deleted)
ShmemPmdMapped:     2048 kB
AnonHugePages:      2048 kB
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0
ShmemPmdMapped:     9999 kB
`
	if got := hugeBytesIn(smaps, 0x7f0000000000, 6<<20); got != 6<<20 {
		t.Errorf("got %d", got)
	}
	if got := hugeBytesIn("", 0, 1); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestEnoughMemory(t *testing.T) {
	if left, ok := memoryLeft("MemTotal: 8 kB\nMemAvailable:   4 kB\n"); !ok || left != 4096 {
		t.Errorf("%d, %t", left, ok)
	}
	if _, ok := memoryLeft("MemTotal: 8 kB\n"); ok {
		t.Error("made up")
	}
	root := t.TempDir()
	for dir, limit := range map[string]string{"": "", "a": "4096\n", "a/b": "max\n", "a/c": "100\n"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if limit != "" {
			if err := os.WriteFile(filepath.Join(root, dir, "memory.max"), []byte(limit), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for self, want := range map[string]int64{"0::/a/b\n": 4096, "1:cpu:/x\n0::/a/c\n": 100, "0::/\n": 0, "": 0, "0::/gone\n": 0} {
		if got, ok := groupLimit(root, self); got != want || ok != (want > 0) {
			t.Errorf("%q: %d, want %d", self, got, want)
		}
	}
}

func TestFactsLine(t *testing.T) {
	line := Facts{Bytes: 4096, Pages: PagesTHP, HugeBytes: 5, Nodes: []int{1}}.String()
	for _, want := range []string{"4096 bytes", "thp", "5 bytes in huge", "[1]", "not locked"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
}

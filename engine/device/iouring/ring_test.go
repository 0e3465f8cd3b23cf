package iouring

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openTest(t *testing.T, c Config) *Ring {
	t.Helper()
	r, err := Open(c)
	if e := (*Error)(nil); errors.As(err, &e) {
		t.Skipf("no io_uring here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestRound goes around both queues many times, with requests taken back
// between, so that every index wraps.
func TestRound(t *testing.T) {
	r := openTest(t, Config{Entries: 4, Calls: Kernel})
	if submission, completion := r.Entries(); submission != 4 || completion != 8 || r.Flags() != 0 {
		t.Fatalf("%d and %d entries, flags %#x", submission, completion, r.Flags())
	}
	next, seen := uint64(0), uint64(0)
	for range 1000 {
		for range 4 {
			r.Push(&SQE{Opcode: OpNop, User: next})
			next++
		}
		if r.Room() != 0 {
			t.Fatalf("room for %d in a full queue", r.Room())
		}
		r.TakeBack(1)
		next--
		if n, errno := r.Enter(3); n != 3 || errno != 0 {
			t.Fatalf("%d, %v", n, errno)
		}
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		var got [5]CQE
		n := r.Reap(got[:])
		if n != 3 {
			t.Fatalf("%d completions", n)
		}
		for _, c := range got[:n] {
			if c.User != seen || c.Result != 0 {
				t.Fatalf("completion %+v, want %d", c, seen)
			}
			seen++
		}
	}
	if err := r.Wake(); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestFilesByIndex: descriptors are 32 bits wide in the table, so that each
// place means the file that was put there.
func TestFilesByIndex(t *testing.T) {
	r := openTest(t, Config{Entries: 4, Calls: Kernel})
	if err := r.RegisterFiles(4); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	memory := make([]byte, 8)
	read := func(place int32) (CQE, string) {
		clear(memory)
		r.Push(&SQE{Opcode: OpRead, Flags: FixedFile, FD: place, Addr: uint64(uintptr(unsafe.Pointer(&memory[0]))), Len: 8})
		if n, errno := r.Enter(1); n != 1 || errno != 0 {
			t.Fatalf("%d, %v", n, errno)
		}
		var got [1]CQE
		for r.Reap(got[:]) == 0 {
			if err := r.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		return got[0], string(memory[:max(got[0].Result, 0)])
	}
	for place, text := range map[int]string{0: "zero", 1: "one", 3: "three"} {
		name := filepath.Join(dir, text)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.SetFile(place, int(f.Fd())); err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // the table keeps it open
	}
	for place, want := range []string{"zero", "one", "", "three"} {
		if c, got := read(int32(place)); got != want || want == "" && c.Result != -int32(syscall.EBADF) {
			t.Errorf("place %d: %+v, %q, want %q", place, c, got, want)
		}
	}
	if err := r.SetFile(1, -1); err != nil {
		t.Fatal(err)
	}
	if c, _ := read(1); c.Result != -int32(syscall.EBADF) {
		t.Errorf("an emptied place: %+v", c)
	}
	if err := r.UnregisterFiles(); err != nil {
		t.Error(err)
	}
}

// TestOld: what is missing ends in ErrOld, and nothing stays open.
func TestOld(t *testing.T) {
	openTest(t, Config{Entries: 1, Calls: Kernel})
	features, operations := Kernel, Kernel
	features.Setup = func(entries uint32, p *Params) (int, syscall.Errno) {
		fd, errno := Kernel.Setup(entries, p)
		p.Features &^= featNoDrop
		return fd, errno
	}
	operations.Register = func(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
		errno := Kernel.Register(fd, opcode, arg, n)
		if opcode == registerProbe {
			(*probe)(arg).ops[OpFallocate].flags = 0
		}
		return errno
	}
	for what, calls := range map[string]Calls{"features": features, "operations": operations} {
		if _, err := Open(Config{Entries: 1, Calls: calls}); !errors.Is(err, ErrOld) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFlagNames(t *testing.T) {
	for flags, want := range map[uint32]string{0: "none", SetupSubmitAll: "submit_all", SetupClamp | SetupCoopTaskrun: "clamp+coop_taskrun"} {
		if got := FlagNames(flags); got != want {
			t.Errorf("%#x is %q, want %q", flags, got, want)
		}
	}
}

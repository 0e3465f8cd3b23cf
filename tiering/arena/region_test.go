package arena

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// clientFile is a client's own memfd of n bytes.
func clientFile(t testing.TB, n int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("client", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "client")
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(n); err != nil {
		t.Fatal(err)
	}
	return f
}

func region(t testing.TB, f *os.File, n int64) *Region {
	t.Helper()
	r, err := MapRegion(f, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestRegionIsTheClientsMemory(t *testing.T) {
	f := clientFile(t, 100_000)
	r := region(t, f, 99_999)
	if r.Bytes() != 99_999 {
		t.Fatal(r.Bytes())
	}
	if _, err := f.WriteAt([]byte("hello"), 5000); err != nil {
		t.Fatal(err)
	}
	b, err := r.Slice(5000, 5)
	if err != nil || string(b) != "hello" || cap(b) != 5 {
		t.Fatalf("%q, %v, cap %d", b, err, cap(b))
	}
	copy(b, "HELLO")
	back := make([]byte, 5)
	if _, err := f.ReadAt(back, 5000); err != nil || string(back) != "HELLO" {
		t.Errorf("%q, %v", back, err)
	}
	if dir := "/dev/shm"; isTmpfs(dir) {
		path := filepath.Join(dir, "spillway-test-region")
		if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil {
			t.Skip(err)
		}
		defer os.Remove(path)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		region(t, f, 8192)
		if err := f.Close(); err != nil { // the region does not need it
			t.Error(err)
		}
	}
}

func isTmpfs(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.TMPFS_MAGIC
}

func TestNotARegion(t *testing.T) {
	mem := clientFile(t, 1<<20)
	for _, n := range []int64{0, -1, math.MinInt64, math.MaxInt64, 1<<20 + 1} {
		if r, err := MapRegion(mem, n); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: %v, %v", n, r, err)
		}
	}
	readOnly, err := os.Open("/proc/self/fd/" + itoa(mem.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	sealed := clientFile(t, 1<<20)
	if _, err := unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	disk, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := disk.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	files := map[string]*os.File{"read-only": readOnly, "sealed": sealed, "a pipe": in, "a device": null}
	if !isTmpfs(filepath.Dir(disk.Name())) {
		files["on a drive"] = disk
	}
	for name, f := range files {
		if r, err := MapRegion(f, 4096); !errors.Is(err, ErrNotMemory) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	_ = disk.Close()
	if _, err := MapRegion(disk, 4096); err == nil {
		t.Error("a closed file")
	}
}

func itoa(fd uintptr) string {
	const digits = "0123456789"
	if fd < 10 {
		return digits[fd : fd+1]
	}
	return itoa(fd/10) + digits[fd%10:fd%10+1]
}

func TestBounds(t *testing.T) {
	r := region(t, clientFile(t, 10_000), 10_000)
	for _, c := range []struct {
		offset, length uint64
		ok             bool
	}{
		{0, 1, true}, {0, 10_000, true}, {9_999, 1, true}, {5_000, 5_000, true},
		{0, 0, false}, {10_000, 0, false}, {10_000, 1, false}, {0, 10_001, false}, {9_999, 2, false},
		{math.MaxUint64, 1, false}, {1, math.MaxUint64, false}, {math.MaxUint64, math.MaxUint64, false},
		{math.MaxUint64 - 99, 200, false}, {1 << 63, 1 << 63, false}, {5, math.MaxInt64, false},
	} {
		b, err := r.Slice(c.offset, c.length)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrBounds) || c.ok && uint64(len(b)) != c.length {
			t.Errorf("%+v: %d bytes, %v", c, len(b), err)
		}
	}
}

func FuzzBounds(f *testing.F) {
	f.Add(uint64(0), uint64(1))
	f.Add(uint64(math.MaxUint64), uint64(2))
	r := region(f, clientFile(f, 4096), 4096)
	f.Fuzz(func(t *testing.T, offset, length uint64) {
		if b, err := r.Slice(offset, length); err == nil {
			b[0], b[len(b)-1] = 1, 1 // faults, if it is outside
		}
	})
}

func TestUnmappedAfterTheLastTransfer(t *testing.T) {
	r := region(t, clientFile(t, 8192), 8192)
	p := &pins{}
	if err := errors.Join(r.Acquire(), r.Acquire()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Register(p, UringPieceBytes); err != nil {
		t.Fatal(err)
	}
	b, _ := r.Slice(0, 1)
	r.Close()
	r.Close()
	if err := r.Acquire(); err != ErrClosed {
		t.Errorf("acquired after close: %v", err)
	}
	r.Release()
	b[0] = 1 // still mapped
	select {
	case <-r.Dropped():
		t.Fatal("dropped with a transfer in flight")
	default:
	}
	at := addressOf(r.mem)
	r.Release()
	<-r.Dropped()
	if mapped(t, at) {
		t.Error("still mapped")
	}
	if got := p.log.String(); got != "+1:0 -1 " {
		t.Errorf("registered: %q", got)
	}
	mustPanic(t, "one release too many", r.Release)
}

func mapped(t *testing.T, at uintptr) bool {
	t.Helper()
	// mincore answers ENOMEM for what is not mapped.
	var page [1]byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, at, 4096, addressOf(page[:]))
	return errno != unix.ENOMEM
}

// TestShared: a client that has the descriptor sees the bytes, cannot resize
// them, and the memory goes when the last transfer ends.
func TestShared(t *testing.T) {
	s, err := NewShared("ns/"+strings.Repeat("long", 100), 3<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v; %q", s.Facts(), s.Facts().Notes)
	if s.Bytes() != 4<<20 || s.Facts().Bytes != 4<<20 {
		t.Errorf("%d bytes", s.Bytes())
	}
	if err := s.Acquire(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(s.File().Fd())) // as SCM_RIGHTS does
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("shrunk: %v", err)
	}
	client, err := unix.Mmap(fd, 0, int(s.Bytes()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(client)
	b, err := s.Slice(1<<20, 5)
	if err != nil {
		t.Fatal(err)
	}
	copy(b, "hello")
	if string(client[1<<20:][:5]) != "hello" {
		t.Error("the client sees something else")
	}
	s.Close()
	s.Release()
	<-s.Dropped()
	if err := s.File().Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the descriptor is open: %v", err)
	}
	client[0] = 1 // the client keeps its own mapping
}

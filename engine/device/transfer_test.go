package device

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func openInternal(t testing.TB) *psync {
	t.Helper()
	d, err := OpenDir(t.TempDir(), Options{Engine: EnginePsync, AnyFileSystem: true, BufferedIO: true, QueueDepth: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if f := d.Facts(); !f.Direct {
		t.Logf("testing with buffered I/O on %s", f.FileSystem)
	}
	return d.(*psync)
}

func createInternal(t testing.TB, d *psync, sizeBytes int64) *file {
	t.Helper()
	f, err := d.Create("f", sizeBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("File.Close: %v", err)
		}
	})
	return f.(*file)
}

// cutting lets at most bytesMax of each call through, and interrupts every
// other call before it starts.
func cutting(t *testing.T, align, bytesMax int) vectorCalls {
	calls := 0
	wrap := func(call func(int, []unix.Iovec, int64) (int, syscall.Errno)) func(int, []unix.Iovec, int64) (int, syscall.Errno) {
		return func(fd int, pieces []unix.Iovec, offset int64) (int, syscall.Errno) {
			if calls++; calls%2 == 1 {
				return 0, syscall.EINTR
			}
			if offset%int64(align) != 0 {
				t.Errorf("a transfer went on at %d", offset)
			}
			cut := slices.Clone(pieces)
			left := bytesMax
			for i := range cut {
				n := min(int(cut[i].Len), left)
				cut[i].SetLen(n)
				if left -= n; left == 0 {
					return call(fd, cut[:i+1], offset)
				}
			}
			return call(fd, cut, offset)
		}
	}
	return vectorCalls{readv: wrap(preadv), writev: wrap(pwritev), bytesMax: callBytesMax}
}

func pattern(b []byte, seed int) []byte {
	for i := range b {
		b[i] = byte(i*31 + i>>8 + seed)
	}
	return b
}

func TestShortAndInterruptedCallsAreContinued(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	f := createInternal(t, d, int64(64*align))
	for _, cutUnits := range []int{1, 3, 7} {
		d.calls = cutting(t, align, cutUnits*align)
		src := pattern(AlignedBuffer(64*align, align), cutUnits)
		v := new(vector)
		n, err := v.transfer(Write, f, 0, [][]byte{src[:5*align], nil, src[5*align : 6*align], src[6*align:], {}})
		if n != len(src) || err != nil {
			t.Fatalf("cut at %d units: wrote %d, %v", cutUnits, n, err)
		}
		got := AlignedBuffer(64*align, align)
		n, err = v.transfer(Read, f, 0, [][]byte{{}, got[:2*align], got[2*align : 30*align], got[30*align:]})
		if n != len(got) || err != nil || !bytes.Equal(got, src) {
			t.Fatalf("cut at %d units: read %d, %v, equal %v", cutUnits, n, err, bytes.Equal(got, src))
		}
		if v.pieces[0].Base != nil {
			t.Error("the scratch memory still points to the caller's")
		}
	}
	d.calls = kernelCalls
}

// TestCallsAreBounded: no call is asked for more than its bounds.
func TestCallsAreBounded(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	const units = 3000
	f := createInternal(t, d, int64(units*align))
	calls := 0
	d.calls.bytesMax = 2000 * align
	d.calls.writev = func(fd int, pieces []unix.Iovec, offset int64) (int, syscall.Errno) {
		calls++
		total := 0
		for _, p := range pieces {
			total += int(p.Len)
		}
		if len(pieces) > iovMax || total > d.calls.bytesMax {
			t.Errorf("a call got %d pieces and %d bytes", len(pieces), total)
		}
		return pwritev(fd, pieces, offset)
	}
	src := pattern(AlignedBuffer(units*align, align), 5)
	var bufs [][]byte
	for at := 0; at < 1500*align; at += align {
		bufs = append(bufs, src[at:at+align])
	}
	bufs = append(bufs, src[1500*align:])
	n, err := new(vector).transfer(Write, f, 0, bufs)
	if n != len(src) || err != nil || calls < 2 {
		t.Fatalf("wrote %d in %d calls, %v", n, calls, err)
	}
	got, err := d.ReadFile("f")
	if err != nil || !bytes.Equal(got, src) {
		t.Fatalf("reads back differently, %v", err)
	}
	d.calls = kernelCalls
}

// TestTransferEnds: what ends a transfer early, and with what.
func TestTransferEnds(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	f := createInternal(t, d, int64(8*align))
	buf := AlignedBuffer(8*align, align)
	type answer struct {
		n     int
		errno syscall.Errno
	}
	for _, c := range []struct {
		what    string
		kind    Kind
		answers []answer
		n       int
		err     error
	}{
		{"EIO at once", Read, []answer{{0, syscall.EIO}}, 0, syscall.EIO},
		{"EIO later", Read, []answer{{2 * align, 0}, {0, syscall.EIO}}, 2 * align, syscall.EIO},
		{"end of file at a block", Read, []answer{{3 * align, 0}, {0, 0}}, 3 * align, io.ErrUnexpectedEOF},
		{"a read stops within a block, not at the end", Read, []answer{{align + 7, 0}}, align + 7, syscall.EIO},
		{"a write moves nothing", Write, []answer{{align, 0}, {0, 0}}, align, io.ErrShortWrite},
		{"a write stops within a block", Write, []answer{{align + 7, 0}}, align + 7, syscall.EIO},
		{"disk full in the middle", Write, []answer{{align, 0}, {0, syscall.EINTR}, {0, syscall.ENOSPC}}, align, syscall.ENOSPC},
	} {
		call := func(int, []unix.Iovec, int64) (int, syscall.Errno) {
			next := c.answers[0]
			c.answers = c.answers[1:]
			return next.n, next.errno
		}
		d.calls.readv, d.calls.writev = call, call
		n, err := new(vector).transfer(c.kind, f, 0, [][]byte{buf})
		if n != c.n || !errors.Is(err, c.err) || len(c.answers) != 0 {
			t.Errorf("%s: %d, %v; want %d, %v; %d answers left", c.what, n, err, c.n, c.err, len(c.answers))
		}
	}
	d.calls = kernelCalls
}

// TestTruncatedBehindOurBack: a file cut while open ends reads, never pads them.
func TestTruncatedBehindOurBack(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	f := createInternal(t, d, int64(4*align))
	src := pattern(AlignedBuffer(4*align, align), 1)
	if err := Do(d, &Op{Kind: Write, File: f, Bufs: [][]byte{src}}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{2 * align, align + 100, 0} {
		if err := os.Truncate(filepath.Join(d.dir, "f"), int64(size)); err != nil {
			t.Fatal(err)
		}
		got := AlignedBuffer(4*align, align)
		op := &Op{Kind: Read, File: f, Bufs: [][]byte{got}}
		if err := Do(d, op); !errors.Is(err, io.ErrUnexpectedEOF) || op.N != size || !bytes.Equal(got[:size], src[:size]) {
			t.Errorf("cut to %d: N = %d, %v", size, op.N, err)
		}
	}
}

func TestEmptyOpsSucceed(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	f := createInternal(t, d, int64(2*align))
	odd := make([]byte, 8)[1:1] // an empty piece may lie anywhere
	for _, op := range []*Op{
		{Kind: Read, File: f}, {Kind: Write, File: f}, {Kind: Punch, File: f},
		{Kind: Read, File: f, Bufs: [][]byte{nil, odd}},
	} {
		if err := Do(d, op); err != nil || op.N != 0 {
			t.Errorf("kind %d: N = %d, %v", op.Kind, op.N, err)
		}
	}
}

// TestWithoutFallocate: zeros are written instead, in direct I/O too, and a
// full disk leaves nothing.
func TestWithoutFallocate(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	d.facts.Preallocate, d.punch = false, false
	d.zeros = AlignedBuffer(zerosBytes, max(align, d.facts.MemAlignBytes))
	const size = 2*zerosBytes + 12345
	f := createInternal(t, d, size)
	data, err := d.ReadFile("f")
	if err != nil || len(data) != size || !bytes.Equal(data, make([]byte, size)) {
		t.Errorf("a new file has %d bytes, %v", len(data), err)
	}
	src := pattern(AlignedBuffer(zerosBytes+4*align, align), 3)
	if err := Do(d, &Op{Kind: Write, File: f, Bufs: [][]byte{src}}); err != nil {
		t.Fatal(err)
	}
	if err := Do(d, &Op{Kind: Punch, File: f, Offset: int64(align), LengthBytes: int64(zerosBytes + 2*align)}); err != nil {
		t.Fatal(err)
	}
	clear(src[align : zerosBytes+3*align])
	if data, err = d.ReadFile("f"); err != nil || !bytes.Equal(data[:len(src)], src) {
		t.Errorf("after Punch the file differs, %v", err)
	}

	calls := 0
	d.calls.writev = func(fd int, pieces []unix.Iovec, offset int64) (int, syscall.Errno) {
		if calls++; calls == 3 {
			return 0, syscall.ENOSPC
		}
		return pwritev(fd, pieces, offset)
	}
	if _, err := d.Create("g", 4*zerosBytes); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create on a disk that fills: %v", err)
	}
	d.calls = kernelCalls
	if _, err := d.Open("g"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed Create left: %v", err)
	}
	if _, err := d.Create("g", 1<<62+1); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Create of 4 EiB: %v", err)
	}
}

// TestNoAllocation: the steady path allocates nothing.
func TestNoAllocation(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	f := createInternal(t, d, int64(16*align))
	ended := make(chan struct{}, 4)
	done := func(*Op) { ended <- struct{}{} }
	buf := AlignedBuffer(16*align, align)
	ops := []*Op{
		{Kind: Write, File: f, Bufs: [][]byte{buf[:align], buf[align : 4*align]}, Done: done},
		{Kind: Read, File: f, Offset: int64(4 * align), Bufs: [][]byte{buf[4*align : 8*align]}, Done: done},
		{Kind: Read, File: f, Offset: int64(8 * align), Bufs: [][]byte{buf[8*align : 12*align]}, Done: done},
		{Kind: Sync, File: f, Done: done},
	}
	perRun := testing.AllocsPerRun(50, func() {
		d.Submit(ops)
		for range ops {
			<-ended
		}
	})
	if perRun != 0 {
		t.Errorf("a batch of %d ops allocates %v times", len(ops), perRun)
	}
	for i, op := range ops {
		if op.Err != nil {
			t.Errorf("op %d: %v", i, op.Err)
		}
	}
}

func TestAlignedBuffer(t *testing.T) {
	for _, align := range []int{1, 2, 512, 4096, 2 << 20} {
		for _, n := range []int{0, 1, 4096, 100_000} {
			b := AlignedBuffer(n, align)
			if len(b) != n || cap(b) != n || n > 0 && addressOf(b)%uintptr(align) != 0 {
				t.Errorf("AlignedBuffer(%d, %d): length %d, capacity %d, address %#x", n, align, len(b), cap(b), addressOf(b))
			}
		}
	}
	for _, bad := range [][2]int{{-1, 8}, {8, 0}, {8, -8}, {8, 3}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("AlignedBuffer(%d, %d) does not panic", bad[0], bad[1])
				}
			}()
			AlignedBuffer(bad[0], bad[1])
		}()
	}
}

func BenchmarkRead4KiB(b *testing.B) {
	d := openInternal(b)
	const units = 4096
	f := createInternal(b, d, units*4096)
	if err := Do(d, &Op{Kind: Write, File: f, Bufs: [][]byte{AlignedBuffer(units*4096, 4096)}}); err != nil {
		b.Fatal(err)
	}
	const batch = 32
	ended := make(chan struct{}, batch)
	ops := make([]*Op, batch)
	for i := range ops {
		ops[i] = &Op{Kind: Read, File: f, Bufs: [][]byte{AlignedBuffer(4096, 4096)}, Done: func(*Op) { ended <- struct{}{} }}
	}
	b.SetBytes(4096 * batch)
	b.ReportAllocs()
	next := 0
	for b.Loop() {
		for _, op := range ops {
			next = (next*1103 + 12345) % units
			op.Offset = int64(next) * 4096
		}
		d.Submit(ops)
		for range ops {
			<-ended
		}
	}
}

package device_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/devicetest"
	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// Opcodes of io_uring_register, for the stand-ins below.
const (
	registerProbe         = 8
	registerFiles         = 2
	registerBuffers       = 15
	registerBuffersUpdate = 16
)

// wantRing skips where the machine has no io_uring, which is not for us to change.
func wantRing(t testing.TB) {
	t.Helper()
	k, err := iouring.Open(iouring.Config{Entries: 1, Calls: iouring.Kernel})
	if err != nil {
		t.Skipf("no io_uring here: %v", err)
	}
	k.Close()
}

// openRing opens a device whose rings are set up with s; missing calls are the
// kernel's.
func openRing(t testing.TB, o device.Options, s device.SetUp) device.Device {
	t.Helper()
	wantRing(t)
	if s.Calls.Setup == nil {
		s.Calls.Setup = iouring.Kernel.Setup
	}
	if s.Calls.Enter == nil {
		s.Calls.Enter = iouring.Kernel.Enter
	}
	if s.Calls.EnterWait == nil {
		s.Calls.EnterWait = iouring.Kernel.EnterWait
	}
	if s.Calls.Register == nil {
		s.Calls.Register = iouring.Kernel.Register
	}
	if o.Engine == "" {
		o.Engine = device.EngineUring
	}
	o.AnyFileSystem, o.BufferedIO = true, true // the temporary directory may lie anywhere
	d, err := device.OpenDirWith(t.TempDir(), o, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// unkind is a kernel that takes a part of a batch, or nothing for every reason
// that asks to be called again.
func unkind() iouring.Calls {
	var n atomic.Uint64
	calls := iouring.Kernel
	calls.Enter = func(fd int, submit, wait, flags uint32) (int, syscall.Errno) {
		switch i := n.Add(1) % 11; {
		case i == 2 || i == 3:
			return 0, syscall.EINTR
		case i == 5:
			return 0, syscall.EAGAIN
		case i == 7:
			return 0, syscall.EBUSY
		case i%2 == 0 && submit > 1:
			return iouring.Kernel.Enter(fd, submit/2, wait, flags)
		}
		return iouring.Kernel.Enter(fd, submit, wait, flags)
	}
	return calls
}

func TestConformanceRings(t *testing.T) {
	noFlags, noBuffers := iouring.Kernel, iouring.Kernel
	noFlags.Setup = func(entries uint32, p *iouring.Params) (int, syscall.Errno) {
		if p.Flags != 0 {
			return -1, syscall.EINVAL
		}
		return iouring.Kernel.Setup(entries, p)
	}
	noBuffers.Register = func(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
		if opcode == registerBuffers {
			return syscall.EINVAL
		}
		return iouring.Kernel.Register(fd, opcode, arg, n)
	}
	for _, c := range []struct {
		what string
		o    device.Options
		s    device.SetUp
		note string
	}{
		{"no flags", device.Options{QueueOps: 200}, device.SetUp{Calls: noFlags}, "flags: none"},
		{"no buffers", device.Options{QueueOps: 200}, device.SetUp{Calls: noBuffers}, "buffers cannot be registered"},
		{"unkind kernel, many requests an op", device.Options{QueueDepth: 16, QueueOps: 500}, device.SetUp{Calls: unkind(), BytesMax: 3 * 4096}, ""},
		{"queues too small", device.Options{QueueDepth: 64, QueueOps: 500}, device.SetUp{Entries: 2}, "entries: 2"},
	} {
		t.Run(c.what, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				d := openRing(t, c.o, c.s)
				if f := d.Facts(); f.Device != "uring" || !hasNote(f, c.note) {
					t.Errorf("device %q with notes %q", f.Device, f.Notes)
				}
				return d
			})
		})
	}
}

func hasNote(f device.Facts, part string) bool {
	return slices.ContainsFunc(f.Notes, func(note string) bool { return strings.Contains(note, part) })
}

// TestFlagsAreLeftOut: what the kernel does not know is left out, the newest
// first, and the note shows what stuck.
func TestFlagsAreLeftOut(t *testing.T) {
	for known, want := range map[uint32]string{
		0: "flags: none", iouring.SetupClamp: "flags: clamp;", iouring.SetupClamp | iouring.SetupSubmitAll: "flags: clamp+submit_all;",
	} {
		calls := iouring.Kernel
		calls.Setup = func(entries uint32, p *iouring.Params) (int, syscall.Errno) {
			if p.Flags&^known != 0 {
				return -1, syscall.EINVAL
			}
			return iouring.Kernel.Setup(entries, p)
		}
		d := openRing(t, device.Options{}, device.SetUp{Calls: calls})
		if !hasNote(d.Facts(), want) {
			t.Errorf("known flags %#x: notes %q, want %q", known, d.Facts().Notes, want)
		}
		closeDevice(t, d)
	}
}

// ringFile is a file of n blocks of 4 KiB, block i filled with byte(i).
func ringFile(t testing.TB, d device.Device, n int) device.File {
	t.Helper()
	f, err := d.Create("f", int64(n)*4096)
	if err != nil {
		t.Fatal(err)
	}
	src := device.AlignedBuffer(n*4096, 4096)
	for i := range src {
		src[i] = byte(i / 4096)
	}
	if err := device.Do(d, &device.Op{Kind: device.Write, File: f, Bufs: [][]byte{src}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// reads are n reads of a block each; done is called by every Done.
func reads(f device.File, n int, done func(*device.Op)) []*device.Op {
	blocks := int(f.SizeBytes() / 4096)
	ops := make([]*device.Op, n)
	for i := range ops {
		ops[i] = &device.Op{Kind: device.Read, File: f, Offset: int64(i%blocks) * 4096, Bufs: [][]byte{device.AlignedBuffer(4096, 4096)}, Done: done}
	}
	return ops
}

func checkReads(t testing.TB, ops []*device.Op) {
	t.Helper()
	for i, op := range ops {
		want := byte(op.Offset / 4096)
		if op.Err != nil || op.N != 4096 || op.Bufs[0][0] != want || op.Bufs[0][4095] != want {
			t.Fatalf("op %d: N = %d, %v, bytes %d and %d, want %d", i, op.N, op.Err, op.Bufs[0][0], op.Bufs[0][4095], want)
		}
	}
}

func submitAndWait(d device.Device, ops []*device.Op) {
	var wg sync.WaitGroup
	wg.Add(len(ops))
	for _, op := range ops {
		op.Done = func(*device.Op) { wg.Done() }
	}
	d.Submit(ops)
	wg.Wait()
}

func closeFile(t testing.TB, f device.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Errorf("File.Close: %v", err)
	}
}

// TestOneCallForABatch: a batch that has room costs one system call, and a long
// one never has more in the kernel than the completion queue holds.
func TestOneCallForABatch(t *testing.T) {
	d := openRing(t, device.Options{QueueDepth: 64, QueueOps: 4096}, device.SetUp{})
	f := ringFile(t, d, 256)
	before := device.RingCounts(d)
	ops := reads(f, 64, nil)
	submitAndWait(d, ops)
	checkReads(t, ops)
	if n := device.RingCounts(d).Enters - before.Enters; n != 1 {
		t.Errorf("a batch of 64 took %d calls", n)
	}
	before = device.RingCounts(d)
	ops = reads(f, 4096, nil)
	submitAndWait(d, ops)
	checkReads(t, ops)
	if n := device.RingCounts(d).Enters - before.Enters; n > 4096-64+1 {
		t.Errorf("4096 ops took %d calls", n)
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestCompletionOverflow: more completions than the queue holds, because the
// test allows more in flight than it should; they wait in the kernel and are
// fetched. Requests that do nothing complete within the call that submits them,
// so there is no luck in it.
func TestCompletionOverflow(t *testing.T) {
	wantRing(t)
	var fetches atomic.Int64
	calls := iouring.Kernel
	calls.Enter = func(fd int, submit, wait, flags uint32) (int, syscall.Errno) {
		if submit == 0 && flags != 0 {
			fetches.Add(1)
		}
		return iouring.Kernel.Enter(fd, submit, wait, flags)
	}
	d, err := device.NewNullWith(device.Options{Engine: device.EngineUring, QueueDepth: 256}, device.SetUp{Calls: calls, Entries: 1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Create("f", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	gate, first := make(chan struct{}), make(chan struct{})
	d.Submit(reads(f, 1, func(*device.Op) { close(first); <-gate }))
	<-first // the reaper is inside Done, nobody takes completions
	var wg sync.WaitGroup
	ops := reads(f, 200, func(*device.Op) { wg.Done() })
	wg.Add(len(ops))
	for i := range ops {
		d.Submit(ops[i : i+1])
	}
	close(gate)
	wg.Wait()
	for i, op := range ops {
		if op.Err != nil || op.N != 4096 {
			t.Errorf("op %d: N = %d, %v", i, op.N, op.Err)
		}
	}
	if fetches.Load() == 0 {
		t.Error("200 completions did not overflow a queue of 2")
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestBrokenRing: a ring that fails for good, or that never takes anything,
// leaves its ops to the workers.
func TestBrokenRing(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENXIO, syscall.EAGAIN, syscall.EBUSY} {
		var failing atomic.Bool
		calls := iouring.Kernel
		calls.Enter = func(fd int, submit, wait, flags uint32) (int, syscall.Errno) {
			if failing.Load() {
				return 0, errno
			}
			return iouring.Kernel.Enter(fd, submit, wait, flags)
		}
		d := openRing(t, device.Options{QueueDepth: 8}, device.SetUp{Calls: calls})
		f := ringFile(t, d, 16)
		failing.Store(true)
		ops := reads(f, 100, nil)
		submitAndWait(d, ops)
		checkReads(t, ops)
		failing.Store(false)
		submitAndWait(d, ops)
		checkReads(t, ops)
		closeFile(t, f)
		closeDevice(t, d)
	}
}

// TestThreadEnds: the kernel cancels what its own workers have not begun when
// the thread that submitted it ends. The ops must come to their end all the same.
func TestThreadEnds(t *testing.T) {
	d := openRing(t, device.Options{QueueDepth: 64}, device.SetUp{})
	f := ringFile(t, d, 64)
	for range 20 {
		var wg sync.WaitGroup
		ops := reads(f, 32, func(*device.Op) { wg.Done() })
		for range 16 {
			ops = append(ops, &device.Op{Kind: device.Sync, File: f, Done: func(*device.Op) { wg.Done() }})
		}
		wg.Add(len(ops))
		go func() {
			runtime.LockOSThread() // and end without unlocking: the thread ends too
			d.Submit(ops)
		}()
		wg.Wait()
		checkReads(t, ops[:32])
		for _, op := range ops[32:] {
			if op.Err != nil {
				t.Fatalf("sync: %v", op.Err)
			}
		}
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestCloseBehindASubmit: a device whose ops have all ended may be closed while the
// goroutine that submitted them is still in its system call.
func TestCloseBehindASubmit(t *testing.T) {
	for range 20 {
		var slow atomic.Bool
		calls := iouring.Kernel
		calls.Enter = func(fd int, submit, wait, flags uint32) (int, syscall.Errno) {
			n, errno := iouring.Kernel.Enter(fd, submit, wait, flags)
			if slow.Load() {
				time.Sleep(2 * time.Millisecond) // the ops have long ended
			}
			return n, errno
		}
		d := openRing(t, device.Options{QueueDepth: 64}, device.SetUp{Calls: calls})
		f := ringFile(t, d, 64)
		slow.Store(true)
		var ended, returned sync.WaitGroup
		ops := reads(f, 32, func(*device.Op) { ended.Done() })
		ended.Add(len(ops))
		returned.Go(func() { d.Submit(ops) })
		ended.Wait()
		checkReads(t, ops)
		closeFile(t, f)
		closeDevice(t, d)
		returned.Wait()
	}
}

// TestIdle: with nothing to do, nobody enters the kernel or wakes up.
func TestIdle(t *testing.T) {
	d := openRing(t, device.Options{}, device.SetUp{})
	f := ringFile(t, d, 64)
	submitAndWait(d, reads(f, 64, nil))
	closeFile(t, f) // waits for the reaper to be through
	before := device.RingCounts(d)
	for range 100_000 {
		runtime.Gosched()
	}
	runtime.GC()
	after := device.RingCounts(d)
	if after.Wakeups > before.Wakeups+1 || after.Enters != before.Enters { // one may have been on its way
		t.Errorf("idle: %+v, then %+v", before, after)
	}
	closeDevice(t, d)
}

// TestAutoPicks: only a small transfer with nothing else in flight goes to a worker.
func TestAutoPicks(t *testing.T) {
	d := openRing(t, device.Options{Engine: device.EngineAuto}, device.SetUp{})
	if f := d.Facts(); f.Device != "uring" {
		t.Fatalf("%+v", f)
	}
	f := ringFile(t, d, device.LoneBytes/4096+8)
	used := func(ops ...*device.Op) bool {
		before := device.RingCounts(d).Enters
		submitAndWait(d, ops)
		for _, op := range ops {
			if op.Err != nil {
				t.Error(op.Err)
			}
		}
		return device.RingCounts(d).Enters != before
	}
	buffer := func(n int) [][]byte { return [][]byte{device.AlignedBuffer(n, 4096)} }
	read := func(n int) *device.Op { return &device.Op{Kind: device.Read, File: f, Bufs: buffer(n)} }
	for _, c := range []struct {
		what string
		ops  []*device.Op
		want bool
	}{
		{"lone small read", []*device.Op{read(4096)}, false},
		{"largest lone read", []*device.Op{read(device.LoneBytes)}, false},
		{"lone large read", []*device.Op{read(device.LoneBytes + 4096)}, true},
		{"two small reads", []*device.Op{read(4096), read(4096)}, true},
		{"lone small write", []*device.Op{{Kind: device.Write, File: f, Bufs: buffer(4096)}}, false},
		{"lone large write", []*device.Op{{Kind: device.Write, File: f, Bufs: buffer(device.LoneBytes + 4096)}}, true},
		{"lone sync", []*device.Op{{Kind: device.Sync, File: f}}, true},
		{"read of nothing", []*device.Op{read(0)}, false},
	} {
		if used(c.ops...) != c.want {
			t.Errorf("%s: on a ring %v, want %v", c.what, !c.want, c.want)
		}
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestManyFiles: more files than the table holds are read rightly, and places
// are used again.
func TestManyFiles(t *testing.T) {
	d := openRing(t, device.Options{}, device.SetUp{})
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < device.FilePlaces+200 {
		t.Skipf("limit of open files: %d, %v", limit.Cur, err)
	}
	for round := range 2 {
		var files []device.File
		var ops []*device.Op
		for i := range device.FilePlaces + 10 {
			name := fmt.Sprintf("f%d", i)
			open := d.Open
			if round == 0 {
				open = func(name string) (device.File, error) { return d.Create(name, 4096) }
			}
			f, err := open(name)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			kind := []device.Kind{device.Write, device.Read}[round]
			op := &device.Op{Kind: kind, File: f, Bufs: [][]byte{device.AlignedBuffer(4096, 4096)}}
			if round == 0 {
				copy(op.Bufs[0], name)
			}
			ops = append(ops, op)
		}
		submitAndWait(d, ops)
		for i, op := range ops {
			if want := fmt.Sprintf("f%d\x00", i); op.Err != nil || !bytes.HasPrefix(op.Bufs[0], []byte(want)) {
				t.Fatalf("round %d, file %d: %v, %q", round, i, op.Err, op.Bufs[0][:8])
			}
		}
		for _, i := range []int{5, 900, device.FilePlaces, 17} { // in no order
			closeFile(t, files[i])
		}
		for i, f := range files {
			if !slices.Contains([]int{5, 900, device.FilePlaces, 17}, i) {
				closeFile(t, f)
			}
		}
	}
	closeDevice(t, d)
}

// TestReopenAtOnce: a closed device holds neither the lock nor a removed file.
func TestReopenAtOnce(t *testing.T) {
	wantRing(t)
	dir := t.TempDir()
	for range 30 {
		d, err := device.OpenDir(dir, device.Options{Engine: device.EngineUring, Rings: 2, AnyFileSystem: true, BufferedIO: true, LockWait: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		closeDevice(t, d)
	}
}

// mapped is n bytes of memory that may be registered.
func mapped(t testing.TB, n int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return mem
}

// fixedRead reads block 3 into dst and reports whether that was registered
// memory to the ring.
func fixedRead(t testing.TB, d device.Device, f device.File, dst []byte) bool {
	t.Helper()
	clear(dst)
	before := device.RingCounts(d).Fixed
	if err := device.Do(d, &device.Op{Kind: device.Read, File: f, Offset: 3 * 4096, Bufs: [][]byte{dst}}); err != nil {
		t.Fatal(err)
	}
	for i, b := range dst {
		if b != byte(3+i/4096) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	return device.RingCounts(d).Fixed > before
}

func TestRegisterMemory(t *testing.T) {
	d := openRing(t, device.Options{QueueDepth: 4, Rings: 2}, device.SetUp{})
	f := ringFile(t, d, 64)
	m := d.(device.MemoryRegistrar)
	mem := mapped(t, 1<<20)
	if fixedRead(t, d, f, mem[:4096]) {
		t.Error("a fixed read before registration")
	}
	low, high := mem[64<<10:128<<10], mem[256<<10:]
	releaseLow, err := m.RegisterMemory(low)
	if err != nil {
		t.Fatal(err)
	}
	releaseHigh, err := m.RegisterMemory(high)
	if err != nil {
		t.Fatal(err)
	}
	for _, overlap := range [][]byte{mem, low, low[4096:8192], mem[:68<<10], mem[512<<10:]} {
		if _, err := m.RegisterMemory(overlap); err == nil {
			t.Errorf("memory is registered twice")
		}
	}
	for range 4 { // both rings
		for _, c := range []struct {
			what string
			dst  []byte
			want bool
		}{
			{"below", mem[:4096], false}, {"across the start", mem[60<<10 : 68<<10], false}, {"first page", low[:4096], true},
			{"the whole", low, true}, {"last page", low[len(low)-4096:], true}, {"across the end", mem[124<<10 : 132<<10], false},
			{"between", mem[128<<10 : 132<<10], false}, {"second region", high[4096:8192], true}, {"Go memory", device.AlignedBuffer(4096, 4096), false},
		} {
			if len(c.dst) > 60*4096 {
				c.dst = c.dst[:60*4096]
			}
			if got := fixedRead(t, d, f, c.dst); got != c.want {
				t.Errorf("%s: fixed %v, want %v", c.what, got, c.want)
			}
		}
	}
	// A write from registered memory, and a read of several pieces in it.
	copy(high, bytes.Repeat([]byte{77}, 4096))
	before := device.RingCounts(d).Fixed
	if err := device.Do(d, &device.Op{Kind: device.Write, File: f, Bufs: [][]byte{high[:4096]}}); err != nil || device.RingCounts(d).Fixed == before {
		t.Errorf("fixed write: %v", err)
	}
	clear(high[:8192])
	if err := device.Do(d, &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{high[4096:8192], high[:4096]}}); err != nil || high[4096] != 77 || high[0] != 1 {
		t.Errorf("read of two pieces: %v", err)
	}
	releaseLow()
	releaseLow()
	if fixedRead(t, d, f, low[:4096]) || !fixedRead(t, d, f, high[:4096]) {
		t.Error("release took the wrong memory")
	}
	if releaseLow, err = m.RegisterMemory(low); err != nil || !fixedRead(t, d, f, low[:4096]) {
		t.Errorf("registering again: %v", err)
	}
	if release, err := m.RegisterMemory(nil); err != nil {
		t.Error(err)
	} else {
		release()
	}
	closeFile(t, f)
	closeDevice(t, d)
	releaseLow()
	releaseHigh()
	if _, err := m.RegisterMemory(low); !errors.Is(err, device.ErrClosed) {
		t.Errorf("on a closed device: %v", err)
	}
}

// TestRegistrationRefused: transfers go on unregistered, and one note says so.
func TestRegistrationRefused(t *testing.T) {
	var n atomic.Int64
	calls := iouring.Kernel
	calls.Register = func(fd int, opcode uint32, arg unsafe.Pointer, size uint32) syscall.Errno {
		if opcode == registerBuffersUpdate && n.Add(1)%2 == 0 { // the second ring's
			return syscall.ENOMEM
		}
		return iouring.Kernel.Register(fd, opcode, arg, size)
	}
	d := openRing(t, device.Options{Rings: 2}, device.SetUp{Calls: calls})
	f := ringFile(t, d, 8)
	mem := mapped(t, 64<<10)
	for range 2 {
		n.Store(0)
		_, err := d.(device.MemoryRegistrar).RegisterMemory(mem)
		var u *device.UnsupportedError
		if !errors.As(err, &u) || !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), fmt.Sprint(2*len(mem))) {
			t.Fatalf("refused registration: %v", err)
		}
		if fixedRead(t, d, f, mem[:4096]) {
			t.Error("a fixed read of memory that is not registered")
		}
	}
	notes := 0
	for _, note := range d.Facts().Notes {
		if strings.Contains(note, "unregistered") {
			notes++
		}
	}
	if notes != 1 {
		t.Errorf("notes %q", d.Facts().Notes)
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestRefusals: what is said about each way to refuse io_uring. The real ways are
// in refused_test.go.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		call     string
		errno    syscall.Errno
		disabled string
		problem  string
		remedy   string
	}{
		{"setup", syscall.EPERM, "2", "kernel.io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0"},
		{"setup", syscall.EPERM, "0", "seccomp", "seccomp profile"},
		{"setup", syscall.EPERM, "", "seccomp", "seccomp profile"},
		{"setup", syscall.ENOSYS, "0", "older than 5.6", "seccomp profile"},
		{"setup", syscall.ENOMEM, "", "locked memory", "ulimit -l"},
		{"setup", syscall.EMFILE, "", "too many open files", "ulimit -n"},
		{"probe", syscall.EINVAL, "", "too old", "Linux 5.6"},
		{"files", syscall.EIO, "", "input/output error", "psync"},
	} {
		calls := iouring.Kernel
		calls.Setup = func(entries uint32, p *iouring.Params) (int, syscall.Errno) {
			if c.call == "setup" {
				return -1, c.errno
			}
			return iouring.Kernel.Setup(entries, p)
		}
		calls.Register = func(fd int, opcode uint32, arg unsafe.Pointer, n uint32) syscall.Errno {
			if c.call == "probe" && opcode == registerProbe || c.call == "files" && opcode == registerFiles {
				return c.errno
			}
			return iouring.Kernel.Register(fd, opcode, arg, n)
		}
		if c.call != "setup" {
			wantRing(t)
		}
		_, err := iouring.Open(iouring.Config{Entries: 8, Calls: calls})
		if c.call == "files" {
			err = &iouring.Error{Call: "files", Errno: c.errno}
		}
		problem, remedy := device.Refusal(err, c.disabled)
		if !strings.Contains(problem, c.problem) || !strings.Contains(remedy, c.remedy) || !strings.Contains(remedy, "psync") {
			t.Errorf("%s %v, disabled %q: %q; %q", c.call, c.errno, c.disabled, problem, remedy)
		}
		wantFallback(t, device.SetUp{Calls: calls}, c.errno, c.call == "probe")
	}
}

// wantFallback: auto becomes psync with one warning and one note, explicit fails
// and leaves the directory free.
func wantFallback(t *testing.T, s device.SetUp, errno syscall.Errno, old bool) {
	t.Helper()
	dir := t.TempDir()
	var log bytes.Buffer
	o := device.Options{Engine: device.EngineUring, AnyFileSystem: true, BufferedIO: true, LockWait: time.Nanosecond, Logger: textLogger(&log)}
	_, err := device.OpenDirWith(dir, o, s)
	var u *device.UnsupportedError
	if !errors.As(err, &u) || u.Problem == "" || u.Remedy == "" || !errors.Is(err, errors.ErrUnsupported) || !old && !errors.Is(err, errno) {
		t.Fatalf("explicit: %v", err)
	}
	log.Reset()
	o.Engine = device.EngineAuto
	d, err := device.OpenDirWith(dir, o, s)
	if err != nil {
		t.Fatal(err)
	}
	f := d.Facts()
	if f.Device != "psync" || !hasNote(f, u.Problem) || !hasNote(f, u.Remedy) {
		t.Errorf("auto: device %q, notes %q", f.Device, f.Notes)
	}
	if n := strings.Count(log.String(), "io_uring is not available"); n != 1 {
		t.Errorf("%d warnings in\n%s", n, log.String())
	}
	if _, ok := d.(device.MemoryRegistrar); ok {
		t.Error("a device without rings registers memory")
	}
	closeDevice(t, d)
}

// TestShortFile: a file cut behind our back ends reads on a ring as on a worker.
func TestShortFile(t *testing.T) {
	d := openRing(t, device.Options{}, device.SetUp{})
	f := ringFile(t, d, 8)
	past := &device.Op{Kind: device.Read, File: f, Offset: 6 * 4096, Bufs: [][]byte{device.AlignedBuffer(8*4096, 4096)}}
	if err := device.Do(d, past); !errors.Is(err, io.ErrUnexpectedEOF) || past.N != 2*4096 {
		t.Errorf("N = %d, %v", past.N, err)
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestRegisterHuge registers more than one buffer can be; it pins 1 GiB.
func TestRegisterHuge(t *testing.T) {
	if os.Getenv("SPILLWAY_LONG") != "1" || testing.Short() {
		t.Skip("set SPILLWAY_LONG=1 to pin more than 1 GiB")
	}
	d := openRing(t, device.Options{}, device.SetUp{})
	f := ringFile(t, d, 8)
	mem := mapped(t, iouring.BufferBytesMax+2<<20)
	release, err := d.(device.MemoryRegistrar).RegisterMemory(mem)
	if err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[int]bool{0: true, iouring.BufferBytesMax - 8192: true, iouring.BufferBytesMax - 4096: false, iouring.BufferBytesMax: true, len(mem) - 8192: true} {
		if got := fixedRead(t, d, f, mem[offset:offset+8192]); got != want {
			t.Errorf("at %d: fixed %v, want %v", offset, got, want)
		}
	}
	release()
	closeFile(t, f)
	closeDevice(t, d)
}

// TestLateReads: a read whose time has passed ends without I/O, alone and in a
// batch, on workers and on rings; what is in time is read.
func TestLateReads(t *testing.T) {
	for _, engine := range []string{device.EnginePsync, device.EngineUring, device.EngineAuto} {
		d := openRing(t, device.Options{Engine: engine, QueueDepth: 2}, device.SetUp{})
		f := ringFile(t, d, 32)
		for _, n := range []int{1, 20} {
			ops := reads(f, n, nil)
			for i, op := range ops {
				if op.Until = time.Now().Add(time.Hour); i%2 == 0 {
					op.Until = time.Now().Add(-time.Second)
				}
			}
			submitAndWait(d, ops)
			for i, op := range ops {
				if i%2 == 0 && (op.Err != device.ErrLate || op.N != 0) || i%2 == 1 && op.Err != nil {
					t.Errorf("%s, %d at once, %d: %d bytes, %v", engine, n, i, op.N, op.Err)
				}
			}
		}
		closeFile(t, f)
		closeDevice(t, d)
	}
}

// TestFileOutlivesItsDevice: a file that is closed after its device does not reach
// into the ring of another.
func TestFileOutlivesItsDevice(t *testing.T) {
	old := openRing(t, device.Options{}, device.SetUp{})
	left := ringFile(t, old, 4)
	if err := old.Close(); err == nil {
		t.Error("closed with a file open, without a word")
	}
	d := openRing(t, device.Options{}, device.SetUp{}) // takes the same numbers
	f := ringFile(t, d, 4)
	_ = left.Close()
	ops := reads(f, 8, nil)
	submitAndWait(d, ops)
	checkReads(t, ops)
	closeFile(t, f)
	closeDevice(t, d)
}

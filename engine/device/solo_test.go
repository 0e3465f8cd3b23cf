package device_test

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/devicetest"
	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// waiter submits every lone op through SubmitWaiting.
type waiter struct {
	device.Device
	device.Waiting
	patience time.Duration // negative: without bound
}

func (w *waiter) Submit(ops []*device.Op) {
	switch {
	case len(ops) != 1:
		w.Device.Submit(ops)
	case w.patience < 0:
		w.SubmitWaiting(ops[0], time.Time{})
	default:
		w.SubmitWaiting(ops[0], time.Now().Add(w.patience))
	}
}

// soloDevice opens a device with a solo ring on calls.
func soloDevice(t *testing.T, calls iouring.Calls) (device.Device, device.Waiting) {
	t.Helper()
	d := openRing(t, device.Options{Engine: device.EngineAuto, QueueOps: 500}, device.SetUp{Calls: calls})
	w, ok := d.(device.Waiting)
	if !ok {
		t.Fatalf("%T is no device.Waiting", d)
	}
	return d, w
}

// TestConformanceWaiting: the suite over lone reads that are waited for, not at
// all, a little, and to the end.
func TestConformanceWaiting(t *testing.T) {
	for what, patience := range map[string]time.Duration{"none": 0, "little": 20 * time.Microsecond, "endless": -1} {
		t.Run(what, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				d, w := soloDevice(t, iouring.Kernel)
				return &waiter{d, w, patience}
			})
		})
	}
}

// checkRingFile checks what was read of a ringFile from block first on.
func checkRingFile(t *testing.T, got []byte, first int) {
	t.Helper()
	for i, b := range got {
		if want := byte(first + i/4096); b != want {
			t.Errorf("byte %d is %d, want %d", i, b, want)
			return
		}
	}
}

// readBack reads nBytes at offset with SubmitWaiting and waits for Done.
func readBack(t *testing.T, w device.Waiting, f device.File, offset int64, nBytes int, until time.Time) []byte {
	t.Helper()
	buffer := device.AlignedBuffer(nBytes, 4096)
	ended := make(chan struct{})
	op := &device.Op{Kind: device.Read, File: f, Offset: offset, Bufs: [][]byte{buffer[:4096], buffer[4096:]},
		Done: func(*device.Op) { close(ended) }}
	w.SubmitWaiting(op, until)
	<-ended
	if op.Err != nil || op.N != nBytes || op.DoneAt.Before(op.StartedAt) {
		t.Errorf("read %d of %d bytes: %v (%v to %v)", op.N, nBytes, op.Err, op.StartedAt, op.DoneAt)
	}
	return buffer
}

// TestWaitingUnkindKernel: whatever the kernel answers to the wait, the bytes are
// right and the next read works.
func TestWaitingUnkindKernel(t *testing.T) {
	const nBytes = 3 * 4096
	take := func(fd int, submit uint32) int {
		n, errno := iouring.Kernel.Enter(fd, submit, 0, 0)
		if errno != 0 {
			t.Error(errno)
		}
		return n
	}
	for what, answer := range map[string]func(fd int, submit uint32) (int, syscall.Errno){
		"interrupted before it took the request": func(int, uint32) (int, syscall.Errno) { return 0, syscall.EINTR },
		"interrupted after it took the request":  func(fd int, n uint32) (int, syscall.Errno) { take(fd, n); return 1, syscall.EINTR },
		"took it and does not wait":              func(fd int, n uint32) (int, syscall.Errno) { return take(fd, n), syscall.EINVAL },
		"took it and said nothing":               func(fd int, n uint32) (int, syscall.Errno) { return take(fd, n), 0 },
		"short of memory":                        func(int, uint32) (int, syscall.Errno) { return 0, syscall.ENOMEM },
		"took nothing and said nothing":          func(int, uint32) (int, syscall.Errno) { return 0, 0 },
	} {
		t.Run(what, func(t *testing.T) {
			var calls atomic.Int64
			kernel := iouring.Kernel
			kernel.EnterWait = func(fd int, submit uint32, limit time.Duration) (int, syscall.Errno) {
				if calls.Add(1)%2 == 1 && submit > 0 {
					return answer(fd, submit)
				}
				return iouring.Kernel.EnterWait(fd, submit, limit)
			}
			d, w := soloDevice(t, kernel)
			f := ringFile(t, d, 64)
			for i := range 6 {
				until := time.Time{}
				if i%2 == 1 {
					until = time.Now().Add(time.Hour)
				}
				got := readBack(t, w, f, int64(i)*4096, nBytes, until)
				checkRingFile(t, got, i)
			}
			if calls.Load() < 6 {
				t.Errorf("%d waits", calls.Load())
			}
			closeFile(t, f)
			closeDevice(t, d)
		})
	}
}

// TestWaitingPastTheTime: the caller gets its goroutine back when the time has
// passed, the op stays in flight until the drive answers, others read meanwhile,
// and closing waits.
func TestWaitingPastTheTime(t *testing.T) {
	gate := make(chan struct{})
	kernel := iouring.Kernel
	kernel.EnterWait = func(fd int, submit uint32, limit time.Duration) (int, syscall.Errno) {
		if submit > 0 {
			return 1, syscall.ETIME // as of a drive that keeps the request: not sent yet
		}
		<-gate
		if n, errno := iouring.Kernel.Enter(fd, 1, 0, 0); n > 1 || errno != 0 {
			t.Errorf("%d, %v", n, errno)
		}
		return iouring.Kernel.EnterWait(fd, 0, limit)
	}
	d, w := soloDevice(t, kernel)
	f := ringFile(t, d, 64)
	buffer, ended := device.AlignedBuffer(4096, 4096), make(chan struct{})
	var times atomic.Int64
	slow := &device.Op{Kind: device.Read, File: f, Offset: 8192, Bufs: [][]byte{buffer}, Done: func(*device.Op) {
		times.Add(1)
		close(ended)
	}}
	w.SubmitWaiting(slow, time.Now().Add(-time.Second))
	if times.Load() != 0 {
		t.Error("Done without a completion")
	}
	checkRingFile(t, readBack(t, w, f, 5*4096, 8192, time.Time{}), 5)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closeFile(t, f)
		closeDevice(t, d)
	}()
	select {
	case <-closed:
		t.Error("closed with an op in flight")
	case <-time.After(10 * time.Millisecond):
	}
	close(gate)
	<-ended
	<-closed
	if slow.Err != nil || times.Load() != 1 {
		t.Errorf("%v, Done called %d times", slow.Err, times.Load())
	}
	checkRingFile(t, buffer, 2)
}

// TestWaitingRefusedForGood: a kernel that will never wait is asked once.
func TestWaitingRefusedForGood(t *testing.T) {
	var calls atomic.Int64
	kernel := iouring.Kernel
	kernel.EnterWait = func(int, uint32, time.Duration) (int, syscall.Errno) {
		calls.Add(1)
		return 0, syscall.EPERM
	}
	d, w := soloDevice(t, kernel)
	f := ringFile(t, d, 64)
	for i := range 5 {
		checkRingFile(t, readBack(t, w, f, int64(i)*4096, 8192, time.Time{}), i)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestWaitingThreadEnds: the thread that has sent a read ends while it is in
// flight. The read comes to its end all the same.
func TestWaitingThreadEnds(t *testing.T) {
	d, w := soloDevice(t, iouring.Kernel)
	f := ringFile(t, d, 64)
	for i := range 40 {
		buffer, ended := device.AlignedBuffer(16*4096, 4096), make(chan struct{})
		op := &device.Op{Kind: device.Read, File: f, Offset: int64(i) * 4096, Bufs: [][]byte{buffer}, Done: func(*device.Op) { close(ended) }}
		go func() {
			runtime.LockOSThread() // and end without unlocking: the thread ends too
			w.SubmitWaiting(op, time.Now())
		}()
		<-ended
		if op.Err != nil {
			t.Fatal(op.Err)
		}
		checkRingFile(t, buffer, i)
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestWaitingOldKernel: without a wait that has a limit, reads go the usual ways.
func TestWaitingOldKernel(t *testing.T) {
	kernel := iouring.Kernel
	kernel.Setup = func(entries uint32, p *iouring.Params) (int, syscall.Errno) {
		fd, errno := iouring.Kernel.Setup(entries, p)
		p.Features &^= 1 << 8 // IORING_FEAT_EXT_ARG
		return fd, errno
	}
	kernel.EnterWait = func(int, uint32, time.Duration) (int, syscall.Errno) {
		t.Error("called")
		return 0, syscall.EINVAL
	}
	d, w := soloDevice(t, kernel)
	f := ringFile(t, d, 64)
	checkRingFile(t, readBack(t, w, f, 4096, 8192, time.Time{}), 1)
	closeFile(t, f)
	closeDevice(t, d)
}

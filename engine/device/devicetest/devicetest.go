// Package devicetest holds the one suite that every device.Device passes.
//
// Beyond the words of package device it fixes these points:
//   - A name that is empty, ".", ".." or holds a slash matches fs.ErrInvalid.
//   - A new file reads as zeros, and a Write or Punch that would reach past
//     SizeBytes is a bad argument (ErrUnaligned): files never grow.
//   - Refused ops have N == 0 and touch neither memory nor file.
//   - An op has left the queue when its Done is called: a caller that keeps
//     exactly Facts.QueueOps ops going and submits each again from its Done
//     never meets ErrQueueFull.
//   - File.Close and Device.Close return only after the Done functions of the
//     ops they waited for have returned. (So Done must not call them.)
//   - Device.Close with a file still open may return an error, but waits for its
//     ops and closes the device all the same.
//   - Ops on a closed file match ErrClosed or os.ErrClosed.
package devicetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
)

// Run puts the devices that open returns through the whole suite. Each call of
// open must give a new, empty device with default behaviour (no faults), room
// for 64 MiB, and at least 8 Facts.QueueOps; the suite closes it. The number
// of Done functions that the device runs at once must stay below
// Facts.QueueOps + 1024. Nothing here needs the wall clock, so virtual time is
// as good as real time.
func Run(t *testing.T, open func(t *testing.T) device.Device) {
	for _, c := range []struct {
		name string
		run  func(*rig)
	}{
		{"Facts", testFacts},
		{"Names", testNames},
		{"BadNames", testBadNames},
		{"ExactSize", testExactSize},
		{"RemovedFileStaysUsable", testRemovedFile},
		{"ReplacedFileStaysUsable", testReplacedFile},
		{"WriteFile", testWriteFile},
		{"WriteFileIsAtomic", testWriteFileAtomic},
		{"Attr", testAttr},
		{"RoundTrip", testRoundTrip},
		{"Vectored", testVectored},
		{"ManyPieces", testManyPieces},
		{"EndOfFile", testEndOfFile},
		{"Unaligned", testUnaligned},
		{"PastTheEnd", testPastTheEnd},
		{"Punch", testPunch},
		{"Sync", testSync},
		{"Batch", testBatch},
		{"Overflow", testOverflow},
		{"SubmitFromDone", testSubmitFromDone},
		{"Concurrent", testConcurrent},
		{"UntouchedAfterDone", testUntouchedAfterDone},
		{"FileCloseWaits", testFileCloseWaits},
		{"DeviceCloseWaits", testDeviceCloseWaits},
		{"Closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, open(t))
			c.run(r)
			r.finish()
		})
	}
}

// rig is one device under test, with a count of Done calls for every op.
type rig struct {
	*testing.T
	d      device.Device
	facts  device.Facts
	unit   int // a length and address step that suits files and memory
	rnd    *rand.Rand
	closed bool

	mu    sync.Mutex
	calls []*atomic.Int32
}

func newRig(t *testing.T, d device.Device) *rig {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	seed := h.Sum64()
	t.Logf("seed %#x", seed)
	f := d.Facts()
	r := &rig{T: t, d: d, facts: f, unit: max(f.MemAlignBytes, f.OffsetAlignBytes, 512), rnd: rand.New(rand.NewPCG(seed, 0))}
	t.Cleanup(r.closeDevice) // when a test stops early
	return r
}

// finish closes the device; no Done may have run twice or not at all.
func (r *rig) finish() {
	r.Helper()
	r.closeDevice()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, calls := range r.calls {
		if n := calls.Load(); n != 1 {
			r.Fatalf("Done of op %d was called %d times", i, n)
		}
	}
}

func (r *rig) closeDevice() {
	if r.closed {
		return
	}
	r.closed = true
	if err := r.d.Close(); err != nil {
		r.Errorf("Device.Close: %v", err)
	}
}

// counted sets op.Done to count its calls and then run done (may be nil).
func (r *rig) counted(op *device.Op, done func(*device.Op)) *device.Op {
	calls := new(atomic.Int32)
	r.mu.Lock()
	r.calls = append(r.calls, calls)
	r.mu.Unlock()
	op.Done = func(got *device.Op) {
		calls.Add(1)
		if got != op {
			r.Errorf("Done was called with another op")
		}
		if done != nil {
			done(got)
		}
	}
	return op
}

// do runs ops as one batch and waits for all of them.
func (r *rig) do(ops ...*device.Op) {
	r.Helper()
	var wg sync.WaitGroup
	for _, op := range ops {
		wg.Add(1)
		r.counted(op, func(*device.Op) { wg.Done() })
	}
	r.d.Submit(ops)
	wg.Wait()
}

// mustDo is do for ops that have to succeed whole.
func (r *rig) mustDo(ops ...*device.Op) {
	r.Helper()
	r.do(ops...)
	for i, op := range ops {
		r.checkWhole(i, op)
	}
}

func (r *rig) checkWhole(i int, op *device.Op) {
	r.Helper()
	want := 0
	if op.Kind == device.Read || op.Kind == device.Write {
		want = totalBytes(op.Bufs)
	}
	if op.Err != nil || op.N != want {
		r.Errorf("op %d, kind %d at %d: N = %d of %d, err %v", i, op.Kind, op.Offset, op.N, want, op.Err)
	}
	if op.StartedAt.IsZero() || op.DoneAt.Before(op.StartedAt) {
		r.Errorf("op %d ran from %v to %v", i, op.StartedAt, op.DoneAt)
	}
}

// create makes a file of units*unit bytes; the test closes it with closeFile.
func (r *rig) create(name string, units int) device.File {
	r.Helper()
	f, err := r.d.Create(name, int64(units*r.unit))
	if err != nil {
		r.Fatalf("Create(%q): %v", name, err)
	}
	return f
}

func (r *rig) open(name string) device.File {
	r.Helper()
	f, err := r.d.Open(name)
	if err != nil {
		r.Fatalf("Open(%q): %v", name, err)
	}
	return f
}

func (r *rig) closeFile(f device.File) {
	r.Helper()
	if err := f.Close(); err != nil {
		r.Errorf("File.Close(%q): %v", f.Name(), err)
	}
}

// must ends the test on an error.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// wantIs reports an error that does not match target.
func (r *rig) wantIs(what string, err, target error) {
	r.Helper()
	if !errors.Is(err, target) {
		r.Errorf("%s: got %v, want a match of %v", what, err, target)
	}
}

func (r *rig) buffer(nBytes int) []byte { return device.AlignedBuffer(nBytes, r.unit) }

// filled is a buffer of nBytes that holds the pattern of offset.
func (r *rig) filled(nBytes int, offset int64, version uint64) []byte {
	b := r.buffer(nBytes)
	fill(b, offset, version)
	return b
}

func read(f device.File, offset int64, bufs ...[]byte) *device.Op {
	return &device.Op{Kind: device.Read, File: f, Offset: offset, Bufs: bufs}
}

func write(f device.File, offset int64, bufs ...[]byte) *device.Op {
	return &device.Op{Kind: device.Write, File: f, Offset: offset, Bufs: bufs}
}

func totalBytes(bufs [][]byte) int {
	n := 0
	for _, b := range bufs {
		n += len(b)
	}
	return n
}

// word is what the eight bytes at offset hold in a file of this version.
func word(offset int64, version uint64) uint64 {
	x := uint64(offset)*0x9e3779b97f4a7c15 + version*0xd1342543de82ef95
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// fill writes the pattern of the bytes from offset on; both are multiples of 8.
func fill(b []byte, offset int64, version uint64) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word(offset+int64(i), version))
	}
}

// differsAt is the index of the first word of b that is not the pattern, or -1.
func differsAt(b []byte, offset int64, version uint64) int {
	for i := 0; i+8 <= len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:]) != word(offset+int64(i), version) {
			return i
		}
	}
	return -1
}

// notAll is the index of the first byte of b that is not value, or -1.
func notAll(b []byte, value byte) int {
	if bytes.Count(b, []byte{value}) == len(b) {
		return -1
	}
	return slices.IndexFunc(b, func(have byte) bool { return have != value })
}

func set(b []byte, value byte) {
	if len(b) == 0 {
		return
	}
	b[0] = value
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

package devicetest

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/engine/device"
)

// testBatch: more ops in one Submit than any queue depth.
func testBatch(r *rig) {
	n := min(300, r.facts.QueueOps)
	f := r.create("f", n)
	defer r.closeFile(f)
	order := r.rnd.Perm(n)
	var writes, reads []*device.Op
	for _, at := range order {
		offset := int64(at * r.unit)
		writes = append(writes, write(f, offset, r.filled(r.unit, offset, 1)))
	}
	r.mustDo(writes...)
	var dst []*guarded
	for _, at := range order {
		dst = append(dst, r.guardedPieces(1))
		reads = append(reads, read(f, int64(at*r.unit), dst[len(dst)-1].pieces...))
	}
	r.mustDo(reads...)
	for i, at := range order {
		dst[i].check(r, "batch", int64(at*r.unit), 1)
	}
	r.d.Submit(nil) // an empty batch is nothing
}

// testOverflow holds every Done back, so that the queue has to fill.
func testOverflow(r *rig) {
	f := r.create("f", 1)
	r.mustDo(write(f, 0, r.filled(r.unit, 0, 1)))
	const runningMax = 1024 // Done functions the device may run at once
	n := r.facts.QueueOps*2 + runningMax
	gate := make(chan struct{})
	var all sync.WaitGroup
	var refused, done atomic.Int64
	ops := make([]*device.Op, n)
	for i := range ops {
		all.Add(1)
		dst := r.buffer(r.unit)
		set(dst, guard)
		ops[i] = r.counted(read(f, 0, dst), func(op *device.Op) {
			defer all.Done()
			if errors.Is(op.Err, device.ErrQueueFull) {
				refused.Add(1)
				return
			}
			<-gate
			done.Add(1)
		})
	}
	r.d.Submit(ops)
	atReturn := refused.Load()
	close(gate)
	all.Wait()
	if atReturn == 0 {
		r.Errorf("none of %d ops was refused by a queue of %d", n, r.facts.QueueOps)
	}
	if atReturn != refused.Load() {
		r.Errorf("%d ops were refused after Submit had returned", refused.Load()-atReturn)
	}
	if done.Load() < int64(r.facts.QueueOps) {
		r.Errorf("only %d ops were accepted by a queue of %d", done.Load(), r.facts.QueueOps)
	}
	for i, op := range ops {
		if op.Err == nil {
			if at := differsAt(op.Bufs[0], 0, 1); at >= 0 || op.N != r.unit {
				r.Errorf("op %d: N = %d, differs at %d", i, op.N, at)
			}
		} else if !errors.Is(op.Err, device.ErrQueueFull) || op.N != 0 || notAll(op.Bufs[0], guard) >= 0 {
			r.Errorf("refused op %d: N = %d, err %v, first changed byte %d", i, op.N, op.Err, notAll(op.Bufs[0], guard))
		}
	}
	r.mustDo(read(f, 0, r.buffer(r.unit))) // and the queue works again
	r.closeFile(f)
}

// testSubmitFromDone keeps QueueOps ops going, each submitted again by its Done.
func testSubmitFromDone(r *rig) {
	f := r.create("f", 1)
	defer r.closeFile(f)
	r.mustDo(write(f, 0, r.filled(r.unit, 0, 1)))
	const rounds, probeBytes = 4, 64 // the start of each block is enough here
	var all sync.WaitGroup
	var failed atomic.Int64
	ops := make([]*device.Op, r.facts.QueueOps)
	for i := range ops {
		all.Add(1)
		op := read(f, 0, r.buffer(r.unit))
		left := rounds
		op.Done = func(op *device.Op) {
			if op.Err != nil || differsAt(op.Bufs[0][:probeBytes], 0, 1) >= 0 {
				failed.Add(1)
			}
			if left--; left == 0 {
				all.Done()
				return
			}
			set(op.Bufs[0][:probeBytes], guard)
			r.d.Submit([]*device.Op{op})
		}
		ops[i] = op
	}
	r.d.Submit(ops)
	all.Wait()
	if failed.Load() != 0 {
		r.Errorf("%d of %d ops failed", failed.Load(), rounds*len(ops))
	}
}

// testConcurrent: many goroutines write and read their own parts of two files.
func testConcurrent(r *rig) {
	const goroutines, unitsEach, rounds = 8, 24, 20
	files := []device.File{r.create("f", goroutines*unitsEach), r.create("g", goroutines*unitsEach)}
	seed := r.rnd.Uint64()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() { r.writeAndRead(files, int64(g*unitsEach), unitsEach, rounds, seed+uint64(g)) })
	}
	wg.Wait()
	for _, f := range files {
		r.closeFile(f)
	}
}

func (r *rig) writeAndRead(files []device.File, first int64, units, rounds int, seed uint64) {
	version := seed << 8
	for round := range rounds {
		version++
		f := files[round%len(files)]
		offset := (first + int64(round%3)) * int64(r.unit)
		n := units - 3 - round%5
		src := r.guardedPieces(1+n%3, n)
		src.fill(offset, version)
		if totalBytes(src.pieces) > units*r.unit-int(offset-first*int64(r.unit)) {
			src.pieces = src.pieces[:1]
		}
		r.mustDo(write(f, offset, src.pieces...))
		dst := r.guardedPieces(totalBytes(src.pieces) / r.unit)
		r.mustDo(read(f, offset, dst.pieces...))
		dst.check(r, "concurrent", offset, version)
		if why := src.broken(); why != "" {
			r.Errorf("source of a write: %s", why)
		}
	}
}

// testUntouchedAfterDone: the memory is the caller's again when Done is called.
func testUntouchedAfterDone(r *rig) {
	n := min(128, r.facts.QueueOps)
	f := r.create("f", n)
	r.mustDo(write(f, 0, r.filled(n*r.unit, 0, 1)))
	ops := make([]*device.Op, n)
	var all sync.WaitGroup
	for i := range ops {
		all.Add(1)
		ops[i] = r.counted(read(f, int64(i*r.unit), r.buffer(r.unit)), func(op *device.Op) {
			defer all.Done()
			if at := differsAt(op.Bufs[0], op.Offset, 1); at >= 0 {
				r.Errorf("in Done: differs at %d", at)
			}
			set(op.Bufs[0], guard)
		})
	}
	r.d.Submit(ops)
	all.Wait()
	r.closeFile(f)
	r.closeDevice()
	for i, op := range ops {
		if at := notAll(op.Bufs[0], guard); at >= 0 {
			r.Errorf("op %d: byte %d was written after Done", i, at)
		}
		if op.N != r.unit || op.Err != nil {
			r.Errorf("op %d: N = %d, err %v after Done", i, op.N, op.Err)
		}
	}
}

// gatedReads submits n reads of f's first unit whose Done functions wait for
// the gate, and returns the number of those that have ended.
func (r *rig) gatedReads(f device.File, n int, gate chan struct{}) *atomic.Int64 {
	ended := new(atomic.Int64)
	ops := make([]*device.Op, n)
	for i := range ops {
		ops[i] = r.counted(read(f, 0, r.buffer(r.unit)), func(op *device.Op) {
			if op.Err != nil || op.N != r.unit {
				r.Errorf("op in flight at Close: N = %d, err %v", op.N, op.Err)
			}
			<-gate
			ended.Add(1)
		})
	}
	r.d.Submit(ops)
	return ended
}

// closeAgainst runs closing while n gated ops are in flight, lets them go, and
// checks that closing outlasted them.
func (r *rig) closeAgainst(n int, gate chan struct{}, ended *atomic.Int64, closing func() error) {
	r.Helper()
	type result struct {
		err   error
		ended int64
	}
	closed := make(chan result, 1)
	go func() {
		err := closing()
		closed <- result{err, ended.Load()}
	}()
	for range 1000 { // a chance for a wrong Close to return early
		runtime.Gosched()
	}
	select {
	case <-closed:
		r.Errorf("Close returned with ops in flight")
		close(gate)
	default:
		close(gate)
		got := <-closed
		if got.err != nil || got.ended != int64(n) {
			r.Errorf("Close returned %v after %d of %d ops", got.err, got.ended, n)
		}
	}
}

func testFileCloseWaits(r *rig) {
	f, other := r.create("f", 1), r.create("other", 1)
	n := min(100, r.facts.QueueOps)
	gate := make(chan struct{})
	ended := r.gatedReads(f, n, gate)
	r.closeAgainst(n, gate, ended, f.Close)
	r.mustDo(read(other, 0, r.buffer(r.unit))) // other files are not concerned
	r.closeFile(other)
}

func testDeviceCloseWaits(r *rig) {
	// The file is left open, against the rule, to see Device.Close itself wait.
	f := r.create("f", 1)
	n := min(100, r.facts.QueueOps)
	gate := make(chan struct{})
	ended := r.gatedReads(f, n, gate)
	r.closed = true
	r.closeAgainst(n, gate, ended, func() error {
		_ = r.d.Close() // may object to the open file
		return nil
	})
	late := read(f, 0, r.buffer(r.unit))
	r.do(late)
	r.wantIs("Submit on a closed device, to an open file", late.Err, device.ErrClosed)
	_ = f.Close()
}

func testClosed(r *rig) {
	closedFile, f := r.create("closed", 1), r.create("f", 1)
	r.closeFile(closedFile)
	ops := []*device.Op{
		read(closedFile, 0, r.buffer(r.unit)),
		write(closedFile, 0, r.buffer(r.unit)),
		{Kind: device.Sync, File: closedFile},
		{Kind: device.Punch, File: closedFile, LengthBytes: int64(r.unit)},
	}
	r.do(ops...)
	for _, op := range ops {
		if op.N != 0 || !(errors.Is(op.Err, device.ErrClosed) || errors.Is(op.Err, os.ErrClosed)) {
			r.Errorf("kind %d on a closed file: N = %d, err %v", op.Kind, op.N, op.Err)
		}
	}
	r.mustDo(read(f, 0, r.buffer(r.unit)))
	r.closeFile(f)
	r.closeDevice()

	dst := r.buffer(r.unit)
	set(dst, guard)
	op := read(f, 0, dst)
	ended := false
	r.d.Submit([]*device.Op{r.counted(op, func(*device.Op) { ended = true })})
	if !ended {
		r.Errorf("Submit on a closed device returned before Done")
	}
	r.wantIs("Submit after Close", op.Err, device.ErrClosed)
	if op.N != 0 || notAll(dst, guard) >= 0 {
		r.Errorf("after Close an op moved %d bytes", op.N)
	}
	if _, err := r.d.Create("late", 0); err == nil {
		r.Errorf("Create works on a closed device")
	}
}

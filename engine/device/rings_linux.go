package device

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

const (
	// filePlaces is the size of a ring's table of files. Files beyond it are
	// named by their descriptors, which costs a look-up for each request.
	filePlaces = 1024
	// The first places hold the two descriptors of the directory's lock.
	lockPlaces = 2

	// loneBytes is up to which size EngineAuto gives a read or write, when nothing
	// else is in flight, to a worker. BenchmarkEngines, median time on a ring over
	// that on a worker, 15 rounds on a virtual drive: reads of 4 KiB 1.18 (range
	// 1.10-1.28), 64 KiB 1.05 (0.98-1.69), 1 MiB 1.08 (1.02-1.16); writes of 4 KiB
	// 1.10 (1.00-1.54), 64 KiB 0.99 (0.85-1.44). In batches the ring wins at every
	// size: 4 KiB 0.33, 64 KiB 0.75, 1 MiB 0.96. Large lone ones stay on the ring
	// for its registered memory, which saves processor time. (A read whose caller
	// waits for it goes to neither, see newSolo.)
	loneBytes = 64 << 10
)

// ringFlags are tried together, then without the last, and so on. Flags that
// want all calls to come from one thread (single_issuer, defer_taskrun) do not
// fit goroutines (one thread that submits for all costs a wake-up an op: 0.6 to
// 0.7 of the IOPS at 4 and 64 KiB); with coop_taskrun a thread that is busy hashing would keep the
// completions of its requests back; polling threads burn a core.
var ringFlags = []uint32{iouring.SetupClamp, iouring.SetupSubmitAll}

// ringSetup is what tests change about rings.
type ringSetup struct {
	calls    iouring.Calls
	entries  uint32 // of the submission queue; 0 for the depth
	bytesMax int    // of one request; 0 for the default
	nop      bool   // for the null device
}

var realRings = ringSetup{calls: iouring.Kernel}

// rings are the io_urings of a psync device. A nil *rings stands for none.
//
// The kernel keeps every file in a ring's table open until the last request of
// that ring has ended, even when the process is gone; its writes may land
// seconds after a kill. The directory's lock is in the table too, so nobody can
// open the directory before that.
type rings struct {
	d      *psync
	all    []*ring
	memory *memory // nil where buffers cannot be registered
	auto   bool    // lone small transfers go to the workers

	next atomic.Uint32 // round robin

	mu         sync.Mutex
	freePlaces []int
	closed     bool // the rings' numbers may be another device's by now
}

// openRings adds rings to a device that is open otherwise. Where io_uring is
// refused, EngineAuto goes on without and says so, once.
func (d *psync) openRings(setup ringSetup) error {
	if d.options.Engine == EnginePsync {
		return nil
	}
	if setup.bytesMax == 0 {
		setup.bytesMax = callBytesMax
	}
	rs, err := newRings(d, setup)
	if err == nil {
		d.rings = rs
		d.solo = newSolo(d, setup)
		d.facts.Device = EngineUring
		return nil
	}
	problem, remedy := refusal(err, uringDisabled())
	if d.options.Engine == EngineUring {
		return &UnsupportedError{Dir: d.dir, FileSystem: d.facts.FileSystem, Problem: problem, Remedy: remedy, Cause: err}
	}
	d.note(problem + ", using psync; " + remedy)
	d.options.Logger.Warn("io_uring is not available, using psync", "dir", d.dir, "problem", problem, "remedy", remedy)
	return nil
}

func newRings(d *psync, setup ringSetup) (_ *rings, err error) {
	rs := &rings{d: d, auto: d.options.Engine == EngineAuto}
	var kernel []*iouring.Ring
	defer func() {
		if err != nil {
			for _, k := range kernel {
				_ = k.UnregisterFiles() // the lock; there may be no table yet
				k.Close()
			}
		}
	}()
	depth := (d.options.QueueDepth + d.options.Rings - 1) / d.options.Rings
	if setup.entries == 0 {
		setup.entries = uint32(depth)
	}
	for range d.options.Rings {
		k, err := iouring.Open(iouring.Config{Entries: setup.entries, Flags: ringFlags, Calls: setup.calls})
		if err != nil {
			return nil, err
		}
		kernel = append(kernel, k)
		if setup.nop {
			continue
		}
		if err := d.registerLock(k); err != nil {
			return nil, err
		}
	}
	for place := filePlaces - 1; place >= lockPlaces; place-- {
		rs.freePlaces = append(rs.freePlaces, place)
	}
	var noBuffers error
	rs.memory, noBuffers = newMemory(kernel)
	d.noteRings(kernel[0], noBuffers)
	for _, k := range kernel {
		r := newRing(k, d, depth, setup)
		r.memory = rs.memory
		rs.all = append(rs.all, r)
	}
	return rs, nil
}

// registerLock makes the table of files and gives the directory's lock to the
// ring, so that it outlives the process for as long as writes do. A medium has none.
func (d *psync) registerLock(k *iouring.Ring) error {
	if err := k.RegisterFiles(filePlaces); err != nil || d.medium {
		return err
	}
	if err := k.SetFile(0, int(d.lock.Fd())); err != nil {
		return err
	}
	return k.SetFile(1, int(d.handle.Fd()))
}

// noteRings says what stuck.
func (d *psync) noteRings(k *iouring.Ring, noBuffers error) {
	entries, _ := k.Entries()
	buffers := "buffers can be registered"
	if noBuffers != nil {
		buffers = fmt.Sprintf("buffers cannot be registered (%v)", noBuffers)
	}
	d.note(fmt.Sprintf("io_uring: rings: %d, entries: %d, flags: %s; files are registered, %s",
		d.options.Rings, entries, iouring.FlagNames(k.Flags()), buffers))
}

// suits decides between a ring and the workers. alone says that op was submitted
// alone with nothing else in flight.
func (rs *rings) suits(op *Op, alone bool) bool {
	if rs == nil {
		return false
	}
	switch op.Kind {
	case Sync:
		return true
	case Punch:
		return rs.d.punch && op.LengthBytes > 0
	}
	n := op.bytes()
	return n > 0 && !(rs.auto && alone && n <= loneBytes)
}

// submit gives ops to one ring after the other. A batch of more ops than a ring
// takes at once is spread over all.
func (rs *rings) submit(ops *fifo) {
	first := int(rs.next.Add(1))
	if len(rs.all) == 1 {
		rs.all[0].submit(ops)
		return
	}
	shares := make([]fifo, len(rs.all))
	depth := rs.all[0].depth
	for i := 0; ; i++ {
		op := ops.pop()
		if op == nil {
			break
		}
		shares[(i/depth)%len(shares)].push(op)
	}
	for i := range shares {
		if shares[i].head != nil {
			rs.all[(first+i)%len(rs.all)].submit(&shares[i])
		}
	}
}

// addFile puts a new file into the tables; without a free place, or if the
// kernel refuses, it is named by its descriptor.
func (rs *rings) addFile(f *file) {
	if rs == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed || len(rs.freePlaces) == 0 {
		return
	}
	last := len(rs.freePlaces) - 1
	place := rs.freePlaces[last]
	rs.freePlaces = rs.freePlaces[:last]
	for _, r := range rs.all {
		if r.k.SetFile(place, f.fd) != nil {
			rs.emptyPlaceLocked(place)
			return
		}
	}
	f.place = place
}

// dropFile takes a file without ops in flight out of the tables.
func (rs *rings) dropFile(f *file) {
	if rs == nil || f.place == 0 {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !rs.closed {
		rs.emptyPlaceLocked(f.place)
	}
	f.place = 0
}

// emptyPlaceLocked: a place that cannot be emptied is not used again.
func (rs *rings) emptyPlaceLocked(place int) {
	emptied := true
	for _, r := range rs.all {
		emptied = r.k.SetFile(place, -1) == nil && emptied
	}
	if emptied {
		rs.freePlaces = append(rs.freePlaces, place)
	}
}

// close gives everything back at once; closing a ring alone would do it at some
// later time. No op is in flight.
func (rs *rings) close() {
	if rs == nil {
		return
	}
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.memory.close()
	for _, r := range rs.all {
		_ = r.k.UnregisterFiles() // closing the ring does the same, later
		r.close()
	}
}

// endedOnRing implements ringHost.
func (d *psync) endedOnRing(ended []ending) {
	d.mu.Lock()
	d.leaveLocked(len(ended))
	d.mu.Unlock()
	for _, e := range ended {
		e.op.Done(e.op) // the op is the caller's again
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range ended {
		e.file.letGoLocked()
	}
}

// toWorkers implements ringHost.
func (d *psync) toWorkers(ops *fifo) {
	if ops.head == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.take(ops)
	d.work.Broadcast()
}

package engine

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/fault"
	"github.com/spillway-kv/spillway/engine/frame"
	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
)

// Who may write the item of a transfer. A transfer starts pending; whoever
// moves it on with a compare-and-swap owns the answer.
const (
	answerPending  = 0
	answerSettling = 1 // the completion is writing the answer
	answerGiven    = 2
	answerLate     = 3 // the caller has answered Late
)

// lateSlack is how long after its deadline a read may still begin: by then the
// caller has answered Late.
const lateSlack = 2 * time.Millisecond

// readOp reads one block for one item. It is direct when the drive writes
// straight into the caller's memory, and framed otherwise: then the bytes
// arrive in a private frame and are copied by whoever wins the answer.
type readOp struct {
	op device.Op
	transfer
	batch *readBatch
	index int // of the item

	// What was true under Store.mu when the slot was pinned.
	ref      table.Ref
	place    Place
	position uint64
	checksum uint64
	id       table.ID
	file     device.File
	offset   int64

	direct    bool
	frame     *frame.Frame
	bufs      [1][]byte // backs op.Bufs for a frame, or for a destination in one piece
	answer    atomic.Uint32
	followers []*readOp // joined this framed read; guarded by Store.mu
	submitted bool      // owned by the caller's goroutine
}

// readBatch is one Get.
type readBatch struct {
	s       *Store
	ns      *Namespace
	items   []GetItem
	opts    GetOptions
	reads   []readOp
	pending atomic.Int64 // reads without an answer
	done    chan struct{}
}

// settle gives the answer of one read if the caller has not given it already;
// fill (may be nil) is called before, while the destination is still wanted.
func (r *readOp) settle(status Status, cause error, fill func(dst [][]byte)) {
	if !r.answer.CompareAndSwap(answerPending, answerSettling) {
		if planted.Active(planted.TouchAfterLate) && fill != nil {
			fill(r.batch.items[r.index].Dst)
		}
		if r.direct && r.batch.opts.Released != nil {
			r.batch.opts.Released(r.index)
		}
		return
	}
	it := &r.batch.items[r.index]
	if fill != nil {
		if err := fault.Guard(func() { fill(it.Dst) }); err != nil {
			status, cause = Miss, err
		}
	}
	it.Status, it.Err, it.StartedAt = status, cause, r.op.StartedAt
	r.answer.Store(answerGiven)
	r.batch.answered()
}

func (b *readBatch) answered() {
	if b.pending.Add(-1) == 0 {
		close(b.done)
	}
}

// prepare fills in the transfer.
func (r *readOp) prepare(blockBytes int) {
	r.op = device.Op{Kind: device.Read, File: r.file, Offset: r.offset, Done: func(*device.Op) { r.complete() }}
	if r.frame == nil {
		if until := r.batch.opts.Deadline; !until.IsZero() { // nobody else waits for it
			r.op.Until = until.Add(lateSlack)
		}
		// A copy: after Late the list is the caller's again, only the memory is not.
		r.op.Bufs = append(r.bufs[:0], r.batch.items[r.index].Dst...)
		return
	}
	align := int64(r.batch.s.facts.OffsetAlignBytes)
	r.bufs[0] = r.frame.Bytes()[:roundUp(int64(blockBytes), align)]
	r.op.Bufs = r.bufs[:]
}

// complete is called once per transfer, on a goroutine of the device.
func (r *readOp) complete() {
	s := r.batch.s
	if r.op.Err != nil {
		r.failed(r.op.Err)
		return
	}
	if r.frame == nil {
		if r.answer.Load() == answerLate {
			r.finish(Miss, nil, nil)
			return
		}
		var sum uint64
		switch err := fault.Guard(func() { sum = checksum(r.id, r.op.Bufs) }); {
		case err != nil:
			r.finish(Miss, err, nil)
		case sum == r.checksum || planted.Active(planted.SkipVerify):
			r.finish(Hit, nil, nil)
		default:
			r.proveInFrame()
		}
		return
	}
	block := r.bufs[0][:r.batch.ns.descriptor.BlockBytes]
	if planted.Active(planted.SkipVerify) || checksum(r.id, [][]byte{block}) == r.checksum {
		r.finish(Hit, nil, func(dst [][]byte) { scatter(dst, block, len(r.bufs[0])-len(block)) })
		return
	}
	s.mismatch(r, fmt.Errorf("%w: block at %v fails its checksum", ErrCorrupt, r.place))
}

// proveInFrame reads again into private memory: the caller's memory may have
// been changed by its owner, and what is wrong there proves nothing.
func (r *readOp) proveInFrame() {
	s := r.batch.s
	blockBytes := r.batch.ns.descriptor.BlockBytes
	r.frame = s.frames.TryGet(int(roundUp(int64(blockBytes), int64(s.facts.OffsetAlignBytes))))
	if r.frame == nil {
		r.finish(Miss, errors.New("no frame to prove the block in"), nil)
		return
	}
	r.prepare(blockBytes)
	s.dev.Submit([]*device.Op{&r.op})
}

// failed ends a transfer that the device could not do.
func (r *readOp) failed(cause error) {
	s := r.batch.s
	switch {
	case errors.Is(cause, device.ErrQueueFull):
		r.finish(Busy, cause, nil)
	case device.NotTheDrive(cause):
		r.finish(Miss, cause, nil)
	case errors.Is(cause, io.ErrUnexpectedEOF):
		s.mismatch(r, fmt.Errorf("%w: %v lies beyond the end of its file", ErrCorrupt, r.place))
	default:
		s.readError(r, cause)
	}
}

// finish unpins the slot, answers the item and those that joined it, and gives
// the frame back.
func (r *readOp) finish(status Status, cause error, fill func(dst [][]byte)) {
	s := r.batch.s
	s.mu.Lock()
	s.endLocked(&r.transfer, &r.op)
	followers := r.followers
	r.followers = nil
	if s.inflight[r.ref] == r {
		delete(s.inflight, r.ref)
	}
	s.unpinLocked(r.ref, r.place, r.position)
	s.wakeWaitingLocked()
	s.mu.Unlock()
	if len(followers) == 0 {
		r.settle(status, cause, fill)
		r.letGo()
		return
	}
	if r.direct { // only with the planted fault
		own := r.batch.items[r.index].Dst
		fill = func(dst [][]byte) { scatter(dst, gather(own), 0) }
		r.settle(status, cause, nil)
		time.Sleep(time.Microsecond) // the first reader's memory is its own again
	} else {
		r.settle(status, cause, fill)
	}
	// Any number of copies: neither the first reader, whose goroutine this may be,
	// nor the completions of others wait for them.
	go func() {
		for _, f := range followers {
			f.settle(status, cause, fill)
			s.calls.Done()
		}
		r.letGo()
	}()
}

// letGo gives the frame back and ends the read.
func (r *readOp) letGo() {
	s := r.batch.s
	if r.frame != nil {
		r.frame.Release()
		r.frame = nil
		s.mu.Lock()
		s.wakeWaitingLocked()
		s.mu.Unlock()
	}
	s.calls.Done()
}

// scatter copies block over the pieces. padBytes is how far the frame went on
// behind the block.
func scatter(dst [][]byte, block []byte, padBytes int) {
	for i, d := range dst {
		if planted.Active(planted.PadShortRead) && i == len(dst)-1 {
			clear(d[len(d):min(cap(d), len(d)+padBytes)])
		}
		block = block[copy(d, block):]
	}
}

func gather(pieces [][]byte) []byte {
	var all []byte
	for _, p := range pieces {
		all = append(all, p...)
	}
	return all
}

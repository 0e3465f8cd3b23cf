package device

import "time"

// turns are two queues: what goes first, and the rest.
type turns struct{ first, rest fifo }

func (t *turns) push(op *Op) {
	if op.GoesFirst() {
		t.first.push(op)
	} else {
		t.rest.push(op)
	}
}

// take moves all of ops to the ends of the queues.
func (t *turns) take(ops *fifo) {
	for op := ops.pop(); op != nil; op = ops.pop() {
		t.push(op)
	}
}

// pop returns nil when both queues are empty.
func (t *turns) pop() *Op {
	if op := t.first.pop(); op != nil {
		return op
	}
	return t.rest.pop()
}

// fifo is a queue of Ops, linked through the Ops themselves.
type fifo struct{ head, tail *Op }

func (q *fifo) push(op *Op) {
	op.next = nil
	if q.tail == nil {
		q.head = op
	} else {
		q.tail.next = op
	}
	q.tail = op
}

// pop returns nil when the queue is empty.
func (q *fifo) pop() *Op {
	op := q.head
	if op == nil {
		return nil
	}
	q.head = op.next
	if q.head == nil {
		q.tail = nil
	}
	op.next = nil
	return op
}

// Submit implements Device. The whole batch is queued in one step: as many of
// its ops are refused as exceed the room that is left. What suits the rings goes
// to one of them in one system call, the rest to the workers.
func (d *psync) Submit(ops []*Op) {
	for _, op := range ops {
		d.checkCaller(op)
		op.N, op.Err = 0, nil
		op.StartedAt, op.DoneAt = time.Time{}, time.Time{}
		if !d.argumentsGood(op) {
			op.Err = ErrUnaligned
		}
	}
	var refused, ringward fifo
	d.mu.Lock()
	alone := len(ops) == 1 && d.occupied == 0
	for _, op := range ops {
		if op.Err == nil {
			op.Err = d.admitLocked(op.File.(*file))
		}
		if op.Err != nil {
			refused.push(op)
			continue
		}
		if d.rings.suits(op, alone) {
			ringward.push(op)
			continue
		}
		d.queue.push(op)
		d.work.Signal()
	}
	d.mu.Unlock()
	if ringward.head != nil {
		d.rings.submit(&ringward)
	}
	for op := refused.pop(); op != nil; op = refused.pop() {
		op.Done(op)
	}
}

// checkCaller panics where the caller's program is wrong.
func (d *psync) checkCaller(op *Op) {
	if op.Done == nil {
		panic("device: Op without Done")
	}
	if op.Kind < Read || op.Kind > Punch {
		panic("device: Op of unknown Kind")
	}
	if f, ok := op.File.(*file); !ok || f == nil || f.d != d {
		panic("device: Op without a File of this device")
	}
}

// argumentsGood checks alignment and range: nothing reaches below 0, and only
// a Read may reach past the end of the file.
func (d *psync) argumentsGood(op *Op) bool {
	offsetMask, memMask := int64(d.facts.OffsetAlignBytes-1), uintptr(d.facts.MemAlignBytes-1)
	var total int64
	switch op.Kind {
	case Sync:
		return true
	case Punch:
		if total = op.LengthBytes; total < 0 || total&offsetMask != 0 {
			return false
		}
	default:
		for _, b := range op.Bufs {
			if int64(len(b))&offsetMask != 0 || len(b) > 0 && addressOf(b)&memMask != 0 {
				return false
			}
			total += int64(len(b))
		}
	}
	if op.Offset < 0 || op.Offset&offsetMask != 0 || op.Offset+total < op.Offset {
		return false
	}
	return op.Kind == Read || op.Offset+total <= op.File.SizeBytes()
}

// admitLocked takes a place in the queue for an op on f.
func (d *psync) admitLocked(f *file) error {
	switch {
	case d.ending || f.closed:
		return ErrClosed
	case d.occupied == d.options.QueueOps:
		return ErrQueueFull
	}
	d.occupied++
	f.users++
	return nil
}

// leaveLocked takes n ops, which have their results, out of the queue.
func (d *psync) leaveLocked(n int) {
	d.occupied -= n
	if d.ending && d.occupied == 0 {
		d.work.Broadcast()
	}
}

// serve is one worker. It ends when the device is closed and no op is left, on
// the rings neither: they may still hand one over.
func (d *psync) serve() {
	v := new(vector)
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		op := d.queue.pop()
		if op == nil && d.ending && d.occupied == 0 {
			return
		}
		if op == nil {
			d.work.Wait()
			continue
		}
		f := op.File.(*file)
		d.mu.Unlock()
		if op.StartedAt = time.Now(); op.late(op.StartedAt) {
			op.N, op.Err = 0, ErrLate
		} else {
			op.N, op.Err = v.run(op, f)
		}
		op.DoneAt = time.Now()
		d.mu.Lock()
		d.leaveLocked(1)
		d.mu.Unlock()
		op.Done(op) // the op is the caller's again
		d.mu.Lock()
		f.letGoLocked()
	}
}

// bytes is what a Read or Write is to move.
func (op *Op) bytes() int {
	n := 0
	for _, b := range op.Bufs {
		n += len(b)
	}
	return n
}

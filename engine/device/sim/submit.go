package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// pending is an accepted op with everything that was decided about it.
type pending struct {
	op    *device.Op
	file  *file
	total int // bytes of op.Bufs

	ino    *inode // where a write really goes
	offset int64
	mark   uint64 // sync: the newest write that it covers

	rng       *rand.Rand // details of the fault
	latency   time.Duration
	delay     time.Duration
	stuck     bool
	stuckPlan uint64
	fault     fault
	stopAt    int  // bytes after which the fault stops the transfer
	lands     bool // if the process is killed while the op is in flight
	over      bool // the medium is done with it
}

// Submit implements device.Device.
func (s *session) Submit(ops []*device.Op) {
	var refused []*device.Op
	s.d.mu.Lock()
	for _, op := range ops {
		op.N, op.Err = 0, nil
		if op.Err = s.acceptLocked(op); op.Err != nil {
			refused = append(refused, op)
		}
	}
	s.d.mu.Unlock()
	for _, op := range refused {
		op.StartedAt = time.Now()
		op.DoneAt = op.StartedAt
		op.Done(op)
	}
}

// acceptLocked starts or queues op, or says why not.
func (s *session) acceptLocked(op *device.Op) error {
	f, ok := op.File.(*file)
	if !ok || f.s.d != s.d || op.Done == nil {
		panic("sim: op without Done or without a file of this device")
	}
	if err := s.endedLocked(); err != nil {
		return err
	}
	if f.closed || f.s != s {
		return device.ErrClosed
	}
	total, ok := s.d.checkArguments(op, f.size)
	if !ok {
		return device.ErrUnaligned
	}
	if s.live == s.d.cfg.QueueOps {
		return device.ErrQueueFull
	}
	p := &pending{op: op, file: f, total: total, ino: f.ino, offset: op.Offset, mark: f.ino.landed}
	s.d.drawLocked(p)
	s.live++
	f.ops++
	if s.running == s.d.cfg.QueueDepth {
		s.queueLocked(p)
		return nil
	}
	s.running++
	s.flying = append(s.flying, p)
	go s.run(p)
	return nil
}

// queueLocked lets p wait for its turn.
func (s *session) queueLocked(p *pending) {
	if !p.op.GoesFirst() {
		s.queue = append(s.queue, p)
		return
	}
	s.queue = slices.Insert(s.queue, s.first, p)
	s.first++
}

// checkArguments returns the bytes of op.Bufs, and whether op is well formed
// for a file of sizeBytes. Only a Read may reach past its end.
func (d *Disk) checkArguments(op *device.Op, sizeBytes int64) (total int, ok bool) {
	switch op.Kind {
	case device.Sync:
		return 0, true
	case device.Punch:
		return 0, op.Offset >= 0 && op.LengthBytes >= 0 && op.LengthBytes <= sizeBytes-op.Offset
	case device.Read, device.Write:
	default:
		return 0, false
	}
	for _, b := range op.Bufs {
		if len(b)%d.cfg.OffsetAlignBytes != 0 || len(b) > 0 && !addressAligned(b, d.cfg.MemAlignBytes) {
			return 0, false
		}
		total += len(b)
	}
	if op.Kind == device.Read {
		sizeBytes = math.MaxInt64
	}
	return total, op.Offset >= 0 && op.Offset%int64(d.cfg.OffsetAlignBytes) == 0 &&
		int64(total) <= sizeBytes-op.Offset
}

// run carries out p, then queued ops while there are any.
func (s *session) run(p *pending) {
	for p != nil {
		p.op.StartedAt = time.Now()
		s.carryOut(p)
		p.op.DoneAt = time.Now()
		p.op.Done(p.op)
		p = s.next(p)
	}
}

// carryOut is the op's time in flight.
func (s *session) carryOut(p *pending) {
	for more := true; more; {
		s.sleep(p.latency + p.delay)
		s.d.mu.Lock()
		if p.delay > 0 && !s.killed {
			s.d.counts.Delay++
		}
		p.delay = 0
		s.holdLocked(p)
		if s.killed {
			p.op.Err = ErrKilled
			more = false
		} else {
			more = s.d.stepLocked(p)
		}
		if !more {
			s.live--
		}
		s.d.mu.Unlock()
	}
}

// sleep waits for the time to pass, or for Kill.
func (s *session) sleep(wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.dead:
	}
}

// holdLocked keeps a stuck op until the plan changes or the session dies.
func (s *session) holdLocked(p *pending) {
	if !p.stuck {
		return
	}
	p.stuck = false
	s.d.counts.StuckOnce++
	for !s.killed && s.d.planNo == p.stuckPlan {
		s.d.changed.Wait()
	}
}

// next ends p and returns a queued op for the same goroutine, nil to end it.
func (s *session) next(p *pending) *pending {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p.file.ops--
	if i := slices.Index(s.flying, p); i >= 0 {
		s.flying = slices.Delete(s.flying, i, i+1)
	}
	s.d.changed.Broadcast()
	if len(s.queue) == 0 {
		s.queue = nil
		s.running--
		return nil
	}
	p = s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.first = max(s.first-1, 0)
	s.flying = append(s.flying, p)
	return p
}

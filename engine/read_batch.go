package engine

import (
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/planted"
	"github.com/spillway-kv/spillway/engine/table"
)

// run submits the transfers as room allows and waits until every item is
// answered, by its transfer or by the deadline.
func (b *readBatch) run() {
	// Root first: reads were pinned tail first. progress is nil once everything is handed over.
	next, progress := b.submit(len(b.reads) - 1)
	if b.pending.Load() == 0 {
		<-b.done
		return
	}
	late, stop := patience(b.opts.Deadline, b.opts.Done)
	defer stop()
	for {
		select {
		case <-b.done:
			return
		case <-progress:
			b.s.stopWaiting()
			next, progress = b.submit(next)
		case <-late:
			if progress != nil {
				b.s.stopWaiting()
			}
			b.giveUp(next)
			<-b.done // what is settling at this moment
			return
		}
	}
}

// stopWaiting undoes the count of a batch that waited for transfers or frames.
func (s *Store) stopWaiting() {
	s.mu.Lock()
	s.waiting--
	s.mu.Unlock()
}

// submit hands over reads[..next] as far as transfers and frames allow, and
// returns where it stopped and what to wait for.
func (b *readBatch) submit(next int) (int, <-chan struct{}) {
	s := b.s
	ops := make([]*device.Op, 0, next+1)
	now := time.Now()
	s.mu.Lock()
	if s.monitor.sick != nil {
		next = b.missLocked(next)
	}
	for ; next >= 0; next-- {
		r := &b.reads[next]
		if !r.direct && s.joinLocked(r) {
			continue
		}
		if s.transfers >= s.transfersMax {
			break
		}
		if !r.direct {
			blockBytes := int64(b.ns.descriptor.BlockBytes)
			if r.frame = s.frames.TryGet(int(roundUp(blockBytes, int64(s.facts.OffsetAlignBytes)))); r.frame == nil {
				break
			}
		}
		if !r.direct || planted.Active(planted.CoalesceFromClient) {
			if s.inflight[r.ref] == nil {
				s.inflight[r.ref] = r
			}
		}
		s.startLocked(&r.transfer, now)
		r.submitted = true
		r.prepare(b.ns.descriptor.BlockBytes)
		ops = append(ops, &r.op)
	}
	var progress <-chan struct{}
	if next >= 0 {
		progress = s.progress
		s.waiting++
	}
	s.mu.Unlock()
	switch {
	case len(ops) == 1 && len(b.reads) == 1 && s.devWaiting != nil:
		s.devWaiting.SubmitWaiting(ops[0], b.opts.Deadline)
	case len(ops) > 0:
		s.dev.Submit(ops)
	}
	return next, progress
}

// missAllLocked makes misses of blocks that a sick drive holds.
func (b *readBatch) missAllLocked(refs []table.Ref) {
	for i, ref := range refs {
		if ref != 0 {
			refs[i] = 0
			b.items[i].Err = b.s.monitor.sick
		}
	}
}

// missLocked makes misses of the reads that wait for a drive gone sick.
func (b *readBatch) missLocked(next int) int {
	s := b.s
	for ; next >= 0; next-- {
		r := &b.reads[next]
		r.answer.Store(answerGiven)
		b.items[r.index].Status, b.items[r.index].Err = Miss, s.monitor.sick
		s.unpinLocked(r.ref, r.place, r.position)
		s.calls.Done()
		b.answered()
	}
	return next
}

// joinLocked lets r wait for another framed read of the same block.
func (s *Store) joinLocked(r *readOp) bool {
	leader := s.inflight[r.ref]
	if leader == nil || leader.position != r.position {
		return false
	}
	leader.followers = append(leader.followers, r)
	r.submitted = true
	s.unpinLocked(r.ref, r.place, r.position)
	s.counters.Coalesced++
	return true
}

// giveUp answers Late for everything still pending. Reads not handed over and
// framed reads never touch the destination again, so they are released here.
func (b *readBatch) giveUp(next int) {
	s := b.s
	for i := range b.reads {
		r := &b.reads[i]
		if !r.answer.CompareAndSwap(answerPending, answerLate) {
			continue
		}
		b.items[r.index].Status = Late
		if i <= next { // never submitted
			s.mu.Lock()
			s.unpinLocked(r.ref, r.place, r.position)
			s.mu.Unlock()
			s.calls.Done()
		}
		if (i <= next || !r.direct) && b.opts.Released != nil {
			b.opts.Released(r.index)
		}
		b.answered()
	}
}

package rdma

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// completionsMax are taken at once.
const completionsMax = 32

// receive takes in what the peer tells over a rail, until that is destroyed.
func (s *session) receive(r *rail) {
	defer close(r.received)
	var c [completionsMax]fabric.Completion
	for {
		n, err := r.pair.Receives().Wait(c[:])
		if err != nil {
			if !errors.Is(err, fabric.ErrClosed) {
				s.fail(fmt.Errorf("wait for what comes over %s: %w", r.port.info.Name(), err))
			}
			return
		}
		var told releases
		s.mu.Lock()
		for i := range c[:n] {
			s.takeLocked(&told, r, &c[i])
		}
		s.mu.Unlock()
		told.tell()
	}
}

// drain takes what has come over all rails and was not taken yet. The keeper calls it
// before it destroys them.
func (s *session) drain() {
	var told releases
	var c [completionsMax]fabric.Completion
	s.mu.Lock()
	for _, r := range s.rails {
		for n := len(c); n == len(c); {
			n = r.pair.Receives().Poll(c[:])
			for i := range c[:n] {
				s.takeLocked(&told, r, &c[i])
			}
		}
	}
	s.mu.Unlock()
	told.tell()
}

// takeLocked takes one receive that has completed.
func (s *session) takeLocked(told *releases, r *rail, c *fabric.Completion) {
	r.posted--
	switch {
	case c.Result != fabric.OK && !r.probed: // the rail never worked, and is left out
	case c.Result != fabric.OK:
		s.failLocked(fmt.Errorf("receive over %s: %v (code %d)", r.port.info.Name(), c.Result, c.Code))
	case c.Immediate == probeImmediate:
		if !r.probed {
			r.probed = true
			close(r.probe)
		}
	default:
		if err := s.batchLocked(told, r, c.Immediate); err != nil {
			s.failLocked(err)
		}
	}
}

// batchLocked takes the records of a batch, the last of which an immediate names.
func (s *session) batchLocked(told *releases, r *rail, immediate uint32) error {
	number, generation := lineOf(immediate)
	if generation == generationEnd {
		return s.markLocked(r, number)
	}
	if int(number) >= len(r.lines) {
		return malformed("line %d of %d", number, len(r.lines))
	}
	first := &r.lines[number]
	q := first.request
	if q == nil || first.generation != generation { // of blocks that were taken back
		return s.againLocked(r)
	}
	for {
		l := &r.lines[number]
		if l.request != q {
			return malformed("a batch has line %d twice, or of another request", number)
		}
		raw := [recordBytes]byte(r.table[int(number)*recordBytes:]) // a copy: the peer may write there at any time
		m, err := parseRecord(&raw)
		if err != nil {
			return err
		}
		b := &q.blocks[l.block]
		switch {
		case m.request != q.number || m.block != uint32(l.block) || m.generation != l.generation:
			return malformed("line %d has block %d of request %d, generation %d; it is for block %d of %d, %d",
				number, m.block, m.request, m.generation, l.block, q.number, l.generation)
		case m.status == transport.Done && m.bytes != b.size:
			return malformed("a block of %d bytes where %d were asked for", m.bytes, b.size)
		}
		s.settleBlockLocked(told, q, int(l.block), m.status, m.sum)
		if m.status == transport.Done {
			s.brought.Store(true)
			s.l.peer.blocks.Add(1)
			s.l.peer.bytes.Add(uint64(b.size))
		}
		if m.before == noLine {
			return nil
		}
		if number = m.before; int(number) >= len(r.lines) {
			return malformed("line %d of %d", number, len(r.lines))
		}
	}
}

// againLocked posts a receive in place of one that no block has had.
func (s *session) againLocked(r *rail) error {
	if s.cause != nil {
		return nil
	}
	return r.postLocked()
}

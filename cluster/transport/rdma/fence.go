package rdma

import (
	"context"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// A fence is the peer's word that of some requests nothing more will be posted, and a mark: a
// write of no bytes on each rail, behind all that was posted. The word alone is not enough,
// since what was sent may still be on its way into memory here. When the mark has come it is
// there.

// mark is what the fencer waits for. It is guarded by the session's mu.
type mark struct {
	number uint16
	rails  uint8         // a bit for each rail over which it is to come
	came   chan struct{} // closed when it has come over all
}

// askFenceLocked has a request fenced, if anything of it may be on its way.
func (s *session) askFenceLocked(r *request) {
	if r.open == 0 || r.taken {
		return
	}
	r.taken = true
	s.fences = append(s.fences, r.number)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fence has requests fenced, many at once, until the session has failed. It is the session's
// fencer.
func (s *session) fence() {
	for number := uint16(0); ; {
		select {
		case <-s.wake:
		case <-s.failing:
			return
		}
		for {
			m := s.toFence(number)
			if len(m.requests) == 0 {
				break
			}
			if err := s.pass(&m, s.mark.came); err != nil {
				s.fail(fmt.Errorf("the peer does not say that a fetch is over: %w", err))
				return
			}
			s.fenced(m.requests)
			number = (number + 1) % marksMax
		}
	}
}

// toFence takes requests off the list, those left out of which all has come meanwhile.
func (s *session) toFence(number uint16) fenceRequest {
	m := fenceRequest{session: s.number, mark: number}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.fences) > 0 && len(m.requests) < fencesMax {
		if r := s.requests[s.fences[0]]; r != nil {
			m.requests = append(m.requests, r.number)
			m.rails |= r.railsLocked()
		}
		s.fences = s.fences[1:]
	}
	m.oldest = s.oldestLocked()
	s.mark = &mark{number, m.rails, make(chan struct{})}
	return m
}

// railsLocked are those over which something may come, as bits.
func (r *request) railsLocked() (bits uint8) {
	for i := range r.blocks {
		if b := &r.blocks[i]; b.open {
			bits |= 1 << b.rail.number
		}
	}
	return bits
}

// pass waits for the peer's word, and for the mark.
func (s *session) pass(m *fenceRequest, came <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.l.t.o.FenceTime)
	defer cancel()
	if _, err := s.l.Link.Call(ctx, kindFence, m.append(nil)); err != nil {
		return err
	}
	select {
	case <-came:
		return nil
	case <-s.failing:
		return s.why()
	case <-ctx.Done():
		return fmt.Errorf("its mark has not come: %w", ctx.Err())
	}
}

// markLocked takes in that a mark has come over a rail.
func (s *session) markLocked(r *rail, number uint16) error {
	m, bit := s.mark, uint8(1)<<r.number
	if m == nil || m.number != number || m.rails&bit == 0 {
		return malformed("mark %d, which was not asked for", number)
	}
	if m.rails &^= bit; m.rails == 0 {
		close(m.came)
	}
	return s.againLocked(r)
}

// fenced lets go of requests behind the fence, unless the session has failed meanwhile.
func (s *session) fenced(requests []uint64) {
	var told releases
	s.mu.Lock()
	if s.cause == nil {
		for _, n := range requests {
			if r := s.requests[n]; r != nil {
				s.l.peer.fences.Add(1)
				for i := range r.blocks {
					if r.blocks[i].open {
						s.settleBlockLocked(&told, r, i, transport.Refused, 0)
					}
				}
			}
		}
	}
	s.mu.Unlock()
	told.tell()
}

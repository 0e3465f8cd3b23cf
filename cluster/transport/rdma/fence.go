package rdma

import (
	"context"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// fence has the peer give its word for requests that were given up, many at once, until the
// session has failed. It is the session's fencer.
func (s *session) fence() {
	for {
		select {
		case <-s.wake:
		case <-s.failing:
			return
		}
		for {
			m := fenceRequest{session: s.number}
			m.requests, m.oldest = s.toFence()
			if len(m.requests) == 0 {
				break
			}
			ctx, cancel := context.WithTimeout(s.ctx, s.l.t.o.FenceTime)
			_, err := s.l.Link.Call(ctx, kindFence, m.append(nil))
			cancel()
			if err != nil {
				s.fail(fmt.Errorf("the peer does not say that a fetch is over: %w", err))
				return
			}
			s.fenced(m.requests)
		}
	}
}

// toFence takes requests off the list, those left out of which all has come meanwhile.
func (s *session) toFence() (requests []uint64, oldest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.fences) > 0 && len(requests) < fencesMax {
		if n := s.fences[0]; s.requests[n] != nil {
			requests = append(requests, n)
		}
		s.fences = s.fences[1:]
	}
	return requests, s.oldestLocked()
}

// fenced takes the peer's word that of some requests nothing is posted any more. It counts
// only if the session has not failed here.
func (s *session) fenced(requests []uint64) {
	var told releases
	s.mu.Lock()
	if s.cause == nil {
		s.drainLocked(&told)
	}
	if s.cause == nil {
		for _, n := range requests {
			if r := s.requests[n]; r != nil {
				s.settleLocked(&told, r, transport.Late)
			}
			s.l.peer.fences.Add(1)
		}
	}
	s.mu.Unlock()
	told.tell()
}

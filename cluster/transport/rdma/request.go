package rdma

import (
	"github.com/spillway-kv/spillway/cluster/transport"
)

// request is a Fetch that goes by RDMA. The goroutine of Fetch alone tells statuses and
// touches destinations; others note what has come.
type request struct {
	s      *session
	f      *transport.Fetching
	known  snapshot
	nBytes int64 // of blocks
	berth  *berth
	wake   chan struct{}
	cut    bool // a block has come, and the link was closed before it was copied; Fetch's own

	// guarded by the session's mu
	number uint64
	blocks []placed
	came   []int // blocks that are answered and not told yet
	told   int   // those that were taken from came
	open   int   // blocks that have a line: neither their record has come, nor was a fence passed
	taken  bool  // the fencer has it, or has had it
	late   bool  // Fetch has returned at its context's end: Released tells what is let go
	away   bool  // Fetch does not touch the berth any more
	again  bool  // the peer has not begun it: it may go by the control once there is a fence
	fate   requestFate
}

// requestFate is what has become of a request whose session has failed and is destroyed.
type requestFate uint8

const (
	pending   requestFate = iota
	ended                 // what had not come is Lost
	withdrawn             // nothing of it has come, or will
)

// placed is one block of a request. What is above open stays once the request has entered.
type placed struct {
	size       uint32
	offset     int // in the berth; direct: it goes straight to its destination
	rail       *rail
	line       uint16
	generation uint32
	open       bool             // it has the line
	owed       bool             // Released is to be called
	answer     transport.Status // Unanswered while open
	sum        uint64
}

// direct stands for no place in a berth.
const direct = -1

// releases are blocks that nothing touches any more, whose callers are to be told.
type releases []released

type released struct {
	r *request
	i int
}

// tell is called without any lock.
func (n releases) tell() {
	for _, e := range n {
		if e.r.f.Released != nil {
			e.r.f.Released(e.i)
		}
	}
}

func (r *request) awake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// settleBlockLocked answers a block of which nothing is on its way any more.
func (s *session) settleBlockLocked(told *releases, r *request, i int, status transport.Status, sum uint64) {
	b := &r.blocks[i]
	s.freeLineLocked(r, b)
	switch {
	case b.owed:
		b.owed = false
		*told = append(*told, released{r, i})
	case !r.late:
		b.answer, b.sum = status, sum
		r.came = append(r.came, i)
		r.awake()
	}
}

// freeLineLocked gives a block's line back; with the last one the request is over.
func (s *session) freeLineLocked(r *request, b *placed) {
	b.open = false
	b.rail.lines[b.line].request = nil
	b.rail.free = append(b.rail.free, b.line)
	b.rail.underway -= int64(b.size)
	s.lines.Release(1)
	if r.open--; r.open > 0 {
		return
	}
	delete(s.requests, r.number)
	if r.away {
		r.giveBackLocked()
	}
}

// endLocked ends a request whose queue pairs are destroyed. Of a rail that could not be
// nothing is let go.
func (s *session) endLocked(told *releases, r *request) {
	if r.again && !r.late && s.withdrawLocked(r) {
		return
	}
	for i := range r.blocks {
		b := &r.blocks[i]
		if !b.open {
			continue
		}
		answer := transport.Lost
		if b.rail.fate == stuck {
			if b.owed = false; b.offset == direct {
				answer = transport.Late
			} else {
				r.berth.lost = true
			}
		}
		s.settleBlockLocked(told, r, i, answer, 0)
	}
	r.fate = ended
}

// withdrawLocked takes a request back of which the peer has written nothing; false: some
// blocks are answered, or a device may still write to some.
func (s *session) withdrawLocked(r *request) bool {
	if r.told > 0 || len(r.came) > 0 {
		return false
	}
	for i := range r.blocks {
		if b := &r.blocks[i]; b.open && b.rail.fate == stuck {
			return false
		}
	}
	for i := range r.blocks {
		if b := &r.blocks[i]; b.open {
			s.freeLineLocked(r, b)
		}
	}
	r.fate = withdrawn
	r.awake()
	return true
}

// takeBack has what has not come Refused, once there is a fence.
func (r *request) takeBack() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.askFenceLocked(r)
}

// withdraw says that the peer does not know the request.
func (r *request) withdraw() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.again = true
}

// leave is called when Fetch does not touch the berth any more.
func (r *request) leave() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.away = true; r.open == 0 {
		r.giveBackLocked()
	}
}

func (r *request) giveBackLocked() {
	if r.berth != nil {
		r.berth.free()
	}
	r.s.bytes.Release(r.nBytes)
}

package rdma

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// session is RDMA over one link, while it works. It fails as a whole: then its keeper
// destroys the queue pairs, and only then are its blocks Lost, or released.
type session struct {
	l        *Link
	number   uint64
	all      []*rail             // by number
	rails    []*rail             // those in use
	lines    *semaphore.Weighted // of all rails in use
	bytes    *semaphore.Weighted // of blocks that are asked for
	most     int64               // of those bytes
	linesMax int                 // of all rails in use
	ctx      context.Context     // ends when all queue pairs are destroyed
	cancel   context.CancelFunc
	failing  chan struct{}  // closed when it has failed
	wake     chan struct{}  // there is something to fence
	running  sync.WaitGroup // hold, fencer, calls of fetches
	brought  atomic.Bool    // a block has come

	mu       sync.Mutex
	cause    error // why it failed; nil: it works
	last     uint64
	oldest   uint64 // no request below has anything on its way
	requests map[uint64]*request
	fences   []uint64 // requests that are to be fenced
	mark     *mark    // the fencer's last
}

func newSession(l *Link) *session {
	s := &session{l: l, failing: make(chan struct{}), wake: make(chan struct{}, 1), oldest: 1, requests: map[uint64]*request{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// ports names the ports in use.
func (s *session) ports() (names []string) {
	for _, r := range s.rails {
		names = append(names, r.port.info.Name())
	}
	return names
}

// fail says that the session does not work any more. The first cause counts.
func (s *session) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(cause)
}

func (s *session) failLocked(cause error) {
	if s.cause == nil {
		s.cause = cause
		close(s.failing)
	}
}

// why is the cause of the failure.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// end ends a session that has failed: nothing of it is on its way when it returns.
func (s *session) end() {
	s.drain() // what has come has come
	for _, r := range s.all {
		if r.fate == made && s.l.ctx.Err() == nil {
			s.l.peer.destroyed.Add(1)
		}
		if err := r.destroy(); err != nil {
			s.l.t.o.Logger.Error("memory of an RDMA session is never given back", "peer", s.l.name(), "err", err)
		}
	}
	s.settleAll()
	s.cancel()
	s.running.Wait()
	for _, r := range s.all {
		if err := r.discard(); err != nil {
			s.l.t.o.Logger.Error("memory of an RDMA session is never given back", "peer", s.l.name(), "err", err)
		}
	}
}

// settleAll ends all requests: their queue pairs are destroyed.
func (s *session) settleAll() {
	var told releases
	s.mu.Lock()
	for _, r := range s.requests {
		s.endLocked(&told, r)
	}
	s.mu.Unlock()
	told.tell()
}

// oldestLocked is the lowest request of which something may be on its way.
func (s *session) oldestLocked() uint64 {
	for s.oldest <= s.last && s.requests[s.oldest] == nil {
		s.oldest++
	}
	return s.oldest
}

package fabrictest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// side is one end of a connection.
type side struct {
	fabric.QueuePair
	k    *kit
	once sync.Once
}

// room is enough for most tests.
var room = fabric.QueueOptions{Sends: 64, Receives: 64, RemoteWrite: true}

// side makes a queue pair.
func (k *kit) side(d fabric.Device, o fabric.QueueOptions) *side {
	k.Helper()
	q, err := d.NewQueuePair(o)
	if err != nil {
		k.Fatalf("NewQueuePair(%+v): %v", o, err)
	}
	s := &side{QueuePair: q, k: k}
	k.sides = append(k.sides, s)
	return s
}

// pair makes two connected queue pairs.
func (k *kit) pair(o fabric.QueueOptions) (a, b *side) {
	k.Helper()
	a, b = k.side(k.a, o), k.side(k.b, o)
	k.connect(a, b)
	return a, b
}

func (k *kit) connect(a, b *side) {
	k.Helper()
	if err := a.Connect(b.Local(), k.rig.Path); err != nil {
		k.Fatalf("Connect: %v", err)
	}
	if err := b.Connect(a.Local(), k.rig.Path); err != nil {
		k.Fatalf("Connect: %v", err)
	}
}

// destroy destroys it, once.
func (s *side) destroy() {
	s.k.Helper()
	s.once.Do(func() {
		if err := s.Destroy(); err != nil {
			s.k.Errorf("Destroy: %v", err)
		}
	})
}

var errSilent = errors.New("no completion came")

// wait takes completions of q, which must come: after patience the queue pair is destroyed,
// which ends the Wait. Any goroutine may call it.
func (s *side) wait(q fabric.Queue, c []fabric.Completion) (int, error) {
	watch := time.AfterFunc(patience, s.destroy)
	n, err := q.Wait(c)
	if !watch.Stop() {
		return n, errSilent
	}
	if err == nil && (n < 1 || n > len(c)) {
		return n, fmt.Errorf("%d completions from Wait, of at most %d", n, len(c))
	}
	return n, err
}

// take takes n completions of q.
func (s *side) take(q fabric.Queue, n int) []fabric.Completion {
	s.k.Helper()
	c := make([]fabric.Completion, n)
	for got := 0; got < n; {
		m, err := s.wait(q, c[got:])
		if err != nil {
			s.k.Fatalf("Wait, after %d of %d completions: %v", got, n, err)
		}
		got += m
	}
	return c
}

// sent wants the next list to have ended so.
func (s *side) sent(id uint64, want fabric.Result) {
	s.k.Helper()
	if c := s.take(s.Sends(), 1)[0]; c.ID != id || c.Result != want {
		s.k.Fatalf("list %d: %v (code %d), want list %d: %v", c.ID, c.Result, c.Code, id, want)
	}
}

// received wants the next receive to have this immediate.
func (s *side) received(immediate uint32) {
	s.k.Helper()
	if c := s.take(s.Receives(), 1)[0]; c.Result != fabric.OK || c.Immediate != immediate {
		s.k.Fatalf("receive %v (code %d), immediate %#x, want %#x", c.Result, c.Code, c.Immediate, immediate)
	}
}

func (s *side) receives(n int) {
	s.k.Helper()
	if err := s.PostReceives(n); err != nil {
		s.k.Fatalf("PostReceives(%d): %v", n, err)
	}
}

func (s *side) post(id uint64, list ...fabric.Write) {
	s.k.Helper()
	if err := s.PostWrites(id, list); err != nil {
		s.k.Fatalf("PostWrites of %d: %v", len(list), err)
	}
}

// useless wants that nothing can be sent any more.
func (s *side) useless(w fabric.Write) {
	s.k.Helper()
	err := s.PostWrites(1<<40, []fabric.Write{w})
	if errors.Is(err, fabric.ErrClosed) {
		return
	}
	if err != nil {
		s.k.Errorf("PostWrites after a failure: %v, want ErrClosed, or a failed completion", err)
		return
	}
	for {
		c := s.take(s.Sends(), 1)[0]
		if c.Result == fabric.OK {
			s.k.Errorf("list %d went well after a failure", c.ID)
		}
		if c.ID == 1<<40 || c.Result == fabric.OK {
			return
		}
	}
}

// flushed wants the receives that are posted to end without an immediate.
func (s *side) flushed() {
	s.k.Helper()
	if c := s.take(s.Receives(), 1)[0]; c.Result == fabric.OK {
		s.k.Errorf("a receive of a failed queue pair is OK, immediate %#x", c.Immediate)
	}
}

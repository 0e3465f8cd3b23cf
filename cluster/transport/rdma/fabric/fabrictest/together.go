package fabrictest

import (
	"bytes"
	"errors"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// testMany: many queue pairs do not mix.
func testMany(k *kit) {
	const pairs, size = 64, 10_000
	src, dst := k.memory(k.a, pairs*size, 0), k.memory(k.b, pairs*size, fabric.RemoteWrite)
	fill(src.mem, 5)
	var all [][2]*side
	for range pairs {
		a, b := k.pair(fabric.QueueOptions{Sends: 8, Receives: 8, RemoteWrite: true})
		all = append(all, [2]*side{a, b})
	}
	for i, p := range all {
		p[1].receives(2)
		p[0].post(uint64(i), append(split(src, i*size, dst, i*size, size, 4000), notify(uint32(i)))...)
	}
	all[3][0].destroy() // and one that goes away does not hurt the others
	all[3][1].destroy()
	for i, p := range all {
		if i == 3 {
			continue
		}
		p[1].received(uint32(i))
		p[0].sent(uint64(i), fabric.OK)
		if !bytes.Equal(src.mem[i*size:(i+1)*size], dst.mem[i*size:(i+1)*size]) {
			k.Fatalf("pair %d: wrong bytes", i)
		}
		for _, q := range []fabric.Queue{p[0].Sends(), p[0].Receives(), p[1].Sends(), p[1].Receives()} {
			if n := q.Poll(make([]fabric.Completion, 1)); n != 0 {
				k.Fatalf("pair %d: a completion of another", i)
			}
		}
	}
}

const (
	posters      = 6
	listsOfEach  = 60
	bytesOfLists = 3000
)

// testTogether: many goroutines post on one queue pair; every list and every receive is told
// once, those of one goroutine in order.
func testTogether(k *kit) {
	a, b := k.pair(fabric.QueueOptions{Sends: 20, Receives: posters * listsOfEach, RemoteWrite: true})
	size := posters * listsOfEach * bytesOfLists
	src, dst := k.memory(k.a, size, 0), k.memory(k.b, size, fabric.RemoteWrite)
	fill(src.mem, 6)
	b.receives(posters * listsOfEach)
	freed := newSignal()
	var running sync.WaitGroup
	for p := range posters {
		running.Go(func() {
			for i := range listsOfEach {
				number := p*listsOfEach + i
				at := number * bytesOfLists
				list := append(split(src, at, dst, at, bytesOfLists, 1<<10), notify(uint32(number)))
				for {
					seen := freed.now()
					err := a.PostWrites(uint64(number), list)
					if err == nil {
						break
					}
					if !errors.Is(err, fabric.ErrFull) {
						k.Errorf("PostWrites: %v", err)
						return
					}
					if !freed.after(seen) {
						return
					}
				}
			}
		})
	}
	running.Go(func() {
		defer freed.end()
		k.inOrder(a, a.Sends(), func(c fabric.Completion) int { return int(c.ID) }, freed.give)
	})
	running.Go(func() {
		k.inOrder(b, b.Receives(), func(c fabric.Completion) int { return int(c.Immediate) }, func() {})
	})
	running.Wait()
	if !bytes.Equal(src.mem, dst.mem) {
		k.Errorf("wrong bytes")
	}
}

// inOrder takes a completion for every list of all posters.
func (k *kit) inOrder(s *side, q fabric.Queue, number func(c fabric.Completion) int, each func()) {
	var next [posters]int
	c := make([]fabric.Completion, 5)
	for got := 0; got < posters*listsOfEach; {
		n, err := s.wait(q, c)
		if err != nil {
			k.Errorf("Wait: %v", err)
			return
		}
		for _, c := range c[:n] {
			i := number(c)
			if c.Result != fabric.OK || i < 0 || i >= posters*listsOfEach || i%listsOfEach != next[i/listsOfEach] {
				k.Errorf("completion %+v, want number %v of each", c, next)
				return
			}
			next[i/listsOfEach]++
			each()
		}
		got += n
	}
}

// signal tells many goroutines that something has changed.
type signal struct {
	mu    sync.Mutex
	cond  sync.Cond
	n     int
	ended bool
}

func newSignal() *signal {
	s := &signal{}
	s.cond.L = &s.mu
	return s
}

func (s *signal) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// after waits until more has changed than what was seen; false: nothing will any more.
func (s *signal) after(seen int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.n == seen && !s.ended {
		s.cond.Wait()
	}
	return s.n != seen
}

func (s *signal) give() {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *signal) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cond.Broadcast()
}

// testDestroyTogether: Destroy may come while others post, poll and wait.
func testDestroyTogether(k *kit) {
	src, dst := k.memory(k.a, 1<<16, 0), k.memory(k.b, 1<<16, fabric.RemoteWrite)
	for round := range k.rig.Rounds {
		a, b := k.pair(room)
		posted, freed := newSignal(), newSignal()
		var running sync.WaitGroup
		for range 3 {
			running.Go(func() { k.postAll(a, split(src, 0, dst, 0, 1<<13, 1<<10), posted, freed) })
		}
		running.Go(func() {
			for a.PostReceives(1) == nil {
				a.Receives().Poll(make([]fabric.Completion, 2))
			}
		})
		running.Go(func() {
			defer freed.end()
			defer posted.end()
			c := make([]fabric.Completion, 2)
			for {
				if _, err := a.wait(a.Sends(), c); err != nil {
					if !errors.Is(err, fabric.ErrClosed) {
						k.Errorf("Wait: %v", err)
					}
					return
				}
				freed.give()
			}
		})
		for seen := 0; seen < 5+round && posted.after(seen); {
			seen = posted.now()
		}
		a.destroy()
		running.Wait()
		b.destroy()
	}
}

// postAll posts the list until the queue pair is closed.
func (k *kit) postAll(a *side, list []fabric.Write, posted, freed *signal) {
	for {
		seen := freed.now()
		err := a.PostWrites(1, list)
		switch {
		case err == nil:
			posted.give()
		case errors.Is(err, fabric.ErrFull):
			if a.Sends().Poll(make([]fabric.Completion, 3)) == 0 && !freed.after(seen) {
				return
			}
		default:
			if !errors.Is(err, fabric.ErrClosed) {
				k.Errorf("PostWrites: %v", err)
			}
			return
		}
	}
}

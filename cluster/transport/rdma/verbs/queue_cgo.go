//go:build verbs && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// takenAtOnce is how many completions one call into C takes.
const takenAtOnce = 32

// queue is a completion queue of a queue pair, and its channel. judge makes a completion of
// what came, and says whether it is one for the caller.
type queue struct {
	q     *pair
	kind  C.int
	judge func(d *C.struct_sv_done, c *fabric.Completion) bool
	file  *os.File // the channel's descriptor
	raw   interface {
		Read(func(uintptr) bool) error
	}

	waitMu sync.Mutex // above the others: one waiter at a time, and Destroy waits for it
	pollMu sync.Mutex // above pair.mu: completions are judged in their order
	done   [takenAtOnce]C.struct_sv_done
}

// open hands the channel of q's queue of this kind to the poller.
func (u *queue) open(q *pair, kind C.int, judge func(*C.struct_sv_done, *fabric.Completion) bool) (err error) {
	u.q, u.kind, u.judge = q, kind, judge
	if u.file, err = duplicate(int(C.sv_channel_fd(q.p, kind)), "completions of an RDMA queue pair"); err != nil {
		return err
	}
	if u.raw, err = u.file.SyscallConn(); err != nil {
		u.shut()
	}
	return err
}

// shut takes a waiter out. The queue pair is of state destroyed already, or nobody has it.
func (u *queue) shut() {
	u.file.Close() // only read from: nothing is lost
	u.waitMu.Lock()
	//lint:ignore SA2001 the waiter holds it: it is out now
	u.waitMu.Unlock()
}

func (u *queue) Poll(c []fabric.Completion) int {
	n, _ := u.take(c, false)
	return n
}

func (u *queue) Wait(c []fabric.Completion) (int, error) {
	if len(c) == 0 {
		panic("verbs: Wait for nothing")
	}
	u.waitMu.Lock()
	defer u.waitMu.Unlock()
	n, err := u.take(c, false)
	if n > 0 || err != nil {
		return n, err
	}
	// Asked for an event, then looked once more, then parked: what comes between is not missed.
	parked := u.raw.Read(func(uintptr) bool {
		n, err = u.take(c, true)
		return n > 0 || err != nil
	})
	if n > 0 || err != nil {
		return n, err
	}
	if u.q.closed() {
		return 0, fabric.ErrClosed
	}
	return 0, fmt.Errorf("wait for completions: %w", parked)
}

// take takes what is there, at most len(c), after it has asked for an event if arm is set.
func (u *queue) take(c []fabric.Completion, arm bool) (int, error) {
	u.pollMu.Lock()
	defer u.pollMu.Unlock()
	got, faults := 0, false
	for got < len(c) {
		room := min(len(c)-got, takenAtOnce)
		n, err := u.pull(room, arm)
		if err != nil {
			return got, err
		}
		arm = false
		if n < 0 { // the queue itself is broken, perhaps the device
			c[got] = fabric.Completion{Result: fabric.OtherFault, Code: n}
			got, faults = got+1, true
			break
		}
		for i := range n {
			if !u.judge(&u.done[i], &c[got]) {
				continue
			}
			faults = faults || c[got].Result != fabric.OK
			got++
		}
		if n < room {
			break
		}
	}
	if faults {
		u.q.fail()
	}
	return got, nil
}

// pull calls into C.
func (u *queue) pull(room int, arm bool) (int, error) {
	u.q.mu.RLock()
	defer u.q.mu.RUnlock()
	if u.q.state == destroyed {
		return 0, fabric.ErrClosed
	}
	if arm {
		if rc := C.sv_arm(u.q.p, u.kind); rc != 0 {
			return 0, fmt.Errorf("ask for an event of completions: %w", errno(int(rc)))
		}
	}
	return int(C.sv_poll(u.q.p, u.kind, &u.done[0], C.int(room))), nil
}

// resultOf is what a status means.
func resultOf(status int) fabric.Result {
	if status < 0 || status >= len(codes) {
		return fabric.OtherFault
	}
	return codes[status].result
}

// receiveQueue is the completion queue of receives.
type receiveQueue struct {
	queue

	postMu sync.Mutex   // above pair.mu
	posted atomic.Int64 // receives that have not completed
}

func (r *receiveQueue) open(q *pair) error { return r.queue.open(q, C.SV_RECEIVES, r.judge) }

func (r *receiveQueue) judge(d *C.struct_sv_done, c *fabric.Completion) bool {
	r.posted.Add(-1)
	*c = fabric.Completion{Result: resultOf(int(d.status)), Code: int(d.status), Immediate: uint32(d.immediate)}
	if c.Result == fabric.OK && d.has_immediate == 0 {
		c.Result = fabric.OtherFault // it sent something else than a write
	}
	return true
}

// sendQueue is the completion queue of writes, with the lists that are posted. Lists have
// numbers in the order in which they were posted, and C knows them by these.
type sendQueue struct {
	queue

	postMu sync.Mutex // above pair.mu and ringMu: numbers go to C in order
	writes []C.struct_sv_write

	ringMu sync.Mutex
	lists  []postedList // of number n at n % len
	first  uint64       // number of the oldest that is posted
	next   uint64       // number of the next one
	used   int          // writes posted
}

type postedList struct {
	id     uint64
	writes int
}

func (s *sendQueue) open(q *pair) error {
	s.writes = make([]C.struct_sv_write, q.room.Sends)
	s.lists = make([]postedList, q.room.Sends)
	return s.queue.open(q, C.SV_SENDS, s.judge)
}

// push takes room for a list, if there is some.
func (s *sendQueue) push(id uint64, writes int) (number uint64, ok bool) {
	s.ringMu.Lock()
	defer s.ringMu.Unlock()
	if s.used+writes > len(s.lists) {
		return 0, false
	}
	number = s.next
	s.lists[number%uint64(len(s.lists))] = postedList{id, writes}
	s.next++
	s.used += writes
	return number, true
}

// pop gives the room of the newest list back.
func (s *sendQueue) pop() {
	s.ringMu.Lock()
	defer s.ringMu.Unlock()
	s.next--
	s.used -= s.lists[s.next%uint64(len(s.lists))].writes
}

// judge ends a list. The writes of one that has failed, or was flushed, may be told one by
// one: only the first is passed on.
func (s *sendQueue) judge(d *C.struct_sv_done, c *fabric.Completion) bool {
	s.ringMu.Lock()
	defer s.ringMu.Unlock()
	number := uint64(d.number)
	if number < s.first || number >= s.next {
		return false
	}
	for ; s.first <= number; s.first++ {
		l := &s.lists[s.first%uint64(len(s.lists))]
		s.used -= l.writes
		*c = fabric.Completion{ID: l.id, Result: resultOf(int(d.status)), Code: int(d.status)}
	}
	return true
}

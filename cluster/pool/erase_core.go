package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/engine/planted"
)

// eraser is a node's part in erasing: what it knows of deletions and drops in the whole
// pool, durably.
//
// An erasure has its effect on the stores first, then goes to the log, then the clock
// covers it; so what the clock covers has had its effect, whatever fails between. Copies
// of blocks arrive with the clock from before they were read, and are refused if an
// erasure that it does not cover could be theirs. While an erasure has its effect, copies
// of its blocks neither come (held) nor are coming (arrive): it waits for these. Why
// nothing erased comes back by this, and nothing put later goes: docs/pool.md.
//
// Order of locks: taking, then logging, then mu.
type eraser struct {
	p       *Pool
	state   *state
	self    member.ID // this node in clocks
	damages uint32    // of the state, ever

	// taking holds a token while something of other nodes has its effect, or a namespace
	// is dropped. It is no mutex, nor is logging, so that virtual time goes on.
	taking chan struct{}
	// logging holds a token while somebody writes the state; it guards state.
	logging chan struct{}

	told   atomic.Uint64 // this node's own erasures up to here have been told to the others, as far as they could be
	open   atomic.Bool   // peers are answered
	leaves atomic.Bool   // the node says that it leaves
	opened chan struct{}
	merged chan struct{} // has something in it when mates have changed
	counts eraseCounters
	failed atomic.Pointer[error] // the state cannot be written

	mu     sync.RWMutex
	known  *known
	queue  []*batch
	mates  map[member.ID]*mate
	coming map[ID]int // copies that are being written here
	inside map[[32]byte]int
	held   map[ID]int // blocks that are being erased here
	heldIn map[[32]byte]int
	left   chan struct{} // closed at the next end of an arrival; nil: nobody waits
}

func newEraser(p *Pool) (*eraser, error) {
	o := &p.o.Erase
	s, k, err := openState(o.FS, p.o.Dir, o.Tombstones, p.o.Node, p.log)
	if err != nil {
		return nil, err
	}
	e := &eraser{p: p, state: s, self: s.file.origin, damages: s.file.damages, known: k, taking: make(chan struct{}, 1), logging: make(chan struct{}, 1),
		opened: make(chan struct{}), merged: make(chan struct{}, 1), mates: map[member.ID]*mate{}, coming: map[ID]int{},
		inside: map[[32]byte]int{}, held: map[ID]int{}, heldIn: map[[32]byte]int{}}
	e.told.Store(k.clockOf(e.self))
	return e, nil
}

// close ends the state. Nothing of the pool runs any more.
func (e *eraser) close() error {
	e.logging <- struct{}{}
	defer func() { <-e.logging }()
	e.mu.RLock()
	e.state.note(e.known)
	e.mu.RUnlock()
	err := e.state.replace()
	_ = e.state.fail(errors.New("it is closed"))
	return errors.Join(err, e.state.close())
}

// batch is a change of what is known that goes to disk at once.
type batch struct {
	own    []peer.Erasure // of this node; their numbers are given on the way
	from   []logged       // of others, in each origin's order
	lost   []lostMark
	floors []peer.Floor
	also   func(*stateFile) // whatever else changes
	done   bool
	err    error
}

// commit makes a batch durable and then known. Batches that wait go together.
func (e *eraser) commit(b *batch) error {
	e.mu.Lock()
	e.queue = append(e.queue, b)
	e.mu.Unlock()
	e.logging <- struct{}{}
	defer func() { <-e.logging }()
	if b.done {
		return b.err
	}
	e.mu.Lock()
	all := e.queue
	e.queue = nil
	e.mu.Unlock()
	err := e.write(all)
	if err != nil && e.failed.CompareAndSwap(nil, &err) {
		e.p.o.Journal.Add(journal.Trouble, "", "deletes and drops fail, and nobody who knows of newer ones is answered, until this node is started again: %v", err)
	}
	for _, b := range all {
		b.done, b.err = true, err
	}
	return err
}

// write needs the token of logging.
func (e *eraser) write(all []*batch) error {
	replace := false
	for _, b := range all {
		replace = replace || b.also != nil || len(b.lost)+len(b.floors) > 0
	}
	if replace {
		e.mu.RLock()
		e.state.note(e.known)
		e.mu.RUnlock()
		for _, b := range all {
			e.state.file.floors = append(e.state.file.floors, b.floors...)
			e.state.file.lost = append(e.state.file.lost, b.lost...)
			if b.also != nil {
				b.also(&e.state.file)
			}
		}
		if err := e.state.replace(); err != nil {
			return err
		}
		e.publishMarks(all)
	}
	records := e.number(all)
	for len(records) > 0 {
		n := min(len(records), e.state.log.room())
		if n == 0 {
			if err := e.roll(); err != nil {
				return err
			}
			continue
		}
		if !planted.Active(planted.ForgetErasures) {
			if err := e.state.append(records[:n]); err != nil {
				return err
			}
		}
		e.mu.Lock()
		for i := range records[:n] {
			e.known.add(&records[i])
		}
		e.mu.Unlock()
		records = records[n:]
	}
	return nil
}

func (e *eraser) publishMarks(all []*batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range all {
		for _, f := range b.floors {
			e.known.raise(e.known.space(f.Namespace), f.Incarnation)
		}
		for _, m := range b.lost {
			e.known.addLost(m)
		}
	}
}

// number gives this node's new erasures their numbers. Those of an incarnation that is
// erased by now are none.
func (e *eraser) number(all []*batch) (records []logged) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	seq := max(e.known.clockOf(e.self), e.state.file.starts<<32)
	for _, b := range all {
		for _, r := range b.from {
			if r.Seq > e.known.clockOf(r.origin) && (r.origin != e.self || r.Seq > seq) {
				records = append(records, r)
			}
		}
		for _, erasure := range b.own {
			if erasure.Incarnation < e.known.floorOf(erasure.Namespace) {
				continue
			}
			seq++
			erasure.Seq = seq
			records = append(records, logged{origin: e.self, Erasure: erasure})
		}
	}
	return records
}

// roll makes room in the log.
func (e *eraser) roll() error {
	if old, goes := e.state.oldest(); goes {
		e.mu.Lock()
		for id, n := range old.named {
			e.known.forget(id, n)
			e.counts.forgotten.Add(uint64(n))
		}
		e.mu.Unlock()
	}
	e.mu.RLock()
	e.state.note(e.known)
	e.mu.RUnlock()
	return e.state.roll()
}

// take waits for a token.
func take(ctx context.Context, tokens chan struct{}) error {
	select {
	case tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

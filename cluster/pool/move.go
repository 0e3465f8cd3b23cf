package pool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
)

// MoveOptions are about copies that the pool makes of its own accord. Zero values mean the
// defaults named here.
type MoveOptions struct {
	// BytesPerSecond bounds what this node sends of them. (256 MiB)
	BytesPerSecond int64
	// RepairEvery is how often a node looks whether its blocks have as many copies as
	// there are to be, if that is more than one. (10m)
	RepairEvery time.Duration
	// RepairAfter is how long a member must be gone before its copies count as lost. It
	// may only be starting anew. (2m)
	RepairAfter time.Duration
	// HotReads is after how many reads from other nodes a block gets a copy here, beside
	// those that it has; 0: never.
	HotReads int
}

func (o *MoveOptions) setDefaults() {
	setDefault(&o.BytesPerSecond, 256<<20)
	setDefault(&o.RepairEvery, 10*time.Minute)
	setDefault(&o.RepairAfter, 2*time.Minute)
}

func (o *MoveOptions) validate() error {
	switch {
	case o.BytesPerSecond < 1<<16 || o.BytesPerSecond > 1<<40:
		return fmt.Errorf("%w: copies are made at %d bytes a second, want %d to %d", ErrOptions, o.BytesPerSecond, 1<<16, int64(1)<<40)
	case o.RepairEvery < time.Second || o.RepairAfter < time.Millisecond:
		return fmt.Errorf("%w: lost copies are looked for every %v, %v after a member is gone; want 1s and 1ms at least", ErrOptions, o.RepairEvery, o.RepairAfter)
	case o.HotReads < 0 || o.HotReads > HotReadsMax:
		return fmt.Errorf("%w: copies after %d reads, want 0 to %d", ErrOptions, o.HotReads, HotReadsMax)
	}
	return nil
}

const (
	// copiesBeside is how many runs are copied at the same time.
	copiesBeside = 4
	// passPauseMin and passPauseMax bound the wait before a drain looks again at what it
	// could not move.
	passPauseMin = time.Second
	passPauseMax = 30 * time.Second
)

// mover makes copies of this node's blocks on other nodes: all of them when it drains, and
// those that have been lost elsewhere. It is one goroutine, and those that it waits for.
type mover struct {
	p    *Pool
	wake chan struct{} // room for one: something has changed
	hot  hotReads

	bytesPerSecond atomic.Int64

	mu       sync.Mutex         // guards what follows, and the holders of a copying
	drain    *DrainStat         // of this drain; another one at each change
	cancel   context.CancelFunc // of what is under way; nil: nothing is
	repair   RepairStat
	nextSend time.Time // by the bound on bytes per second
	rate     []sentBytes

	// The goroutine's own.
	members  map[member.ID]bool
	lost     time.Time // when a member was missed; zero: none since the last repair
	repaired time.Time
}

func newMover(p *Pool) *mover {
	m := &mover{p: p, drain: &DrainStat{}, wake: make(chan struct{}, 1), repaired: time.Now()}
	m.bytesPerSecond.Store(p.o.Move.BytesPerSecond)
	m.hot.most.Store(uint32(p.o.Move.HotReads))
	return m
}

// SetMoves changes what MoveOptions.BytesPerSecond and HotReads say, while the pool runs. What
// is on its way goes on.
func (p *Pool) SetMoves(bytesPerSecond int64, hotReads int) error {
	o := p.o.Move
	o.BytesPerSecond, o.HotReads = bytesPerSecond, hotReads
	if err := o.validate(); err != nil {
		return err
	}
	p.move.bytesPerSecond.Store(bytesPerSecond)
	p.move.hot.most.Store(uint32(hotReads))
	return nil
}

// Drain has this node hand its blocks over and then leave, from now on and over restarts.
// It returns when that is durable; Stat tells the progress.
func (p *Pool) Drain() error { return p.changeDrain(true) }

// Undrain ends a drain, whether it is done or not: this node takes new blocks again, and
// still has what it had.
func (p *Pool) Undrain() error { return p.changeDrain(false) }

func (p *Pool) changeDrain(drains bool) error {
	if p.Drains() == drains {
		return nil
	}
	if err := p.setDrains(drains); err != nil {
		return err
	}
	m := p.move
	m.mu.Lock()
	p.erase.leaves.Store(false)
	m.drain = &DrainStat{}
	if m.cancel != nil {
		m.cancel()
	}
	m.mu.Unlock()
	p.announce()
	if drains {
		p.o.Journal.Add(journal.Drain, "", "this node hands its blocks over and then leaves")
	} else {
		p.o.Journal.Add(journal.Drain, "", "this node stays: its drain was undone")
	}
	m.nudge()
	return nil
}

func (m *mover) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run is the mover's goroutine.
func (m *mover) run() {
	select {
	case <-m.p.Joined():
	case <-m.p.ctx.Done():
		return
	}
	for m.p.ctx.Err() == nil {
		changed := m.p.o.Members.Changed()
		m.watch()
		m.do()
		if !m.wait(changed) {
			return
		}
	}
}

// do does what is to be done now.
func (m *mover) do() {
	ctx, cancel := context.WithCancel(m.p.ctx)
	defer cancel()
	m.mu.Lock()
	m.cancel = cancel
	done := m.drain.State == DrainDone
	m.mu.Unlock()
	switch {
	case m.p.Drains():
		if !done {
			m.drainAll(ctx)
		}
	case m.repairDue():
		m.repairAll(ctx)
	default:
		m.copyHot(ctx)
	}
	m.mu.Lock()
	m.cancel = nil
	m.mu.Unlock()
}

// wait waits until there may be something to do, and reports whether the pool still runs.
func (m *mover) wait(changed <-chan struct{}) bool {
	timer := time.NewTimer(min(m.p.o.Move.RepairEvery, m.p.o.Move.RepairAfter))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-m.wake:
	case <-m.p.ctx.Done():
		return false
	}
	return true
}

// watch notes that members are missed.
func (m *mover) watch() {
	now := map[member.ID]bool{}
	for _, one := range m.p.o.Members.Members() {
		if one.State == member.Active || one.State == member.Draining {
			now[one.ID] = true
		}
	}
	for id := range m.members {
		if !now[id] {
			m.lost = time.Now()
		}
	}
	m.members = now
}

// pace waits until so many bytes may be sent, and reports whether ctx lasts.
func (m *mover) pace(ctx context.Context, nBytes int64) bool {
	m.mu.Lock()
	now := time.Now()
	at := m.nextSend
	if at.Before(now) {
		at = now
	}
	m.nextSend = at.Add(time.Duration(float64(nBytes) / float64(m.bytesPerSecond.Load()) * float64(time.Second)))
	m.mu.Unlock()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pass copies everything of a survey, hottest first. prepare makes the copying for some
// runs of one namespace, nil to leave them; after hears what came of each run.
func (m *mover) pass(ctx context.Context, s *survey, prepare func(*surveyed) *copying, after func(*moveRun, copied)) error {
	for {
		runs, err := s.gather(func() bool { return ctx.Err() == nil })
		if err != nil || len(runs) == 0 {
			return err
		}
		for len(runs) > 0 {
			n, blocks := 0, 0
			for ; n < len(runs) && runs[n].space == runs[0].space && blocks+len(runs[n].items) <= askMax; n++ {
				blocks += len(runs[n].items)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if c := prepare(runs[0].space); c != nil {
				c.ask(ctx, idsOf(runs[:n]))
				m.copyRuns(ctx, c, runs[:n], after)
			}
			runs = runs[n:]
		}
	}
}

func idsOf(runs []moveRun) (ids []ID) {
	for i := range runs {
		for j := range runs[i].items {
			ids = append(ids, runs[i].items[j].id)
		}
	}
	return ids
}

// copyRuns copies some runs, several at once. Who has which blocks has been asked.
func (m *mover) copyRuns(ctx context.Context, c *copying, runs []moveRun, after func(*moveRun, copied)) {
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(copiesBeside, len(runs)) {
		working.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(runs) {
					return
				}
				after(&runs[n], c.run(ctx, &runs[n]))
			}
		})
	}
	working.Wait()
}

// copying begins copies of a namespace's blocks; nil if it was dropped since the survey.
func (m *mover) copying(s *surveyed, h *homes, want int) *copying {
	scope := m.p.scope(s.of)
	if s.Incarnation() != s.of.Incarnation {
		return nil
	}
	return &copying{m: m, of: s.of, space: s.Space, scope: scope, homes: h, want: want, holders: map[ID][]*remote{}}
}

package pool

import (
	"context"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
)

// What DrainStat.State may be.
const (
	DrainMoving  = "moving"  // blocks are on their way
	DrainWaiting = "waiting" // some could not be moved; they are tried again soon
	DrainDone    = "done"    // all that is worth it has a home elsewhere; the node may be stopped
)

// DrainStat is how far a drain is. Blocks count from the beginning of the drain, or of
// the daemon.
type DrainStat struct {
	State          string  `json:"state"`            // moving, waiting or done; empty: the node does not drain
	Cause          string  `json:"cause,omitempty"`  // why it waits
	Pass           int     `json:"pass"`             // how often what is here was gone through; from 1
	Blocks         int     `json:"blocks"`           // here, at the beginning of this pass
	Bytes          int64   `json:"bytes"`            // of those
	LeftBlocks     int     `json:"left_blocks"`      // not gone through yet in this pass
	LeftBytes      int64   `json:"left_bytes"`       // of those
	MovedBlocks    uint64  `json:"moved_blocks"`     // sent to other nodes
	MovedBytes     int64   `json:"moved_bytes"`      // of those
	PresentBlocks  int     `json:"present_blocks"`   // in this pass, found to be elsewhere already
	FailedBlocks   int     `json:"failed_blocks"`    // in this pass, not taken; they are tried again
	ColdBlocks     int     `json:"cold_blocks"`      // left behind: others would lose what is worth more
	NamelessBlocks int     `json:"nameless_blocks"`  // left behind: their keys were lost with an index
	BytesPerSecond float64 `json:"bytes_per_second"` // lately
	SecondsLeft    float64 `json:"seconds_left"`     // of this pass, at that rate; 0: not known
}

// sentBytes is what was moved within a second.
type sentBytes struct {
	second time.Time
	nBytes int64
}

// rateSeconds is over how many seconds the rate is taken.
const rateSeconds = 10

// sentLocked notes what was moved now.
func (m *mover) sentLocked(nBytes int64) {
	now := time.Now().Truncate(time.Second)
	if n := len(m.rate); n == 0 || !m.rate[n-1].second.Equal(now) {
		m.rate = append(m.rate, sentBytes{second: now})
	}
	m.rate[len(m.rate)-1].nBytes += nBytes
	for len(m.rate) > rateSeconds+1 {
		m.rate = m.rate[1:]
	}
}

// drainStat is the progress.
func (m *mover) drainStat() DrainStat {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := *m.drain
	if st.State != DrainMoving {
		return st
	}
	now, sum, from := time.Now(), int64(0), time.Time{}
	for _, s := range m.rate {
		if now.Sub(s.second) <= rateSeconds*time.Second {
			sum += s.nBytes
			if from.IsZero() {
				from = s.second
			}
		}
	}
	if sum > 0 {
		st.BytesPerSecond = float64(sum) / max(now.Sub(from).Seconds(), 1)
		st.SecondsLeft = float64(st.LeftBytes) / st.BytesPerSecond
	}
	return st
}

// drainAll moves this node's blocks until all that are worth it have a home elsewhere. A
// drain that was interrupted begins anew: what was moved before is found to be there.
func (m *mover) drainAll(ctx context.Context) {
	m.mu.Lock()
	d := m.drain
	m.mu.Unlock()
	pause := passPauseMin
	limit := int64(-1)
	for ctx.Err() == nil {
		if moved, settled, err := m.drainPass(ctx, d, &limit); err == nil && settled {
			m.drained(ctx)
			return
		} else if moved > 0 {
			pause = passPauseMin
		}
		if !m.p.sleepWhile(ctx, pause) {
			return
		}
		pause = min(2*pause, passPauseMax)
	}
}

// roomElsewhere is that of the active members.
func roomElsewhere(members []member.Member) (capacityBytes, freeBytes int64) {
	for i := range members {
		if one := &members[i]; !one.Self && one.State == member.Active {
			capacityBytes += one.CapacityBytes
			freeBytes += one.FreeBytes
		}
	}
	return capacityBytes, freeBytes
}

// worthMoving is how many bytes of so many are to be sent. All nodes are full as a rule.
// Then as many of the hottest blocks go as the others would have of them if the pool were
// this node smaller, and push out the coldest of those; the rest would push out what is
// worth more. Negative: nobody knows, for there is no other node.
func (m *mover) worthMoving(nBytes int64) int64 {
	own, _ := m.p.local.Room()
	capacity, free := roomElsewhere(m.p.o.Members.Members())
	if capacity == 0 {
		return -1
	}
	return free + int64(float64(nBytes)*float64(capacity)/float64(capacity+own))
}

// drainPass goes through all blocks once, and says whether nothing is left to be done.
func (m *mover) drainPass(ctx context.Context, d *DrainStat, limit *int64) (moved int, settled bool, err error) {
	s, err := takeSurvey(m.p.local.Spaces(), func() bool { return ctx.Err() == nil })
	if err != nil {
		m.drainWaits(d, err.Error())
		return 0, false, err
	}
	h := m.p.homes()
	want := min(m.p.o.Copies, h.others())
	if *limit < 0 {
		*limit = m.worthMoving(s.bytes)
	}
	m.mu.Lock()
	d.State, d.Cause = DrainMoving, ""
	d.Pass++
	d.Blocks, d.Bytes, d.LeftBlocks, d.LeftBytes, d.NamelessBlocks = s.blocks, s.bytes, s.blocks, s.bytes, s.nameless
	d.PresentBlocks, d.FailedBlocks, d.ColdBlocks = 0, 0, 0
	m.mu.Unlock()
	if want == 0 && s.blocks > 0 {
		m.drainWaits(d, "no other node takes blocks")
		return 0, false, nil
	}
	all, underWay := copied{}, int64(0)
	err = m.pass(ctx, s, func(space *surveyed) *copying {
		c := m.copying(space, h, want)
		if c != nil {
			c.mine = func(*moveItem) bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				if d.MovedBytes+underWay >= *limit {
					return false
				}
				underWay += int64(space.of.BlockBytes)
				return true
			}
		}
		return c
	}, func(run *moveRun, done copied) {
		m.mu.Lock()
		defer m.mu.Unlock()
		all.add(done)
		underWay -= int64(len(run.items)-done.present-done.others) * int64(run.space.of.BlockBytes)
		d.LeftBlocks -= len(run.items)
		d.LeftBytes -= int64(len(run.items)) * int64(run.space.of.BlockBytes)
		d.MovedBlocks += uint64(done.stored)
		d.MovedBytes += done.bytes
		d.PresentBlocks += done.present
		d.FailedBlocks += done.failed
		d.ColdBlocks += done.others
		m.sentLocked(done.bytes)
	})
	if err != nil {
		m.drainWaits(d, err.Error())
		return all.stored, false, err
	}
	if all.failed > 0 {
		m.drainWaits(d, "other nodes did not take everything")
	}
	return all.stored, all.failed == 0 && all.stored == 0, nil
}

func (m *mover) drainWaits(d *DrainStat, cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.State, d.Cause = DrainWaiting, cause
}

// drained ends a drain: the others need not ask this node any more.
func (m *mover) drained(ctx context.Context) {
	m.mu.Lock()
	if ctx.Err() != nil { // undone meanwhile
		m.mu.Unlock()
		return
	}
	m.drain.State, m.drain.Cause = DrainDone, ""
	d := *m.drain
	m.p.erase.leaves.Store(true)
	m.mu.Unlock()
	m.p.announce()
	m.p.o.Journal.Add(journal.Drain, "", "this node has handed its blocks over and may be stopped: %d sent, at last %d of %d found elsewhere, %d not worth it",
		d.MovedBlocks, d.PresentBlocks, d.Blocks, d.ColdBlocks+d.NamelessBlocks)
}

// others is how many nodes beside this one take blocks.
func (h *homes) others() (n int) {
	for _, r := range h.nodes {
		if r != nil {
			n++
		}
	}
	return n
}

// sleepWhile waits, and reports whether ctx lasts.
func (p *Pool) sleepWhile(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

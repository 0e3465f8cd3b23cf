package pool

import (
	"context"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/tiering/place"
)

// RepairStat is what was done about lost copies. Blocks count from the daemon's start.
type RepairStat struct {
	Running        bool   `json:"running"`         // now
	Passes         uint64 `json:"passes"`          // times that everything here was gone through
	LeftBlocks     int    `json:"left_blocks"`     // not gone through yet in this pass
	RestoredBlocks uint64 `json:"restored_blocks"` // copies made
	RestoredBytes  int64  `json:"restored_bytes"`  // of those
	FailedBlocks   uint64 `json:"failed_blocks"`   // copies that could not be made; the next pass tries again
	NoRoomBlocks   uint64 `json:"no_room_blocks"`  // not copied as nobody has room, and they were not used since they were put
}

// displaceShare is which part of a full node's capacity a pass may fill with blocks that
// have been used: others go for them.
const displaceShare = 16

// repairDue says whether it is time to look for lost copies.
func (m *mover) repairDue() bool {
	if m.p.o.Copies < 2 || m.p.state() != member.Active {
		return false
	}
	now := time.Now()
	return now.Sub(m.repaired) >= m.p.o.Move.RepairEvery || !m.lost.IsZero() && now.Sub(m.lost) >= m.p.o.Move.RepairAfter
}

// repairAll goes through all blocks once, and makes the copies that are missing, of those
// that are this node's to send: among the nodes that have a block it is the first by
// rendezvous.
func (m *mover) repairAll(ctx context.Context) {
	s, err := takeSurvey(m.p.local.Spaces(), func() bool { return ctx.Err() == nil })
	if err == nil {
		m.setRepairing(true, s.blocks)
		err = m.repairPass(ctx, s)
		m.setRepairing(false, 0)
	}
	if err != nil && ctx.Err() == nil {
		m.p.log.Warn("lost copies were not looked for", "cause", err)
	}
	m.lost, m.repaired = time.Time{}, time.Now()
}

func (m *mover) setRepairing(running bool, left int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repair.Running, m.repair.LeftBlocks = running, left
	if !running {
		m.repair.Passes++
	}
}

func (m *mover) repairPass(ctx context.Context, s *survey) error {
	h := m.p.homes()
	want := min(m.p.o.Copies-1, h.others()) // beside the one here
	if want == 0 {
		return nil
	}
	before := m.moveStat().Repair.RestoredBlocks
	room := newRoom(m.p.o.Members.Members())
	err := m.pass(ctx, s, func(space *surveyed) *copying {
		c := m.copying(space, h, want)
		if c == nil {
			return nil
		}
		c.mine = func(it *moveItem, holders []*remote) bool {
			// Who does not answer may have it. The next pass asks again.
			return !c.unheard && m.first(it.id, holders)
		}
		c.room = func(r *remote, it *moveItem) bool { return room.take(r.id, it.used, int64(c.of.BlockBytes)) }
		return c
	}, func(run *moveRun, done copied) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.repair.LeftBlocks -= len(run.items)
		m.repair.RestoredBlocks += uint64(done.stored)
		m.repair.RestoredBytes += done.bytes
		m.repair.FailedBlocks += uint64(done.failed)
		return true
	})
	m.mu.Lock()
	m.repair.NoRoomBlocks += room.refused
	m.repair.FailedBlocks -= min(m.repair.FailedBlocks, room.refused)
	restored := m.repair.RestoredBlocks - before
	m.mu.Unlock()
	if restored > 0 {
		m.p.o.Journal.Add(journal.Repair, "", "%d copies of blocks that were lost elsewhere were made anew", restored)
	}
	return err
}

// first says whether this node comes first among those that have a block.
func (m *mover) first(id ID, holders []*remote) bool {
	nodes := []place.Node{{ID: m.p.o.Node, Weight: 1}}
	for _, r := range holders {
		nodes = append(nodes, place.Node{ID: r.id, Weight: 1})
	}
	return place.NewSet(nodes).Home(id) == 0
}

// room is what nodes can take in a repair.
type room struct {
	mu      sync.Mutex
	free    map[member.ID]int64 // without evicting
	more    map[member.ID]int64 // and beyond, of what is used
	refused uint64
}

func newRoom(members []member.Member) *room {
	r := &room{free: map[member.ID]int64{}, more: map[member.ID]int64{}}
	for i := range members {
		one := &members[i]
		r.free[one.ID] = one.FreeBytes - one.CapacityBytes/displaceShare // new blocks want room, too
		r.more[one.ID] = one.CapacityBytes / displaceShare
	}
	return r
}

// take says whether a node has room for a block, and counts it. Copies that push out
// other blocks are made only of what is used: else two nodes could go on for ever, each
// restoring what the other has pushed out.
func (r *room) take(id member.ID, used bool, nBytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.free[id] >= nBytes:
		r.free[id] -= nBytes
	case used && r.more[id] >= nBytes:
		r.more[id] -= nBytes
	default:
		r.refused++
		return false
	}
	return true
}

// MoveStat is what the pool moves of its own accord.
type MoveStat struct {
	Drain  DrainStat  `json:"drain"`
	Repair RepairStat `json:"repair"`
	Hot    HotStat    `json:"hot"`
}

func (m *mover) moveStat() MoveStat {
	st := MoveStat{Drain: m.drainStat(), Hot: m.hot.stat()}
	m.mu.Lock()
	st.Repair = m.repair
	m.mu.Unlock()
	return st
}

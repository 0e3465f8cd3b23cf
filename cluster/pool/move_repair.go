package pool

import (
	"context"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/place"
)

// RepairStat is what was done about lost copies. Blocks count from the daemon's start.
type RepairStat struct {
	Running        bool   `json:"running"`         // now
	Passes         uint64 `json:"passes"`          // times that everything here was gone through
	CheckedBlocks  int    `json:"checked_blocks"`  // gone through in this pass, or the latest
	RestoredBlocks uint64 `json:"restored_blocks"` // copies made
	RestoredBytes  int64  `json:"restored_bytes"`  // of those
	FailedBlocks   uint64 `json:"failed_blocks"`   // of which copies could not be made; the next pass tries again
	UnheardBlocks  uint64 `json:"unheard_blocks"`  // not judged, as a node that may have copies did not answer
	NoRoomBlocks   uint64 `json:"no_room_blocks"`  // copies not made as a node has no room, and the block was not used since it was put
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
	h := m.p.homes()
	r := &repairing{m: m, homes: h, want: min(m.p.o.Copies-1, h.others()), room: newRoom(m.p.o.Members.Members()), survey: newSurvey(m.p.local.Spaces())}
	m.mu.Lock()
	m.repair.Running, m.repair.CheckedBlocks = true, 0
	before := m.repair.RestoredBlocks
	m.mu.Unlock()
	for i := range r.survey.spaces {
		for place := (&Cursor{}); place != nil && r.want > 0 && ctx.Err() == nil; {
			var err error
			if place, err = r.some(ctx, i, *place); err != nil {
				m.p.log.Warn("lost copies were not looked for", "cause", err)
				break
			}
		}
	}
	m.mu.Lock()
	m.repair.Running = false
	m.repair.Passes++
	m.repair.NoRoomBlocks += r.room.refused
	restored := m.repair.RestoredBlocks - before
	m.mu.Unlock()
	if restored > 0 {
		m.p.o.Journal.Add(journal.Repair, "", "%d copies of blocks that were lost elsewhere were made anew", restored)
	}
	m.lost, m.repaired = time.Time{}, time.Now()
}

// repairing is one pass.
type repairing struct {
	m      *mover
	homes  *homes
	want   int // copies beside the one here
	room   *room
	survey *survey
}

// some looks at the blocks of a space from a place on, until there are many that lack
// copies, and makes those. It returns where to go on; nil: there are no more.
func (r *repairing) some(ctx context.Context, space int, from Cursor) (next *Cursor, err error) {
	c := r.m.copying(&r.survey.spaces[space], r.homes, r.want)
	if c == nil {
		return nil, nil
	}
	c.room = func(to *remote, it *moveItem) bool { return r.room.take(to.id, it.used(), int64(c.of.BlockBytes)) }
	var asked, lacking []moveItem
	place := from
	err = r.survey.scan(space, from, func(at Cursor, e *engine.Entry) bool {
		place = at
		if asked = append(asked, newMoveItem(at.Store, e)); len(asked) == askMax {
			lacking, asked = append(lacking, r.lacking(ctx, c, asked)...), asked[:0]
		}
		if len(lacking) < gatherMax && ctx.Err() == nil {
			return true
		}
		next = &place
		return false
	})
	lacking = append(lacking, r.lacking(ctx, c, asked)...)
	r.m.copyRuns(ctx, c, r.survey.runs(space, lacking), func(_ *moveRun, done copied) {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		r.m.repair.RestoredBlocks += uint64(done.stored)
		r.m.repair.RestoredBytes += done.bytes
		r.m.repair.FailedBlocks += uint64(done.failed)
	})
	return next, err
}

// lacking are those of some blocks of which copies are missing that this node is to make.
// Who does not answer may have one: then nothing is missing, before the next pass.
func (r *repairing) lacking(ctx context.Context, c *copying, asked []moveItem) (lacking []moveItem) {
	if len(asked) == 0 {
		return nil
	}
	ids := make([]ID, len(asked))
	for i := range asked {
		ids[i] = asked[i].id
	}
	heard := c.ask(ctx, ids)
	for i := range asked {
		if holders := c.holders[ids[i]]; heard && len(holders) < r.want && r.m.first(ids[i], holders) {
			lacking = append(lacking, asked[i])
		} else {
			delete(c.holders, ids[i])
		}
	}
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.repair.CheckedBlocks += len(asked)
	if !heard {
		r.m.repair.UnheardBlocks += uint64(len(asked))
	}
	return lacking
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
	Drain  DrainStat  `json:"drain"`  // handing everything over, before the node leaves
	Repair RepairStat `json:"repair"` // making copies anew that were lost
	Hot    HotStat    `json:"hot"`    // keeping copies here of what is read often
}

func (m *mover) moveStat() MoveStat {
	st := MoveStat{Drain: m.drainStat(), Hot: m.hot.stat()}
	m.mu.Lock()
	st.Repair = m.repair
	m.mu.Unlock()
	return st
}

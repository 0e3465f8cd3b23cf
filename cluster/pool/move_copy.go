package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/tiering/admit"
)

const (
	// copyBytes is what is read and sent at once, unless a block is larger.
	copyBytes = 8 << 20
	// copyTime bounds one such read and each of its pushes.
	copyTime = 30 * time.Second
	// askMax bounds the blocks of one question who has them.
	askMax = 1024
	// homesBeyond is how many homes beyond those that are wanted are tried for a run.
	homesBeyond = 2
)

// copying makes copies of the blocks of some runs of one namespace on other nodes.
type copying struct {
	m     *mover
	of    Of
	space Space
	scope *peer.Scope // from before any block was read
	homes *homes
	want  int // copies that stay, on active members
	// mine says whether a block of which copies are missing is to be sent; nil: all are.
	mine func(it *moveItem) bool
	// room says whether a node may take a block.
	room func(r *remote, it *moveItem) bool

	holders map[ID][]*remote // active members that have a block
}

// copied is what came of some blocks.
type copied struct {
	present int // as many copies as are wanted were there
	stored  int // copies made
	bytes   int64
	failed  int // blocks that still miss copies, and may get them another time
	refused int // of those, because a node was too busy
	gone    int // blocks that this node does not have any more
	others  int // blocks that miss copies and are not to be sent
}

func (c *copied) add(d copied) {
	c.present += d.present
	c.stored += d.stored
	c.bytes += d.bytes
	c.failed += d.failed
	c.refused += d.refused
	c.gone += d.gone
	c.others += d.others
}

// ask finds out which active members have which blocks. heard: everybody who may have
// some has answered.
func (c *copying) ask(ctx context.Context, ids []ID) (heard bool) {
	rest := peer.AppendMatch(nil, 0, ids)
	var mu sync.Mutex
	var asking sync.WaitGroup
	heard = true
	for _, r := range c.m.p.peers.all() {
		if state := r.described().State; state != member.Active && state != member.Draining {
			continue
		}
		asking.Go(func() {
			a, err := c.askOne(ctx, r, rest, len(ids))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				heard = false
			case r.described().State == member.Active:
				for i := range ids {
					if a.Has(i) {
						c.holders[ids[i]] = append(c.holders[ids[i]], r)
					}
				}
			}
		})
	}
	asking.Wait()
	return heard
}

func (c *copying) askOne(ctx context.Context, r *remote, rest []byte, n int) (a peer.Matched, err error) {
	if !r.usable() {
		return a, errDown
	}
	full, cancel := context.WithTimeout(ctx, c.m.p.probeTime())
	defer cancel()
	body, err := r.call(full, c.of, peer.KindMatch, rest)
	if code, told := codeOf(err); told && code == transport.CodeUnknown {
		return peer.Matched{Bitmap: make([]byte, (n+7)/8)}, nil // it has nothing of the namespace
	}
	if err != nil {
		return a, err
	}
	return peer.ParseMatched(body, n)
}

// run makes the missing copies of one run.
func (c *copying) run(ctx context.Context, run *moveRun) (done copied) {
	var todo []int
	for i := range run.items {
		it := &run.items[i]
		switch holders := c.holders[it.id]; {
		case len(holders) >= c.want:
			done.present++
		case c.mine != nil && !c.mine(it):
			done.others++
		default:
			todo = append(todo, i)
		}
	}
	if len(todo) == 0 {
		return done
	}
	order := slices.DeleteFunc(c.homes.order(run.items[0].id, c.want), func(r *remote) bool { return r == nil })
	order = order[:min(len(order), c.want+homesBeyond)]
	most := max(1, copyBytes/c.of.BlockBytes)
	for len(todo) > 0 { // tail first: a leaf ages before its parent
		from := max(0, len(todo)-most)
		done.add(c.part(ctx, run, todo[from:], order))
		todo = todo[:from]
	}
	return done
}

// part reads some blocks of a run, and sends them to as many of the homes as are wanted.
func (c *copying) part(ctx context.Context, run *moveRun, todo []int, order []*remote) (done copied) {
	if !c.m.pace(ctx, int64(len(todo))*int64(c.of.BlockBytes)) {
		done.failed += len(todo)
		return done
	}
	read := c.read(ctx, run, todo)
	defer read.free()
	for _, r := range order {
		var items []int // of todo
		for n, i := range todo {
			it := &run.items[i]
			if holders := c.holdersOf(it.id); read.blocks[n] != nil && len(holders) < c.want && !slices.Contains(holders, r) && (c.room == nil || c.room(r, it)) {
				items = append(items, n)
			}
		}
		if len(items) > 0 && ctx.Err() == nil {
			done.add(c.push(ctx, r, run, todo, items, read))
		}
	}
	for n, i := range todo {
		switch {
		case read.blocks[n] == nil && read.tried:
			done.gone++
		case len(c.holdersOf(run.items[i].id)) < c.want:
			done.failed++
		}
	}
	return done
}

// holdersOf are those who have a block by now. Runs are sent at the same time, but no
// block is in two of them.
func (c *copying) holdersOf(id ID) []*remote {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.holders[id]
}

// copyRead is blocks that were read to be sent.
type copyRead struct {
	blocks []([]byte) // nil: not here any more, or not in time
	sums   []uint64
	tried  bool // the time was not out
	free   func()
}

// read reads blocks when the drives have nothing better to do.
func (c *copying) read(ctx context.Context, run *moveRun, todo []int) *copyRead {
	size := c.of.BlockBytes
	memory, free := putMemory(len(todo) * size)
	r := &copyRead{blocks: make([][]byte, len(todo)), sums: make([]uint64, len(todo)), free: free}
	ids := make([]ID, len(todo))
	for n, i := range todo {
		ids[n] = run.items[i].id
	}
	full, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	c.space.Copy(full, ids, func(n int, pieces [][]byte, checksum uint64, done func()) {
		block, at := memory[n*size:(n+1)*size:(n+1)*size], 0
		for _, p := range pieces {
			at += copy(block[at:], p)
		}
		done()
		r.blocks[n], r.sums[n] = block, checksum // each n once
	})
	r.tried = full.Err() == nil
	return r
}

// push sends blocks to one node.
func (c *copying) push(ctx context.Context, r *remote, run *moveRun, todo, items []int, read *copyRead) (done copied) {
	m := &peer.Put{Scope: *c.scope, Flags: peer.PutAdmitted}
	blocks := make([][][]byte, len(items))
	for j, n := range items {
		it := &run.items[todo[n]]
		m.Items = append(m.Items, peer.PutItem{Checksum: read.sums[n], Depth: it.depth, Importance: it.importance, Key: it.key})
		blocks[j] = [][]byte{read.blocks[n]}
	}
	nBytes := int64(len(items)) * int64(c.of.BlockBytes)
	full, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	if r.puts.enter(full, nBytes) != nil {
		return done
	}
	taken, err := c.send(full, r, m, blocks)
	c.m.mu.Lock()
	for j := range taken {
		id := run.items[todo[items[j]]].id
		switch taken[j].Status {
		case peer.PutStored:
			done.stored++
			done.bytes += int64(c.of.BlockBytes)
			c.holders[id] = append(slices.Clone(c.holders[id]), r)
		case peer.PutPresent:
			c.holders[id] = append(slices.Clone(c.holders[id]), r)
		case peer.PutDropped, peer.PutLate:
			if why := taken[j].Reason; why == admit.QueueFull || why == admit.OverBudget || taken[j].Status == peer.PutLate {
				done.refused++
			}
		}
	}
	c.m.mu.Unlock()
	r.puts.leave(nBytes, done.bytes)
	if code, told := codeOf(err); told && code == transport.CodeBusy || errors.Is(err, errFull) {
		done.refused += len(items)
	} else if err != nil && ctx.Err() == nil {
		c.m.p.log.Debug("blocks were not moved", "peer", r.id, "blocks", len(items), "cause", err)
	}
	r.puts.stored.Add(uint64(done.stored))
	r.puts.storedBytes.Add(uint64(done.bytes))
	return done
}

// send pushes; a peer that does not know the namespace is told of it.
func (c *copying) send(ctx context.Context, r *remote, m *peer.Put, blocks [][][]byte) (taken []peer.Taken, err error) {
	for again := false; ; again = true {
		err = r.push(ctx, c.of, m, blocks, func(answer []byte) (err error) {
			taken, err = peer.ParseTaken(answer, len(blocks))
			return err
		})
		if code, told := codeOf(err); again || !told || code != transport.CodeUnknown {
			return taken, err
		}
		if err := r.describe(ctx, c.of); err != nil {
			return nil, err
		}
	}
}

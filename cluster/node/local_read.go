package node

import (
	"context"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

const (
	// peerChunkBytes is what is read for a peer at once, unless a block is larger: small, so
	// that the first blocks are on their way while the next are read. peerWorkers of them
	// wait for a drive or are read at the same time.
	peerChunkBytes = 4 << 20
	peerWorkers    = 4
	// peerReader is who the memory tier takes all peers for.
	peerReader = ^uint64(0)
	// quietTime is how long a copy that the pool makes of its own accord waits for a drive
	// that nobody needs. Then it takes a turn like others: it must come to its end.
	quietTime = 250 * time.Millisecond
)

// peerRead is blocks on their way from the stores to a peer.
type peerRead struct {
	batch
	ctx      context.Context
	ids      []pool.ID
	versions []engine.Version
	sums     []uint64
	frames   []peerFrame
	ready    func(i int, pieces [][]byte, checksum uint64, done func())
	quiet    bool // the lowest priority
}

// Read implements pool.Space.
func (p poolSpace) Read(ctx context.Context, ids []pool.ID, ready func(i int, pieces [][]byte, checksum uint64, done func())) {
	p.read(ctx, ids, ready, false)
}

// Copy implements pool.Space.
func (p poolSpace) Copy(ctx context.Context, ids []pool.ID, ready func(i int, pieces [][]byte, checksum uint64, done func())) {
	p.read(ctx, ids, ready, true)
}

func (p poolSpace) read(ctx context.Context, ids []pool.ID, ready func(i int, pieces [][]byte, checksum uint64, done func()), quiet bool) {
	r := &peerRead{ctx: ctx, ids: ids, versions: make([]engine.Version, len(ids)), sums: make([]uint64, len(ids)),
		frames: make([]peerFrame, len(ids)), ready: ready, quiet: quiet}
	r.batch = batch{node: p.n, space: p.s, class: loads, statuses: make([]byte, len(ids)), over: ctx.Done(), note: p.n.note,
		freed: func(i int) { r.frames[i].Release() }}
	homes := r.find()
	r.sendNear(homes)
	if int64(p.s.blockBytes) > p.n.frames.mostBytes() {
		return
	}
	deadline, _ := ctx.Deadline()
	o := engine.GetOptions{Deadline: deadline, Done: ctx.Done(), NoTouch: true}
	chunks := map[*part]chan chunk{}
	for _, c := range r.cut(homes, min(peerChunkBytes, p.n.frames.mostBytes()/(2*peerWorkers))) {
		if chunks[c.part] == nil {
			chunks[c.part] = make(chan chunk, len(ids))
		}
		chunks[c.part] <- c
	}
	var workers sync.WaitGroup
	for _, of := range chunks {
		close(of)
		for range min(peerWorkers, len(of)) {
			workers.Go(func() {
				for c := range of {
					r.load(&c, o)
				}
			})
		}
	}
	workers.Wait()
}

// find says which store has which blocks, and of which puts.
func (r *peerRead) find() (homes [][]int) {
	homes = make([][]int, len(r.space.parts))
	for h := range r.space.parts {
		part := &r.space.parts[h]
		if !part.well() {
			continue
		}
		own, sums := make([]engine.Version, len(r.ids)), make([]uint64, len(r.ids))
		if part.ns.VersionsIDs(r.ids, own, sums) != nil {
			continue // the store is closed
		}
		for i, v := range own {
			if v.Position > 0 && r.versions[i].Position == 0 {
				r.versions[i], r.sums[i] = v, sums[i]
				homes[h] = append(homes[h], i)
			}
		}
	}
	return homes
}

// sendNear gives away the blocks that are in memory, and takes them from homes.
func (r *peerRead) sendNear(homes [][]int) {
	tier := r.node.memory
	if tier == nil {
		return
	}
	items := make([]memory.Item, len(r.ids))
	for i := range items {
		items[i] = memory.Item{Version: r.versions[i], Depth: uint32(i)}
	}
	if tier.Find(peerReader, items) == 0 {
		return
	}
	for h, home := range homes {
		rest := home[:0]
		for _, i := range home {
			if block := items[i].Block; block.Valid() {
				r.statuses[i] = byte(wire.Hit)
				r.ready(i, [][]byte{block.Bytes()}, r.sums[i], block.Release)
			} else {
				rest = append(rest, i)
			}
		}
		homes[h] = rest
	}
}

// load reads a chunk, as many blocks at once as there are frames for. No turn of the drive
// is held while frames are awaited: those are with peers.
func (r *peerRead) load(c *chunk, o engine.GetOptions) {
	for len(c.items) > 0 {
		n := r.borrow(c.items)
		if n == 0 {
			return // nobody waits any more, or there is no memory
		}
		some := *c
		some.items, some.bytes = c.items[:n], int64(n)*int64(r.space.blockBytes)
		c.items = c.items[n:]
		if turn, ok := r.enter(&some); ok {
			r.during(turn, &some, wire.Hit, func() { r.get(&some, o) })
		} else {
			r.tooLate(some.items)
		}
		for _, i := range some.items {
			switch f := r.frames[i]; wire.Status(r.statuses[i]) {
			case wire.Hit:
				r.ready(i, [][]byte{f.Bytes()}, r.sums[i], f.Release)
			case wire.Late: // the frame is the store's until it is freed
			default:
				f.Release()
			}
		}
	}
}

// enter waits for a chunk's turn.
func (r *peerRead) enter(c *chunk) (turn, bool) {
	d := c.part.drive
	if r.quiet {
		waiting, cancel := context.WithTimeout(r.ctx, quietTime)
		turn, ok := d.enter(c.part.flow, c.stream, prefetches, c.bytes, waiting.Done())
		cancel()
		if ok || r.ctx.Err() != nil {
			return turn, ok
		}
	}
	return d.enter(c.part.flow, c.stream, loads, c.bytes, r.over)
}

// borrow takes frames for the first of the items, as many as there are, and waits for
// one, as long as somebody waits for the blocks.
func (r *peerRead) borrow(items []int) (n int) {
	frames := r.node.frames
	for {
		returned := frames.Notify()
		for ; n < len(items); n++ {
			f := frames.tryGet(r.space.blockBytes)
			if f == nil {
				break
			}
			r.frames[items[n]] = f
		}
		if n > 0 {
			return n
		}
		refused := frames.InUse() == 0
		select {
		case <-returned:
			continue
		default:
		}
		if refused { // by the system: nothing will come back
			return 0
		}
		select {
		case <-returned:
		case <-r.over:
			return 0
		}
	}
}

// get reads a chunk now.
func (r *peerRead) get(c *chunk, o engine.GetOptions) {
	items, ids := make([]engine.GetItem, len(c.items)), make([]pool.ID, len(c.items))
	for j, i := range c.items {
		items[j].Dst, ids[j] = [][]byte{r.frames[i].Bytes()}, r.ids[i]
	}
	o.Released = func(j int) { r.freed(c.items[j]) }
	if err := c.part.ns.GetIDs(ids, items, o); err != nil {
		r.set(c.items, wire.Miss) // the store is closed
		return
	}
	for j, i := range c.items {
		r.answer(i, items[j].Status, items[j].Err, "a block was not read for a peer")
		r.sums[i] = items[j].Checksum // of this put, should it be another than was found
	}
}

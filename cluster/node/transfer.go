package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// transfer is a client's Get or Put under way.
type transfer struct {
	batch
	q          *request
	regions    map[uint32]*region
	versions   []engine.Version // of a load, where the node has a memory tier: what is here
	fromMemory int              // blocks that came from there
	fromAway   int              // blocks that came from other nodes
	storedAway int              // blocks that only other nodes have stored
	noTouch    bool             // of a load: leave ages as they are

	mu       sync.Mutex
	answered bool
	late     int           // items LATE and not told to be released
	early    wire.Released // released before the answer

	telling sync.Mutex // keeps the messages of releases in order, the last one last
}

// startTransfer is newTransfer for a request whose flags must be among known; it
// refuses and ends the request, and returns nil, if there can be none.
func (q *request) startTransfer(flags, known, number, group uint32, packed wire.Keys, places wire.Places, class class) *transfer {
	t, err := (*transfer)(nil), error(nil)
	if flags&^known != 0 {
		err = argument(fmt.Sprintf("unknown flags %#x", flags))
	} else {
		t, err = q.newTransfer(number, group, packed, places, class)
	}
	if err != nil {
		q.refuse(err)
		q.finish()
		return nil
	}
	return t
}

// newTransfer finds the memory of every key. It holds the regions until end.
func (q *request) newTransfer(number, group uint32, packed wire.Keys, places wire.Places, class class) (*transfer, error) {
	c := q.c
	s, keys, err := c.asked(number, group, packed)
	if err != nil {
		return nil, err
	}
	if len(keys)*places.Each() > c.options.KeysMax*piecesPerKey {
		return nil, limit(fmt.Sprintf("a request of %d pieces, %d is the limit", len(keys)*places.Each(), c.options.KeysMax*piecesPerKey), "split it")
	}
	t := &transfer{q: q, regions: map[uint32]*region{}}
	t.batch = batch{node: c.node, space: s, class: class, keys: keys, pieces: make([][][]byte, len(keys)), statuses: make([]byte, len(keys)),
		over: q.over, freed: t.released, note: c.note}
	if err := t.find(places); err != nil {
		t.letGo()
		return nil, err
	}
	return t, nil
}

// find turns places into memory.
func (t *transfer) find(places wire.Places) error {
	each := places.Each()
	all := make([][]byte, len(t.keys)*each)
	for i := range t.keys {
		own, total, bad := all[i*each:(i+1)*each], 0, false
		for j := range own {
			p := places.At(i, j)
			r, err := t.region(p.Region)
			if err != nil {
				return err
			}
			total += int(p.LengthBytes)
			if own[j], err = r.memory.Slice(p.Offset, uint64(p.LengthBytes)); err != nil {
				bad = true
			}
		}
		if total != t.space.blockBytes {
			return argument(fmt.Sprintf("key %d has places of %d bytes together, a block of namespace %q has %d", i, total, t.space.name, t.space.blockBytes))
		}
		if bad {
			t.node.counters.faults.Add(1)
			continue
		}
		t.pieces[i] = own
	}
	return nil
}

// region holds a region of the connection for this transfer.
func (t *transfer) region(number uint32) (*region, error) {
	if r := t.regions[number]; r != nil {
		return r, nil
	}
	c := t.q.c
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.regions[number]
	if r == nil || r.memory.Acquire() != nil {
		return nil, unknown(fmt.Sprintf("region %d is not registered on this connection", number))
	}
	t.regions[number] = r
	return r, nil
}

func (t *transfer) letGo() {
	for _, r := range t.regions {
		r.memory.Release()
	}
}

// released is the engine's word that it is done with the memory of a late item. It
// comes on a goroutine that ends transfers: nothing may wait here.
func (t *transfer) released(i int) {
	t.mu.Lock()
	early := !t.answered
	if early {
		t.early = append(t.early, uint32(i))
	}
	t.mu.Unlock()
	if !early {
		t.q.c.releases.add(t, uint32(i))
	}
}

// reply sends the statuses and then what has been released already. good says which
// statuses make a prefix.
func (t *transfer) reply(good func(wire.Status) bool) {
	results := &wire.Results{Statuses: t.statuses, Reasons: t.reasons, TimeUS: uint32(min(time.Since(t.q.came).Microseconds(), 1<<32-1))}
	for int(results.Prefix) < len(t.statuses) && good(wire.Status(t.statuses[results.Prefix])) {
		results.Prefix++
	}
	t.count(int(results.Prefix))
	late := 0
	for _, s := range t.statuses {
		if wire.Status(s) == wire.Late {
			late++
		}
	}
	if late == 0 {
		t.q.leave()
	}
	t.q.answer(results)
	t.mu.Lock()
	t.answered = true
	t.late += late
	early := t.early
	t.late++ // until early is told
	t.mu.Unlock()
	t.tell(early, 1)
}

// tell says which late items are released, and ends the transfer with the last of
// them. more is added to their number.
func (t *transfer) tell(items wire.Released, more int) {
	q := t.q
	t.telling.Lock()
	t.mu.Lock()
	t.late -= len(items) + more
	last := t.late == 0
	t.mu.Unlock()
	if last {
		q.leave()
	}
	if len(items) > 0 {
		q.c.out.add(func(b []byte) []byte { return wire.AppendFrame(b, wire.TypeReleased, q.number, items) }, nil)
	}
	t.telling.Unlock()
	if last {
		t.end()
	}
}

// end is the last of a transfer: it has its answer, and no memory is in use.
func (t *transfer) end() {
	t.letGo()
	t.q.finish()
}

// count adds a finished transfer to its namespace's counters.
func (t *transfer) count(prefix int) {
	var n [8]uint64
	for _, s := range t.statuses {
		n[s]++
	}
	k := &t.space.counters
	add := func(c *atomic.Uint64, s wire.Status) { c.Add(n[s]) }
	if t.class == loads {
		add(&k.hits, wire.Hit)
		add(&k.misses, wire.Miss)
		add(&k.late, wire.Late)
		add(&k.busy, wire.Busy)
		k.memoryHits.Add(uint64(t.fromMemory))
		k.remoteHits.Add(uint64(t.fromAway))
		k.prefixHits.Add(uint64(prefix))
		k.readBytes.Add(n[wire.Hit] * uint64(t.space.blockBytes))
		return
	}
	var not [len(k.refused)]uint64
	for _, why := range t.reasons {
		not[why]++
	}
	for why := 1; why < len(not); why++ {
		k.refused[why].Add(not[why])
	}
	t.node.times.put(time.Now(), n[wire.Stored]+n[wire.Present], n[wire.Dropped]-not[admit.Partial]-not[admit.FirstSight])
	add(&k.stored, wire.Stored)
	add(&k.latePuts, wire.Late)
	add(&k.present, wire.Present)
	add(&k.dropped, wire.Dropped)
	k.remoteStored.Add(uint64(t.storedAway))
	k.writtenBytes.Add((n[wire.Stored] - uint64(t.storedAway)) * uint64(t.space.blockBytes))
}

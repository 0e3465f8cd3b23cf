package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/origin"
	"github.com/spillway-kv/spillway/fio/payload"
)

// connectTime bounds the wait for a daemon.
const connectTime = 10 * time.Second

// pool drives a daemon. Each lane is a client of its own.
type pool struct {
	j     *job.Job
	o     client.Options
	tries *freshKeys
}

func openPool(ctx context.Context, s *Set, j *job.Job) (Target, error) {
	p := &pool{j: j, o: client.Options{Path: j.Socket, Name: "spillway fio", Logger: s.o.Logger}, tries: newFreshKeys()}
	if p.o.Path == "" {
		p.o.Path = client.DefaultPath
	}
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if s.o.Foreign || !j.Writes {
		return p, nil
	}
	return p, onlyBenchmarks(ctx, c)
}

func (p *pool) dial(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	c, err := client.Dial(ctx, p.o)
	if err != nil {
		return nil, fmt.Errorf("no daemon at %s (%v): start one with spillway serve, or name its socket with socket=", p.o.Path, err)
	}
	return c, nil
}

// onlyBenchmarks refuses a daemon that keeps blocks of others, which writes could
// evict.
func onlyBenchmarks(ctx context.Context, c *client.Client) error {
	b, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	var stat struct {
		Stores []struct {
			Namespaces []struct {
				Name   string `json:"name"`
				Blocks int    `json:"blocks"`
			} `json:"namespaces"`
		} `json:"stores"`
	}
	if err := json.Unmarshal(b, &stat); err != nil {
		return fmt.Errorf("the daemon's state: %w", err)
	}
	for _, st := range stat.Stores {
		for _, ns := range st.Namespaces {
			if ns.Name != Descriptor(0, 0).Name && ns.Blocks > 0 {
				return fmt.Errorf("the pool: %w: it keeps %d blocks of namespace %q, which the job may evict; only read, or allow it with --allow-foreign", ErrForeign, ns.Blocks, ns.Name)
			}
		}
	}
	return nil
}

// Facts implements Target.
func (p *pool) Facts() Facts {
	return Facts{Engine: job.EnginePool.String(), Path: p.o.Path, Notes: []string{
		"there is no slat: when the daemon calls the system is not seen from here",
		"a write of a block that is present already becomes a write of a new one: a store never writes over a block",
		"the daemon answers a damaged block as a miss; its own counters tell"}}
}

// Counts implements Counter.
func (p *pool) Counts(ctx context.Context) (*origin.Counts, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	counts, err := origin.Read(ctx, c)
	return &counts, err
}

// Close implements Target.
func (p *pool) Close() error { return nil }

// Lane implements Target.
func (p *pool) Lane(int) (Lane, error) {
	c, err := p.dial(context.Background())
	if err != nil {
		return nil, err
	}
	l := &poolLane{p: p, c: c, spaces: map[space]*client.Namespace{}}
	l.crew = newCrew(p.j.IODepth, p.j.Offload, l.do)
	return l, nil
}

// poolLane asks for one block in each call; of a chain, for all that were handed over
// together.
type poolLane struct {
	p    *pool
	c    *client.Client
	crew *crew

	touch touched
	// region is the memory of all IOs, since a daemon bounds the regions of a client;
	// what lies behind free is nobody's yet.
	region *client.Region
	free   int64

	mu     sync.Mutex
	spaces map[space]*client.Namespace
}

// poolIO is a poolLane's part of an IO.
type poolIO struct {
	region *client.Region
	offset int64          // of the IO's memory in it
	blocks []client.Block // of the call that this IO owns
	place  [1]client.Place
	key    blockKey
}

// DepthMax implements Lane.
func (l *poolLane) DepthMax() int { return l.p.j.IODepth }

// SpaceBytes implements Lane.
func (l *poolLane) SpaceBytes() int64 { return l.p.j.Size.Bytes }

// NewIO implements Lane.
func (l *poolLane) NewIO(maxBytes int, ended func(*IO)) (*IO, error) {
	stride := roundUp(int64(maxBytes), pageBytes)
	if l.region == nil || l.free+stride > int64(len(l.region.Bytes())) {
		var err error
		if l.region, err = l.c.Allocate(stride * int64(l.p.j.IODepth)); err != nil {
			return nil, err
		}
		l.free = 0
	}
	st := &poolIO{region: l.region, offset: l.free}
	l.free += stride
	return &IO{memory: l.region.Bytes()[st.offset:l.free:l.free], ended: ended, state: st}, nil
}

// Identity implements Lane.
func (l *poolLane) Identity(op *load.Op) payload.Identity {
	return payload.Of(op.Namespace, op.Bytes, op.Block)
}

// Submit implements Lane.
func (l *poolLane) Submit(ios []*IO) { l.crew.submit(ios) }

func (l *poolLane) namespace(sp space) (*client.Namespace, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ns := l.spaces[sp]; ns != nil {
		return ns, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	ns, err := l.c.Namespace(ctx, Descriptor(sp.number, sp.blockBytes), "")
	if err == nil {
		l.spaces[sp] = ns
	}
	return ns, err
}

// errGone says why an I/O without an answer failed.
var errGone = errors.New("the daemon is not there")

func (l *poolLane) do(call []*IO) {
	ns, err := l.namespace(space{call[0].Namespace, call[0].Bytes})
	if err != nil {
		for _, io := range call {
			io.StartedAt, io.Outcome, io.Err = time.Time{}, load.Failed, err
		}
		endCall(call, time.Now())
		return
	}
	var j *client.Job
	var statuses []client.Status
	if call[0].Kind == load.Read {
		j = ns.Get(l.blocks(call, 0), client.GetOptions{NoTouch: call[0].Chain != 0})
		statuses = j.Wait().Statuses
	} else {
		j, statuses = l.put(ns, call)
	}
	ended, late := time.Now(), false
	for i, io := range call {
		io.StartedAt = time.Time{}
		io.Outcome, io.Err = l.outcome(statuses[i])
		late = late || io.Outcome == load.Late
	}
	if late {
		<-j.Released() // the memory is the daemon's until then
	}
	endCall(call, ended)
}

// blocks names the blocks of a call, in memory of its owner.
func (l *poolLane) blocks(call []*IO, generation uint64) []client.Block {
	owner := call[0].state.(*poolIO)
	owner.blocks = owner.blocks[:0]
	for _, io := range call {
		st := io.state.(*poolIO)
		st.place[0] = client.Place{Region: st.region, OffsetBytes: st.offset, LengthBytes: io.Bytes}
		owner.blocks = append(owner.blocks, client.Block{Key: st.key.of(io.Block, generation), Places: st.place[:]})
	}
	return owner.blocks
}

func (l *poolLane) put(ns *client.Namespace, call []*IO) (*client.Job, []client.Status) {
	for generation := uint64(0); ; generation = l.p.tries.next() {
		j := ns.Put(l.blocks(call, generation), client.PutOptions{Depth: call[0].Depth})
		if statuses := j.Wait().Statuses; call[0].Chain != 0 || statuses[0] != client.Present {
			return j, statuses
		}
	}
}

// Touch implements Toucher.
func (l *poolLane) Touch(namespace uint16, blockBytes int, blocks []uint64) {
	ns, err := l.namespace(space{namespace, blockBytes})
	if err != nil {
		return // the reads have told
	}
	l.touch.tailFirst(blocks, func(keys [][]byte) { ns.Touch(0, keys) })
}

func (l *poolLane) outcome(status client.Status) (load.Outcome, error) {
	switch status {
	case client.Hit, client.Stored:
		return load.OK, nil
	case client.Late:
		return load.Late, nil
	case client.Busy:
		return load.Busy, nil
	case client.Present: // a block of a chain
		return load.Present, nil
	}
	if !l.c.Connected() {
		return load.Failed, errGone
	}
	if status == client.Miss {
		return load.Miss, nil
	}
	return load.Dropped, nil
}

// Close implements Lane.
func (l *poolLane) Close() error {
	l.crew.close()
	l.c.Close()
	return nil
}

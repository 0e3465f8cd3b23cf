package pool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/fault"
	"github.com/spillway-kv/spillway/engine/planted"
)

// putCounters count puts of this node's clients, and blocks that peers bring.
type putCounters struct {
	requests, blocks, runs         atomic.Uint64
	stored, present, late, dropped atomic.Uint64
	rehomed, returned              atomic.Uint64
	copiesMissing                  atomic.Uint64
	taken, takenWrong, takenErased atomic.Uint64
	takenBusy                      atomic.Uint64
}

// serveOffer says which blocks are wanted: those that are not here.
func (p *Pool) serveOffer() {
	p.servers[peer.KindOffer].call = func(_ context.Context, from transport.Hello, body []byte) ([]byte, error) {
		m, err := peer.ParseOffer(body)
		if err != nil {
			return nil, err
		}
		space, err := p.taker(from, &m.Scope)
		if err != nil {
			return nil, err
		}
		here := space.Present(m.IDs)
		var touched []ID
		for i, yes := range here {
			if yes {
				touched = append(touched, m.IDs[i])
			}
			here[i] = !yes
		}
		if len(touched) > 0 && m.Flags&peer.OfferNoTouch == 0 {
			space.Touch(touched)
		}
		return peer.AppendWanted(nil, here), nil
	}
}

// taker finds the namespace that a peer brings blocks of, if this node takes some now.
func (p *Pool) taker(from transport.Hello, s *peer.Scope) (Space, error) {
	if p.state() != member.Active {
		return nil, &transport.RemoteError{Code: transport.CodeClosing, Text: "this node takes no new blocks"}
	}
	return p.admit(from, s)
}

// state is what this node says of itself.
func (p *Pool) state() member.State {
	for _, m := range p.o.Members.Members() {
		if m.Self || m.ID == p.o.Node {
			return m.State
		}
	}
	return member.Joining
}

// serveDescribe opens a namespace that a peer has blocks for.
func (p *Pool) serveDescribe() {
	p.servers[peer.KindDescribe].call = func(_ context.Context, _ transport.Hello, body []byte) ([]byte, error) {
		d, err := peer.ParseDescribe(body)
		if err == nil {
			_, err = p.local.OpenSpace(d)
		}
		return nil, err
	}
}

// servePut takes blocks in: received into memory of the pool, proven against the sender's
// checksums, and written as a client's would be.
func (p *Pool) servePut() {
	p.servers[peer.KindPut].push = func(ctx context.Context, from transport.Hello, body []byte, in transport.Incoming) ([]byte, error) {
		m, err := peer.ParsePut(body)
		if err != nil {
			return nil, err
		}
		space, err := p.taker(from, &m.Scope)
		if err != nil {
			return nil, err
		}
		blockBytes := space.Descriptor().BlockBytes
		if in.Blocks() != len(m.Items) {
			return nil, fmt.Errorf("%w: %d blocks for %d keys", peer.ErrMalformed, in.Blocks(), len(m.Items))
		}
		for i := range m.Items {
			if n := in.BlockBytes(i); n != blockBytes {
				return nil, fmt.Errorf("%w: block %d has %d bytes, want %d", peer.ErrMalformed, i, n, blockBytes)
			}
		}
		memory, free := countedMemory(p.arrivals, len(m.Items)*blockBytes)
		if memory == nil {
			p.puts.takenBusy.Add(uint64(len(m.Items)))
			return nil, &transport.RemoteError{Code: transport.CodeBusy, Text: "too many blocks arrive"}
		}
		defer free()
		a := &arriving{pool: p, space: space, message: &m, taken: make([]peer.Taken, len(m.Items))}
		if err := a.receive(in, memory, blockBytes); err != nil {
			return nil, err
		}
		a.write(ctx)
		a.count(from)
		return peer.AppendTaken(nil, a.taken), nil
	}
}

// arriving is one Put of a peer.
type arriving struct {
	pool    *Pool
	space   Space
	message *peer.Put
	blocks  [][]byte // of each item; nil where it is not to be written
	taken   []peer.Taken
	leave   func()
}

// receive reads all blocks, and keeps those that are what the sender had.
func (a *arriving) receive(in transport.Incoming, memory []byte, blockBytes int) error {
	keys := make([]engine.Key, len(a.message.Items))
	for i := range keys {
		keys[i] = a.message.Items[i].Key
	}
	ids, incarnation := a.space.IDs(keys)
	a.blocks = make([][]byte, len(keys))
	for i := range keys {
		block := memory[i*blockBytes : (i+1)*blockBytes : (i+1)*blockBytes]
		err := in.Receive([][]byte{block})
		if err != nil && !fault.OfMemory(err) {
			return err
		}
		if err != nil || engine.Checksum(ids[i], [][]byte{block}) != a.message.Items[i].Checksum && !planted.Active(planted.TrustPeerBytes) {
			a.taken[i].Status = peer.PutWrong
			a.pool.puts.takenWrong.Add(1)
			continue
		}
		a.blocks[i] = block
	}
	// Only now: an erasure waits for what arrives, and is not to wait for a sender.
	var fresh []bool
	fresh, a.leave = a.pool.arrive(&a.message.Scope, ids)
	for i := range keys {
		if incarnation != a.message.Scope.Incarnation || !fresh[i] {
			a.blocks[i], a.taken[i].Status = nil, peer.PutErased
			a.pool.puts.takenErased.Add(1)
		}
	}
	return nil
}

// write stores what was kept, and gives every block its answer.
func (a *arriving) write(ctx context.Context) {
	defer a.leave()
	m := a.message
	w := &Arrival{Incarnation: m.Scope.Incarnation, Moved: m.Flags&peer.PutAdmitted != 0}
	w.Options = engine.PutOptions{After: m.After, Before: m.Before, EndDepth: m.EndDepth, DropIfBusy: m.Flags&peer.PutDropIfBusy != 0,
		SpanOn: m.Flags&peer.PutSpanOn != 0}
	if m.Flags&peer.PutDurable != 0 {
		w.Options.Durability = engine.Durable
	}
	var of []int
	for i, block := range a.blocks {
		if block != nil {
			item := &m.Items[i]
			w.Items = append(w.Items, ArrivalItem{Key: item.Key, Src: [][]byte{block}, Depth: item.Depth, Span: item.Span, Importance: item.Importance})
			of = append(of, i)
		}
	}
	if len(of) == 0 {
		return
	}
	w.Options.Partial = m.Flags&peer.PutPartial != 0 && of[len(of)-1] == len(m.Items)-1
	if m.TimeMS > 0 {
		w.Options.Deadline = time.Now().Add(time.Duration(m.TimeMS) * time.Millisecond)
	}
	a.space.Write(ctx, w)
	for j, i := range of {
		a.taken[i] = peer.Taken{Status: takenAs(&w.Items[j]), Reason: w.Items[j].Reason}
	}
}

// takenAs is what a peer is told of a store's answer.
func takenAs(item *ArrivalItem) peer.PutStatus {
	switch {
	case item.Status == engine.Stored:
		return peer.PutStored
	case item.Status == engine.Present:
		return peer.PutPresent
	case item.Status == engine.Late:
		return peer.PutLate
	case errors.Is(item.Err, engine.ErrGone):
		return peer.PutErased
	}
	return peer.PutDropped
}

func (a *arriving) count(from transport.Hello) {
	stored := uint64(0)
	for _, t := range a.taken {
		if t.Status == peer.PutStored {
			stored++
		}
	}
	a.pool.puts.taken.Add(stored)
	if r := a.pool.peers.of(from.Node); r != nil {
		r.puts.taken.Add(stored)
	}
}

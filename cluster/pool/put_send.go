package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

const (
	// pushBytes is what goes to a peer in one call, unless a block is larger; as much
	// memory takes it in there.
	pushBytes = 16 << 20
	// pushesBeside is how many pushes of a request to a peer run at once: one is on its way
	// while the other is written.
	pushesBeside = 2
)

// share is what one home is to get of a run.
type share struct {
	run   *putRun
	items []int
}

// sending is what one peer gets of a put.
type sending struct {
	*putting
	remote  *remote
	settled []bool // of each item of the put: the peer has said what becomes of it; guarded by mu
}

// send offers blocks to a peer and pushes what it wants. What it does not take, for it
// cannot be reached or fails, needs another home.
func (t *putting) send(ctx context.Context, r *remote, shares []share) {
	s := &sending{putting: t, remote: r, settled: make([]bool, len(t.Items))}
	blockBytes := int64(t.Of.BlockBytes)
	var items []int
	for _, share := range shares {
		if !r.puts.admit(int64(len(share.items)) * blockBytes) {
			s.drop(share.items, admit.QueueFull, nil)
			r.puts.refused.Add(uint64(len(share.items)))
			continue
		}
		items = append(items, share.items...)
	}
	admitted := int64(len(items)) * blockBytes
	defer func() { r.puts.discharge(admitted) }()
	wanted, err := s.offer(ctx, items)
	rest := int64(len(wanted)) * blockBytes
	r.puts.discharge(admitted - rest)
	admitted = rest
	if err == nil {
		err = s.pushAll(ctx, wanted)
	}
	code, refused := codeOf(err)
	switch {
	case ctx.Err() != nil: // late
	case refused && code == transport.CodeBusy, errors.Is(err, errFull):
		s.drop(items, admit.QueueFull, nil)
	case refused && code == transport.CodeFloor:
		s.drop(items, admit.Admitted, engine.ErrGone)
	default:
		s.rehome(shares)
	}
}

// rehome finds other homes for what the peer has not settled.
func (s *sending) rehome(shares []share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := false
	for _, share := range shares {
		for _, i := range share.items {
			if !s.settled[i] {
				share.run.failed++
				share.run.missing++
				again = true
				break
			}
		}
	}
	if again {
		s.pool.puts.rehomed.Add(1)
	}
}

// drop gives up those of the items that are not settled.
func (s *sending) drop(items []int, why admit.Reason, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range items {
		if !s.settled[i] {
			s.settled[i] = true
			s.Items[i].over, s.Items[i].Reason, s.Items[i].Err = true, why, err
		}
	}
}

// pushAll pushes blocks in parts, tail first: a leaf ages before its parent.
func (s *sending) pushAll(ctx context.Context, items []int) error {
	most := min(max(1, s.pool.pushBytes/s.Of.BlockBytes), peer.PutBlocksMax)
	parts := (len(items) + most - 1) / most
	var left atomic.Int64
	left.Store(int64(parts))
	var once sync.Once
	var failure error
	var pushing sync.WaitGroup
	for range min(pushesBeside, parts) {
		pushing.Go(func() {
			for n := int(left.Add(-1)); n >= 0; n = int(left.Add(-1)) {
				end := min((n+1)*most, len(items))
				if err := s.push(ctx, items[n*most:end], items[end:]); err != nil {
					once.Do(func() { failure = err })
					left.Store(0)
				}
			}
		})
	}
	pushing.Wait()
	return failure
}

// push sends blocks; behind are those that were sent before and follow them in the chain.
func (s *sending) push(ctx context.Context, items, behind []int) error {
	q := s.remote.puts
	nBytes, stored := int64(len(items))*int64(s.Of.BlockBytes), 0
	if err := q.enter(ctx, nBytes); err != nil {
		return err
	}
	defer func() { q.leave(nBytes, int64(stored)*int64(s.Of.BlockBytes)) }()
	m, blocks := s.message(&items, behind)
	if len(items) == 0 {
		return nil
	}
	var taken []peer.Taken
	err := s.remote.push(ctx, s.Of, m, blocks, func(answer []byte) (err error) {
		taken, err = peer.ParseTaken(answer, len(items))
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for j := range taken {
		if s.tookLocked(items[j], taken[j]) {
			stored++
		}
	}
	q.stored.Add(uint64(stored))
	q.storedBytes.Add(uint64(stored * s.Of.BlockBytes))
	return err
}

// message makes the body of a push. Blocks whose memory has gone are dropped, and
// taken out of items.
func (s *sending) message(items *[]int, behind []int) (*peer.Put, [][][]byte) {
	o := &s.Options
	m := &peer.Put{Scope: *s.scope, Flags: peer.PutAdmitted, EndDepth: o.EndDepth}
	if o.Durability == engine.Durable {
		m.Flags |= peer.PutDurable
	}
	if o.DropIfBusy {
		m.Flags |= peer.PutDropIfBusy
	}
	kept, blocks := (*items)[:0:0], [][][]byte(nil)
	for _, i := range *items {
		item, sum := &s.Items[i], uint64(0)
		if err := guard(func() { sum = engine.Checksum(item.ID, item.Src) }); err != nil {
			s.drop([]int{i}, admit.Admitted, err)
			continue
		}
		kept, blocks = append(kept, i), append(blocks, item.Src)
		m.Items = append(m.Items, peer.PutItem{Checksum: sum, Depth: item.Depth, Span: item.Span, Importance: item.Importance, Key: item.Key})
	}
	if *items = kept; len(kept) == 0 {
		return m, nil
	}
	last := kept[len(kept)-1]
	if o.Partial && last == len(s.Items)-1 {
		m.Flags |= peer.PutPartial
	}
	if kept[0] == 0 {
		m.After = o.After
	}
	if len(behind) > 0 {
		m.Before = s.Items[behind[0]].Key
		if span := s.Items[last].Span; o.SpanOn || span != 0 && span == s.Items[behind[0]].Span {
			m.Flags |= peer.PutSpanOn
		}
	}
	return m, blocks
}

// tookLocked notes what the peer said of a block, and reports whether it stored it.
func (s *sending) tookLocked(i int, said peer.Taken) (stored bool) {
	item, q := &s.Items[i], s.remote.puts
	if said.Status == peer.PutDropped && said.Reason == admit.Admitted {
		q.refused.Add(1) // it failed there
		return false
	}
	s.settled[i] = true
	switch said.Status {
	case peer.PutStored:
		item.stored++
	case peer.PutPresent:
		item.present++
		q.present.Add(1)
	case peer.PutWrong:
		item.over, item.Err = true, errChanged
		q.wrong.Add(1)
		return false
	case peer.PutErased:
		item.over, item.Err = true, engine.ErrGone
		return false
	default: // not admitted, or late there
		item.over, item.Reason = true, said.Reason
		q.refused.Add(1)
		return false
	}
	s.pool.hints.add(&item.ID, s.remote.number)
	return said.Status == peer.PutStored
}

// push sends blocks and has their answer parsed. m's scope is from before they were read.
// The memory of blocks is free when it returns, which it does soon after the end of ctx or
// of the pool's PutTime.
func (r *remote) push(ctx context.Context, of Of, m *peer.Put, blocks [][][]byte, parse func(answer []byte) error) error {
	link, err := r.ready(ctx)
	if err != nil {
		r.counts.skipped.Add(1)
		return err
	}
	full, cancel := context.WithTimeout(ctx, r.pool.o.PutTime)
	defer cancel()
	end, _ := full.Deadline()
	for again := false; ; again = true {
		m.TimeMS = uint32(max(time.Until(end).Milliseconds(), 1))
		var answer []byte
		if answer, err = link.Push(full, peer.KindPut, m.Append(peer.AppendScope(nil, &m.Scope)), blocks); err == nil {
			err = parse(answer)
			break
		}
		if again || !r.pool.catchUp(full, link, of, err) {
			break
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		r.doubt()
	case r.ctx.Err() == nil:
		r.judge(err)
	}
	return err
}

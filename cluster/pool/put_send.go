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
	"github.com/spillway-kv/spillway/engine/fault"
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

// send offers runs to a peer and pushes what it wants.
func (t *putting) send(ctx context.Context, r *remote, runs []*putRun) {
	blockBytes := int64(t.Of.BlockBytes)
	var items []int
	for _, run := range runs {
		own := t.wanting(run.items)
		if !r.puts.admit(int64(len(own)) * blockBytes) {
			t.drop(own, admit.QueueFull, nil)
			r.puts.refused.Add(uint64(len(own)))
			continue
		}
		items = append(items, own...)
	}
	admitted := int64(len(items)) * blockBytes
	defer func() { r.puts.discharge(admitted) }()
	wanted, err := t.offer(ctx, r, items)
	if err != nil {
		t.failed(ctx, runs, items, err)
		return
	}
	rest := int64(len(wanted)) * blockBytes
	r.puts.discharge(admitted - rest)
	admitted = rest
	if err := t.pushAll(ctx, r, wanted); err != nil {
		t.failed(ctx, runs, wanted, err)
	}
}

// wanting are those items of which a copy is missing.
func (t *putting) wanting(items []int) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var own []int
	for _, i := range items {
		if t.wants(&t.Items[i]) {
			own = append(own, i)
		}
	}
	return own
}

// pushAll pushes blocks in parts, tail first: a leaf ages before its parent.
func (t *putting) pushAll(ctx context.Context, r *remote, items []int) error {
	most := max(1, t.pool.pushBytes/t.Of.BlockBytes)
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
				if err := t.push(ctx, r, items[n*most:end], items[end:]); err != nil {
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
func (t *putting) push(ctx context.Context, r *remote, items, behind []int) error {
	m, blocks := t.message(&items, behind)
	if len(items) == 0 {
		return nil
	}
	nBytes := int64(len(items)) * int64(t.Of.BlockBytes)
	if err := r.puts.enter(ctx, nBytes); err != nil {
		return err
	}
	var taken []peer.Taken
	err := r.push(ctx, t.Of, m, blocks, func(answer []byte) (err error) {
		taken, err = peer.ParseTaken(answer, len(items))
		return err
	})
	stored := uint64(0)
	t.mu.Lock()
	for j := range taken {
		if t.took(&t.Items[items[j]], taken[j], r) {
			stored++
		}
	}
	t.mu.Unlock()
	r.puts.stored.Add(stored)
	r.puts.storedBytes.Add(stored * uint64(t.Of.BlockBytes))
	r.puts.leave(nBytes, int64(stored)*int64(t.Of.BlockBytes))
	return err
}

// message makes the body of a push. Blocks whose memory has gone are dropped, and
// taken out of items.
func (t *putting) message(items *[]int, behind []int) (*peer.Put, [][][]byte) {
	o := &t.Options
	m := &peer.Put{Scope: *t.scope, EndDepth: o.EndDepth}
	if o.Durability == engine.Durable {
		m.Flags |= peer.PutDurable
	}
	if o.DropIfBusy {
		m.Flags |= peer.PutDropIfBusy
	}
	kept, blocks := (*items)[:0:0], [][][]byte(nil)
	for _, i := range *items {
		item, sum := &t.Items[i], uint64(0)
		if err := fault.Guard(func() { sum = engine.Checksum(item.ID, item.Src) }); err != nil {
			t.drop([]int{i}, admit.Admitted, err)
			continue
		}
		kept, blocks = append(kept, i), append(blocks, item.Src)
		m.Items = append(m.Items, peer.PutItem{Checksum: sum, Depth: item.Depth, Span: item.Span, Importance: item.Importance, Key: item.Key})
	}
	if *items = kept; len(kept) == 0 {
		return m, nil
	}
	last := kept[len(kept)-1]
	if o.Partial && last == len(t.Items)-1 {
		m.Flags |= peer.PutPartial
	}
	if kept[0] == 0 {
		m.After = o.After
	}
	if len(behind) > 0 {
		m.Before = t.Items[behind[0]].Key
		if span := t.Items[last].Span; o.SpanOn || span != 0 && span == t.Items[behind[0]].Span {
			m.Flags |= peer.PutSpanOn
		}
	}
	return m, blocks
}

// took notes what a peer said of a block, and reports whether it stored it.
func (t *putting) took(item *PutItem, said peer.Taken, r *remote) (stored bool) {
	switch said.Status {
	case peer.PutStored:
		item.stored++
	case peer.PutPresent:
		item.present++
		r.puts.present.Add(1)
	case peer.PutWrong:
		item.over, item.Err = true, errChanged
		r.puts.wrong.Add(1)
		return false
	default: // late there too: it is not asked again for the same block
		item.over, item.Reason = true, said.Reason
		r.puts.refused.Add(1)
		return false
	}
	t.pool.hints.add(&item.ID, r.number)
	return said.Status == peer.PutStored
}

// drop gives items up.
func (t *putting) drop(items []int, why admit.Reason, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range items {
		t.Items[i].over, t.Items[i].Reason, t.Items[i].Err = true, why, err
	}
}

// failed decides what becomes of items that a peer did not answer for.
func (t *putting) failed(ctx context.Context, runs []*putRun, items []int, err error) {
	code, refused := codeOf(err)
	switch {
	case ctx.Err() != nil:
		return // late
	case refused && code == transport.CodeBusy, errors.Is(err, errFull):
		t.drop(t.wanting(items), admit.QueueFull, nil)
		return
	case refused && code == transport.CodeFloor:
		t.drop(t.wanting(items), admit.Admitted, engine.ErrGone)
		return
	}
	t.pool.puts.rehomed.Add(1)
	for _, run := range runs {
		if len(t.wanting(run.items)) > 0 {
			t.mu.Lock()
			run.failed++
			run.missing++
			t.mu.Unlock()
		}
	}
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

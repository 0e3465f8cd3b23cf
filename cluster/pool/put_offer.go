package pool

import (
	"context"
	"sync"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
)

// offerKnown offers blocks to the nodes that are remembered to have them.
func (t *putting) offerKnown(ctx context.Context) {
	now, known := t.pool.peers.reachable(), map[*remote][]int{}
	for i := range t.Items {
		if r := now[now.hinted(t.pool.hints, &t.Items[i].ID)[0]]; r != nil {
			known[r] = append(known[r], i)
		}
	}
	var asking sync.WaitGroup
	for r, items := range known {
		asking.Go(func() {
			s := &sending{putting: t, remote: r, settled: make([]bool, len(t.Items))}
			wanted, err := s.offer(ctx, items)
			if err != nil {
				return // new, for all we know
			}
			for _, i := range wanted {
				t.pool.hints.remove(&t.Items[i].ID, r.number)
			}
		})
	}
	asking.Wait()
	for i := range t.Items {
		if item := &t.Items[i]; item.present > 0 {
			item.present = t.copies // one that is missing is for the repair of lost copies
		}
	}
}

// offer asks the peer which of the items it wants, and notes that it has the others. It
// waits no longer than ctx lasts.
func (s *sending) offer(ctx context.Context, items []int) (wanted []int, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	r, ids := s.remote, make([]ID, len(items))
	for j, i := range items {
		ids[j] = s.Items[i].ID
	}
	type answer struct {
		wants []bool
		err   error
	}
	answers, of := make(chan answer, 1), s.Of // the question outlives who gives it up
	began := s.pool.spawn(func() {
		full, cancel := context.WithTimeout(r.ctx, r.pool.probeTime())
		defer cancel()
		wants, err := r.offer(full, of, 0, ids)
		answers <- answer{wants, err}
	})
	if !began {
		return nil, errStopping
	}
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for j, i := range items {
		if a.wants[j] {
			wanted = append(wanted, i)
			continue
		}
		s.settled[i] = true
		s.Items[i].present++
		s.pool.hints.add(&ids[j], r.number)
	}
	r.puts.present.Add(uint64(len(items) - len(wanted)))
	return wanted, nil
}

// offer asks which of the blocks the peer wants. If it does not know the namespace it is
// told of it first. ctx is to end with the call's full time.
func (r *remote) offer(ctx context.Context, of Of, flags uint32, ids []ID) ([]bool, error) {
	rest := peer.AppendOffer(nil, flags, ids)
	body, err := r.call(ctx, of, peer.KindOffer, rest)
	if code, refused := codeOf(err); refused && code == transport.CodeUnknown {
		if err = r.describe(ctx, of); err == nil {
			body, err = r.call(ctx, of, peer.KindOffer, rest)
		}
	}
	if err != nil {
		return nil, err
	}
	wanted, err := peer.ParseWanted(body, len(ids))
	if err != nil {
		r.counts.malformed.Add(1)
	}
	return wanted, err
}

// describe has the peer open a namespace.
func (r *remote) describe(ctx context.Context, of Of) error {
	space := r.pool.local.Space(of.Namespace)
	if space == nil {
		return engine.ErrNotFound
	}
	body, err := peer.AppendDescribe(nil, space.Descriptor())
	if err != nil {
		return err
	}
	r.puts.described.Add(1)
	return r.timed(ctx, func(link transport.Link) error {
		_, err := link.Call(ctx, peer.KindDescribe, body)
		return err
	})
}

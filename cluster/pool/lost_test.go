package pool_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
)

// losing is a transport one of whose ways of sending blocks fails, while its links stand.
type losing struct {
	transport.Transport
	left *atomic.Int64 // fetches that lose blocks
	none bool          // their error is nil
}

func (l losing) Dial(ctx context.Context, address string, self transport.Hello) (transport.Link, error) {
	link, err := l.Transport.Dial(ctx, address, self)
	if err != nil {
		return nil, err
	}
	return losingLink{link, l}, nil
}

type losingLink struct {
	transport.Link
	of losing
}

// Fetch loses every block but the first.
func (l losingLink) Fetch(ctx context.Context, kind transport.Kind, body []byte, f *transport.Fetching) ([]byte, error) {
	if l.of.left.Add(-1) < 0 {
		return l.Link.Fetch(ctx, kind, body, f)
	}
	whole := *f
	whole.Blocks = make([]transport.Block, len(f.Blocks))
	for i := range f.Blocks {
		for _, piece := range f.Blocks[i].Dst {
			whole.Blocks[i].Dst = append(whole.Blocks[i].Dst, make([]byte, len(piece)))
		}
	}
	whole.Blocks[0].Dst = f.Blocks[0].Dst
	whole.Arrived = func(i int) {
		if i == 0 {
			f.Blocks[0] = whole.Blocks[0]
			f.Arrived(0)
		}
	}
	answer, err := l.Link.Fetch(ctx, kind, body, &whole)
	for i := range f.Blocks[1:] {
		f.Blocks[1+i].Status = transport.Lost
	}
	if !l.of.none {
		answer, err = nil, transport.ErrLost
	}
	return answer, err
}

// inLosing runs f in a hall whose first node loses the blocks of so many fetches.
func inLosing(t *testing.T, n, fetches int, none bool, f func(h *hall)) {
	t.Helper()
	first := true
	inHall(t, 3, n, func(o *pool.Options) {
		var left atomic.Int64
		if first {
			left.Store(int64(fetches))
		}
		first = false
		o.Transport = losing{o.Transport, &left, none}
	}, f)
}

// TestLostWay: where the way of blocks fails and the peer still answers, what was lost is
// asked for once more, and the peer is used as before, however many fetches were on that
// way: it is only asked for a sign of life.
func TestLostWay(t *testing.T) {
	for _, none := range []bool{false, true} {
		const fetches = 8
		inLosing(t, 2, fetches, none, func(h *hall) {
			all := span(0, fetches*20)
			h.put(1, all...)
			h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(all...), pool.MatchOptions{})
			var loads sync.WaitGroup
			for i := range fetches {
				loads.Go(func() { h.get(0, pool.GetOptions{}, all[i*20:(i+1)*20]...) })
			}
			loads.Wait()
			st := h.peer(0, 1)
			if st.Lost < fetches*18 || st.Failures != fetches || st.Breaker != "closed" || st.Opened != 0 || !st.Usable || st.StaleHints != 0 {
				t.Errorf("%+v", st)
			}
			time.Sleep(time.Second)
			if st := h.peer(0, 1); st.Probes == 0 || !st.Usable || st.Link != "up" {
				t.Errorf("%+v", st)
			}
			h.get(0, pool.GetOptions{}, all...).want(engine.Hit)
		})
	}
}

// TestLostOnce: blocks of one fetch that are lost come all the same: from the node itself,
// another way, or from another that has them.
func TestLostOnce(t *testing.T) {
	for nodes, from := range map[int]int{2: 1, 3: 2} {
		inLosing(t, nodes, 1, false, func(h *hall) {
			all := span(0, 12)
			for node := 1; node < nodes; node++ {
				h.put(node, all...)
			}
			h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(all...), pool.MatchOptions{})
			l := h.get(0, pool.GetOptions{}, all...)
			l.want(engine.Hit)
			lost, other := h.peer(0, 1), h.peer(0, from)
			if lost.Lost == 0 { // the other was asked first
				lost, other = other, lost
			}
			if lost.Lost != 11 && lost.Lost != 5 || nodes == 3 && (lost.Hits != 1 || other.Hits != 11) || lost.Opened != 0 {
				t.Errorf("%d nodes: %+v\n%+v", nodes, lost, other)
			}
		})
	}
}

// TestLostTwice: nothing is asked for again and again.
func TestLostTwice(t *testing.T) {
	inLosing(t, 2, 1000, false, func(h *hall) {
		all := span(0, 12)
		h.put(1, all...)
		h.nodes[0].pool.Match(h.nodes[0].of(), h.nodes[0].ids(all...), pool.MatchOptions{})
		l := h.get(0, pool.GetOptions{}, all...)
		missed := 0
		for i := range l.items {
			if l.items[i].Status == engine.Miss {
				missed++
			}
		}
		if st := h.peer(0, 1); missed != 10 || st.Lost != 11+10 || st.StaleHints != 0 {
			t.Errorf("%d misses, %+v", missed, st)
		}
	})
}

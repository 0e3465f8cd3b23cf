package pool_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/member/membertest"
	"github.com/spillway-kv/spillway/cluster/pool"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/engine"
)

// OpenSpace opens the one namespace that there is.
func (s *shelf) OpenSpace(d engine.Descriptor) (pool.Space, error) {
	if id, err := d.ID(); err != nil || id != s.id {
		return nil, errors.Join(errors.New("another namespace"), err)
	}
	s.unopened.Store(false)
	return s, nil
}

// Write stores what a peer brings. It waits for released memory.
func (s *shelf) Write(ctx context.Context, a *pool.Arrival) {
	if s.arrived != nil {
		s.arrived(a)
	}
	items := make([]engine.PutItem, len(a.Items))
	for i := range items {
		in := &a.Items[i]
		items[i] = engine.PutItem{Key: in.Key, Src: in.Src, Depth: in.Depth, Importance: in.Importance, Span: in.Span}
	}
	o := a.Options
	o.Incarnation, o.Deadline = a.Incarnation, time.Time{}
	err := s.ns.Put(items, o)
	for i := range items {
		if a.Items[i].Status, a.Items[i].Err = items[i].Status, items[i].Err; err != nil {
			a.Items[i].Status, a.Items[i].Err = engine.Dropped, err
		}
	}
}

// inYard runs f in a pool of n nodes with room, in virtual time. change, if not nil, edits
// node i's options and what it says of itself.
func inYard(t *testing.T, seed uint64, n int, change func(i int, o *pool.Options, m *member.Member), f func(h *hall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{t: t, net: netsim.New(netsim.Config{Seed: seed, Shape: netsim.Shape{DelayMin: 50 * time.Microsecond, DelayMax: 200 * time.Microsecond}}),
			world: membertest.New(seed, 0, time.Millisecond)}
		for i := range n {
			h.nodes = append(h.nodes, h.open(i, seed, func(o *pool.Options) {
				m := member.Member{ID: nodeID(i), Name: o.Name, Address: o.Name, State: member.Active, ProtocolLow: 1, ProtocolHigh: 1,
					CapacityBytes: 1 << 30, FreeBytes: 1 << 30}
				if change != nil {
					change(i, o, &m)
				}
				o.Members = h.world.Join(m)
			}))
		}
		defer func() {
			for _, s := range h.nodes {
				s.close(t)
			}
			h.net.Close()
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		}()
		time.Sleep(time.Second) // everybody knows everybody
		synctest.Wait()
		f(h)
	})
}

// store is one put of a node's client under a test's eyes.
type store struct {
	*pool.Putting
	h       *hall
	node    int
	numbers []int
	calls   int // of Here
	local   []int
	took    time.Duration
}

// putting makes a put of a chain.
func (h *hall) putting(node int, numbers ...int) *store {
	s := &store{h: h, node: node, numbers: numbers, Putting: &pool.Putting{Of: h.nodes[node].of(), Items: make([]pool.PutItem, len(numbers))}}
	for i, id := range h.nodes[node].ids(numbers...) {
		src := content(node, numbers[i])
		s.Items[i] = pool.PutItem{ID: id, Key: key(numbers[i]), Src: [][]byte{src[:100], src[100:]}, Depth: uint32(i), Span: 1, Importance: 2}
	}
	s.Options.EndDepth = uint32(len(numbers) - 1)
	s.Here = s.here
	return s
}

// here stores items on the node itself, as a client's put without a pool.
func (s *store) here(items []int) {
	s.calls++
	if !slices.IsSorted(items) {
		s.h.t.Errorf("items here: %v", items)
	}
	own := make([]engine.PutItem, len(items))
	for j, i := range items {
		if slices.Contains(s.local, i) {
			s.h.t.Errorf("item %d is to be stored here twice", i)
		}
		own[j] = engine.PutItem{Key: s.Items[i].Key, Src: s.Items[i].Src, Depth: s.Items[i].Depth, Span: s.Items[i].Span}
	}
	s.local = append(s.local, items...)
	if err := s.h.nodes[s.node].ns.Put(own, engine.PutOptions{Durability: s.Options.Durability, Incarnation: s.Of.Incarnation}); err != nil {
		s.h.t.Fatal(err)
	}
	for j, i := range items {
		s.Items[i].Here = own[j].Status
	}
}

// run puts, and makes the client's memory unreadable as these blocks afterwards.
func (s *store) run(ctx context.Context) *store {
	s.h.t.Helper()
	began := time.Now()
	s.h.nodes[s.node].pool.Put(ctx, s.Putting)
	s.took = time.Since(began)
	for i := range s.Items {
		for _, piece := range s.Items[i].Src {
			clear(piece)
		}
		switch it := &s.Items[i]; it.Status {
		case engine.Stored, engine.Present, engine.Dropped, engine.Late:
		default:
			s.h.t.Errorf("block %d: %v", s.numbers[i], it.Status)
		}
	}
	if s.calls > 2 {
		s.h.t.Errorf("Here was called %d times", s.calls)
	}
	return s
}

// put stores a chain through the pool.
func (h *hall) store(node int, numbers ...int) *store {
	h.t.Helper()
	return h.putting(node, numbers...).run(context.Background())
}

// want wants every item to have this status.
func (s *store) want(status engine.Status) *store {
	s.h.t.Helper()
	for i := range s.Items {
		if it := &s.Items[i]; it.Status != status {
			s.h.t.Errorf("block %d: %v (%v, %v), want %v", s.numbers[i], it.Status, it.Reason, it.Err, status)
		}
	}
	return s
}

// homesOf are the nodes that have a block.
func (h *hall) homesOf(number int) (nodes []int) {
	for i, s := range h.nodes {
		if s.Present(s.ids(number))[0] {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// wantHomes wants every block on so many nodes, and to be read whole from everywhere.
func (h *hall) wantHomes(copies int, numbers ...int) {
	h.t.Helper()
	for _, n := range numbers {
		if homes := h.homesOf(n); len(homes) != copies {
			h.t.Errorf("block %d is on nodes %v, want %d of them", n, homes, copies)
		}
	}
	for node := range h.nodes {
		var far []int
		for _, n := range numbers {
			if !slices.Contains(h.homesOf(n), node) {
				far = append(far, n)
			}
		}
		h.get(node, pool.GetOptions{}, far...).want(engine.Hit)
	}
}

// seeds is how many histories a test goes through.
func seeds(most uint64) uint64 {
	if testing.Short() {
		return most / 5
	}
	return most
}

package pool_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/member/membertest"
	"github.com/spillway-kv/spillway/cluster/pool"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// blockBytes is the size of every block here.
const blockBytes = 4096

var descriptor = engine.Descriptor{Name: "chat", BlockBytes: blockBytes}

// shelf is a node's own part of the pool: one namespace of one real store. It is what
// pool.Local and pool.Space want of a node.
type shelf struct {
	store *engine.Store
	ns    *engine.Namespace
	id    [32]byte

	unopened atomic.Bool         // until OpenSpace
	arrived  func(*pool.Arrival) // hears of every Write; may be nil
	raising  func()              // hears of every Raise; may be nil

	capacity, free int64 // bytes, as Room says
}

func (s *shelf) Space(id [32]byte) pool.Space {
	if id != s.id || s.unopened.Load() {
		return nil
	}
	return s
}
func (s *shelf) Spaces() []pool.Space                      { return []pool.Space{s} }
func (s *shelf) Room() (int64, int64)                      { return s.capacity, s.free }
func (s *shelf) ID() [32]byte                              { return s.id }
func (s *shelf) Descriptor() engine.Descriptor             { return descriptor }
func (s *shelf) Incarnation() uint32                       { return s.ns.Incarnation() }
func (s *shelf) IDs(keys []engine.Key) ([]pool.ID, uint32) { return s.ns.IDs(keys) }
func (s *shelf) Clear() error                              { return s.ns.Clear() }
func (s *shelf) Touch(ids []pool.ID)                       { _, _ = s.ns.TouchIDs(ids) }
func (s *shelf) Raise(n uint32) error {
	if s.raising != nil {
		s.raising()
	}
	return s.ns.RaiseTo(n)
}

func (s *shelf) Delete(ids []pool.ID) error {
	_, err := s.ns.DeleteIDs(s.Incarnation(), ids)
	return err
}

func (s *shelf) Scan(from pool.Cursor, f func(pool.Cursor, engine.Entry) bool) error {
	return s.ns.ListFrom(from.ID, func(e engine.Entry) bool {
		return e.ID == from.ID && from != (pool.Cursor{}) || f(pool.Cursor{ID: e.ID}, e)
	})
}

func (s *shelf) Present(ids []pool.ID) []bool {
	r, _ := s.ns.MatchIDs(ids, engine.MatchOptions{})
	return r.Present
}

func (s *shelf) Lease(ids []pool.ID, o engine.MatchOptions) ([]bool, int, func()) {
	r, _ := s.ns.MatchIDs(ids, o)
	if r.Lease == 0 {
		return r.Present, 0, nil
	}
	return r.Present, r.Leased, func() { s.ns.Release(r.Lease) }
}

// Copy implements pool.Space.
func (s *shelf) Copy(ctx context.Context, ids []pool.ID, ready func(i int, pieces [][]byte, checksum uint64, done func())) {
	s.Read(ctx, ids, ready)
}

func (s *shelf) Read(ctx context.Context, ids []pool.ID, ready func(int, [][]byte, uint64, func())) {
	items := make([]engine.GetItem, len(ids))
	for i := range items {
		items[i].Dst = [][]byte{make([]byte, blockBytes)}
	}
	if s.ns.GetIDs(ids, items, engine.GetOptions{Done: ctx.Done(), Bounce: true, NoTouch: true}) != nil {
		return
	}
	for i := range items {
		if items[i].Status == engine.Hit {
			ready(i, items[i].Dst, items[i].Checksum, func() {})
		}
	}
}

// hall is a pool in a bubble: nodes over a simulated network.
type hall struct {
	t     *testing.T
	net   *netsim.Network
	world *membertest.World
	nodes []*stand
}

// stand is one node of a hall.
type stand struct {
	*shelf
	pool    *pool.Pool
	id      member.ID
	address string
}

// of is whose the blocks here are.
func (s *stand) of() pool.Of {
	return pool.Of{Namespace: s.shelf.id, Incarnation: s.Incarnation(), BlockBytes: blockBytes}
}

func key(n int) engine.Key { return engine.Key{Bytes: []byte(fmt.Sprintf("key %d", n))} }

func nodeID(n int) (id member.ID) {
	binary.BigEndian.PutUint32(id[:], uint32(n+1))
	return id
}

// ids are those of some keys.
func (s *stand) ids(numbers ...int) []pool.ID {
	keys := make([]engine.Key, len(numbers))
	for i, n := range numbers {
		keys[i] = key(n)
	}
	ids, _ := s.IDs(keys)
	return ids
}

// content is what a node that put a block has of it: no two nodes compute quite the same.
func content(node, n int) []byte {
	b := make([]byte, blockBytes)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(node)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// put stores blocks at a node.
func (h *hall) put(node int, numbers ...int) {
	h.t.Helper()
	items := make([]engine.PutItem, len(numbers))
	for i, n := range numbers {
		items[i] = engine.PutItem{Key: key(n), Src: [][]byte{content(node, n)}, Depth: uint32(i)}
	}
	if err := h.nodes[node].ns.Put(items, engine.PutOptions{}); err != nil {
		h.t.Fatal(err)
	}
	for i := range items {
		if items[i].Status != engine.Stored {
			h.t.Fatalf("put of %d at %d: %v %v", numbers[i], node, items[i].Status, items[i].Err)
		}
	}
}

// inHall runs f in a pool of n nodes, in virtual time. change, if not nil, edits options.
func inHall(t *testing.T, seed uint64, n int, change func(*pool.Options), f func(h *hall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{t: t, net: netsim.New(netsim.Config{Seed: seed, Shape: netsim.Shape{DelayMin: 50 * time.Microsecond, DelayMax: 200 * time.Microsecond}}),
			world: membertest.New(seed, 0, time.Millisecond)}
		for i := range n {
			h.nodes = append(h.nodes, h.open(i, seed, change))
		}
		time.Sleep(time.Second) // everybody knows everybody
		for _, s := range h.nodes {
			<-s.pool.Joined()
		}
		time.Sleep(100 * time.Millisecond) // and has heard of it
		synctest.Wait()
		f(h)
		for _, s := range h.nodes {
			s.close(t)
		}
		h.net.Close()
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
}

func (h *hall) open(i int, seed uint64, change func(*pool.Options)) *stand {
	h.t.Helper()
	dev, err := sim.NewDisk(sim.Config{Seed: seed + uint64(i)}).Open()
	if err != nil {
		h.t.Fatal(err)
	}
	store, err := engine.Open(engine.Options{CapacityBytes: 16 << 20, SegmentBytes: 256 << 10, Device: dev, IndexFS: vfs.NewMem()})
	if err != nil {
		h.t.Fatal(err)
	}
	ns, err := store.Namespace(descriptor)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &stand{shelf: &shelf{store: store, ns: ns}, id: nodeID(i), address: fmt.Sprintf("node-%d", i)}
	s.shelf.id, _ = descriptor.ID()
	transport, err := h.net.Node(s.address)
	if err != nil {
		h.t.Fatal(err)
	}
	o := pool.Options{PoolID: "hall", Node: s.id, Name: s.address, Dir: "pool", Erase: pool.EraseOptions{FS: vfs.NewMem()}, Transport: transport,
		Members: h.world.Join(member.Member{ID: s.id, Name: s.address, Address: s.address, State: member.Active, ProtocolLow: 1, ProtocolHigh: 1})}
	if change != nil {
		change(&o)
	}
	for _, m := range o.Members.Members() {
		if m.Self {
			s.capacity, s.free = m.CapacityBytes, m.FreeBytes
		}
	}
	if s.pool, err = pool.New(o); err != nil {
		h.t.Fatal(err)
	}
	if err := s.pool.Start(s.shelf); err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (s *stand) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.pool.Close(ctx); err != nil {
		t.Error(err)
	}
	if !s.pool.AllFramesBack() || !s.pool.AllRoomBack() {
		t.Error("private memory, or room at a peer, has not come back")
	}
	if err := s.store.Close(); err != nil {
		t.Error(err)
	}
}

// peer is what a node's statistics say of another.
func (h *hall) peer(node, other int) pool.PeerStat {
	h.t.Helper()
	for _, p := range h.nodes[node].pool.Stat().Peers {
		if p.Node == h.nodes[other].id.String() {
			return p
		}
	}
	h.t.Fatalf("node %d knows nothing of node %d", node, other)
	return pool.PeerStat{}
}

// names are the nodes of a place, as numbers of the hall, rising.
func (h *hall) names(node int, at pool.Place) (numbers []int) {
	for _, m := range h.nodes[node].pool.Nodes(at) {
		numbers = append(numbers, int(binary.BigEndian.Uint32(m.ID[:]))-1)
	}
	slices.Sort(numbers)
	return numbers
}

// load is one Get of a node under a test's eyes: it watches the destinations.
type load struct {
	h        *hall
	items    []pool.GetItem
	numbers  []int
	took     time.Duration
	mu       sync.Mutex
	released map[int]int
}

// get loads blocks at a node.
func (h *hall) get(node int, o pool.GetOptions, numbers ...int) *load {
	h.t.Helper()
	l := &load{h: h, numbers: numbers, released: map[int]int{}, items: make([]pool.GetItem, len(numbers))}
	for i, id := range h.nodes[node].ids(numbers...) {
		mem := make([]byte, blockBytes)
		l.items[i] = pool.GetItem{ID: id, Dst: [][]byte{mem[:100], mem[100:]}}
	}
	o.Released = func(i int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.released[i]++
	}
	began := time.Now()
	h.nodes[node].pool.Get(h.nodes[node].of(), l.items, o)
	l.took = time.Since(began)
	for i := range l.items {
		switch s := l.items[i].Status; s {
		case engine.Hit:
			if from := l.from(i); from < 0 {
				h.t.Errorf("block %d is a hit, and not what any node has of it", numbers[i])
			}
		case engine.Miss, engine.Late, engine.Busy:
		default:
			h.t.Errorf("block %d: %v", numbers[i], s)
		}
	}
	return l
}

// bytes is what the destination of item i has.
func (l *load) bytes(i int) []byte { return slices.Concat(l.items[i].Dst...) }

// from is the node whose content item i has, whole; -1: no node's.
func (l *load) from(i int) int {
	got := l.bytes(i)
	for node := range l.h.nodes {
		if slices.Equal(got, content(node, l.numbers[i])) {
			return node
		}
	}
	return -1
}

// want wants every item to have this status.
func (l *load) want(status engine.Status) {
	l.h.t.Helper()
	for i := range l.items {
		if l.items[i].Status != status {
			l.h.t.Errorf("block %d: %v (%v), want %v", l.numbers[i], l.items[i].Status, l.items[i].Err, status)
		}
	}
}

// wantReleased wants exactly the late items to have been released, each once.
func (l *load) wantReleased() {
	l.h.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.items {
		want := 0
		if l.items[i].Status == engine.Late {
			want = 1
		}
		if l.released[i] != want {
			l.h.t.Errorf("block %d is %v and was released %d times", l.numbers[i], l.items[i].Status, l.released[i])
		}
	}
}

// span is from..to-1.
func span(from, to int) (numbers []int) {
	for n := from; n < to; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

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
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/member/membertest"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/pool"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// grounds is a pool whose nodes may die and come back, and a model of what may be read.
type grounds struct {
	t          *testing.T
	seed       uint64
	tombstones int
	net        *netsim.Network
	world      *membertest.World
	sites      []*site
	tick       atomic.Uint64 // numbers beginnings and ends

	mu      sync.Mutex
	rng     *rand.Rand
	puts    []*putRecord // by content
	erased  []*eraseRecord
	reads   int
	hits    int
	carried int
}

// site is a node: what outlives its process, and its process while it runs.
type site struct {
	g       *grounds
	n       int
	address string
	disk    *sim.Disk
	index   *vfs.MemFS
	state   *vfs.MemFS
	stores  []pool.StoreFact

	mu      sync.Mutex
	process *process // nil: dead
}

type process struct {
	*shelf
	pool    *pool.Pool
	journal *journal.Journal
	node    *netsim.Node
	dead    atomic.Bool
}

type putRecord struct {
	key        int
	began, end uint64 // end 0: not answered as stored
	site       int
}

type eraseRecord struct {
	key   int // -1: all
	began uint64
	mark  peer.Mark
	site  int
}

// Holds reports whether this is the namespace that there is.
func (s *shelf) Holds(id [32]byte) bool { return id == s.id && !s.unopened.Load() }

func newGrounds(t *testing.T, seed uint64, n, tombstones int) *grounds {
	g := &grounds{t: t, seed: seed, tombstones: tombstones, rng: rand.New(rand.NewPCG(seed, 0xe7a5e)), puts: []*putRecord{nil},
		net:   netsim.New(netsim.Config{Seed: seed, Shape: netsim.Shape{DelayMin: 50 * time.Microsecond, DelayMax: 2 * time.Millisecond}}),
		world: membertest.New(seed, 0, 50*time.Millisecond)}
	for i := range n {
		s := &site{g: g, n: i, address: fmt.Sprintf("site-%d", i), disk: sim.NewDisk(sim.Config{Seed: seed*10 + uint64(i)}),
			index: vfs.NewCrashableMem(), state: vfs.NewCrashableMem()}
		s.disk.SetFaults(sim.Plan{Delay: 0.2, DelayBy: 30 * time.Millisecond})
		g.sites = append(g.sites, s)
		s.start()
	}
	return g
}

func (g *grounds) draw(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rng.IntN(n)
}

func (g *grounds) pause(most time.Duration) {
	time.Sleep(time.Duration(g.draw(int(most)) + 1))
}

// start runs the site's process.
func (s *site) start() {
	g := s.g
	dev, err := s.disk.Open()
	if err != nil {
		g.t.Fatal(err)
	}
	store, err := engine.Open(engine.Options{CapacityBytes: 4 << 20, SegmentBytes: 64 << 10, Device: dev, IndexFS: s.index})
	if err != nil {
		g.t.Fatalf("site %d: %v", s.n, err)
	}
	ns, err := store.Namespace(descriptor)
	if err != nil {
		g.t.Fatal(err)
	}
	p := &process{shelf: &shelf{store: store, ns: ns}, journal: journal.New(nil)}
	p.shelf.id, _ = descriptor.ID()
	p.arrived = func(*pool.Arrival) { g.pause(50 * time.Millisecond) }
	if p.node, err = g.net.Node(s.address); err != nil {
		g.t.Fatal(err)
	}
	m := member.Member{ID: nodeID(s.n), Name: s.address, Address: s.address, State: member.Joining, ProtocolLow: 1, ProtocolHigh: 1,
		CapacityBytes: 1 << 30, FreeBytes: 1 << 29}
	p.pool, err = pool.New(pool.Options{PoolID: "grounds", Node: m.ID, Name: m.Name, Dir: "pool", Transport: p.node, Members: g.world.Join(m),
		Journal: p.journal, Erase: pool.EraseOptions{FS: s.state, Tombstones: g.tombstones, Stores: s.stores}})
	if err != nil {
		g.t.Fatalf("site %d: %v", s.n, err)
	}
	if err := p.pool.Start(p.shelf); err != nil {
		g.t.Fatalf("site %d: %v", s.n, err)
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
}

func (s *site) running() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// kill ends the process, or the machine's power: then what was not synced may be lost.
func (s *site) kill(power bool) {
	p := s.running()
	if p == nil {
		return
	}
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	s.g.net.Kill(s.address)
	p.dead.Store(true)
	kept := 100
	if power {
		kept = 50 * s.g.draw(2)
		s.disk.PowerCut()
	} else {
		s.disk.Kill()
	}
	rng := rand.New(rand.NewPCG(s.g.seed, uint64(s.g.draw(1<<30))))
	s.state = s.state.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rng})
	s.index = s.index.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rng})
	s.end(p)
}

// stop ends the process in order.
func (s *site) stop() {
	p := s.running()
	if p == nil {
		return
	}
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	s.end(p)
}

// end ends the goroutines of a process.
func (s *site) end(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.pool.Close(ctx)
	_ = p.store.Close()
	p.dead.Store(true)
	s.g.world.Part(nodeID(s.n))
}

// stamped is the content that a put has: its number, all over.
func stamped(number int) []byte {
	b := make([]byte, blockBytes)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(number))
	}
	return b
}

// put stores a block through a node.
func (g *grounds) put(n, k int) {
	p := g.sites[n].running()
	if p == nil {
		return
	}
	g.mu.Lock()
	number, record := len(g.puts), &putRecord{key: k, site: n, began: g.tick.Add(1)}
	g.puts = append(g.puts, record)
	g.mu.Unlock()
	ids, incarnation := p.IDs([]engine.Key{key(k)})
	w := &pool.Putting{Of: pool.Of{Namespace: p.shelf.id, Incarnation: incarnation, BlockBytes: blockBytes},
		Items: []pool.PutItem{{ID: ids[0], Key: key(k), Src: [][]byte{stamped(number)}}}}
	w.Options.Durability = engine.Durability(g.draw(2))
	w.Here = func(items []int) {
		own := []engine.PutItem{{Key: key(k), Src: w.Items[0].Src}}
		if err := p.ns.Put(own, engine.PutOptions{Incarnation: incarnation, Durability: w.Options.Durability}); err != nil {
			own[0].Status = engine.Dropped
		}
		w.Items[0].Here = own[0].Status
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	p.pool.Put(ctx, w)
	g.mu.Lock()
	defer g.mu.Unlock()
	if end := g.tick.Add(1); w.Items[0].Status == engine.Stored && !p.dead.Load() {
		record.end = end
	}
}

// erase deletes a block, or with k = -1 drops the namespace, through a node.
func (g *grounds) erase(n, k int) (missing int, ok bool) {
	p := g.sites[n].running()
	if p == nil {
		return 0, false
	}
	record := &eraseRecord{key: k, site: n, began: g.tick.Add(1)}
	var err error
	if k < 0 {
		missing, err = p.pool.Drop(context.Background(), p.shelf)
	} else {
		ids, incarnation := p.IDs([]engine.Key{key(k)})
		missing, err = p.pool.Delete(context.Background(), p.shelf, incarnation, ids)
	}
	record.mark = p.pool.Mark()
	if err != nil || p.dead.Load() || record.mark.Seq == 0 {
		return 0, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.erased = append(g.erased, record)
	return missing, true
}

// read looks for a block at a node, here and then elsewhere, and judges what it finds.
func (g *grounds) read(n, k int) (number int) {
	p := g.sites[n].running()
	if p == nil {
		return 0
	}
	g.mu.Lock()
	erased := slices.Clone(g.erased)
	g.mu.Unlock()
	known := slices.DeleteFunc(erased, func(r *eraseRecord) bool {
		return r.key >= 0 && r.key != k || !p.pool.Knows(r.mark)
	})
	ids, incarnation := p.IDs([]engine.Key{key(k)})
	dst := make([]byte, blockBytes)
	where := "here"
	items := []engine.GetItem{{Key: key(k), Dst: [][]byte{dst}}}
	if err := p.ns.Get(items, engine.GetOptions{}); err != nil || items[0].Status != engine.Hit {
		where = "elsewhere"
		others := []pool.GetItem{{ID: ids[0], Dst: [][]byte{dst}}}
		p.pool.Get(pool.Of{Namespace: p.shelf.id, Incarnation: incarnation, BlockBytes: blockBytes}, others,
			pool.GetOptions{Deadline: time.Now().Add(2 * time.Second), Bounce: true, Released: func(int) {}})
		if others[0].Status != engine.Hit {
			g.mu.Lock()
			g.reads++
			g.mu.Unlock()
			return 0
		}
	}
	number = int(binary.LittleEndian.Uint64(dst))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads++
	g.hits++
	if number <= 0 || number >= len(g.puts) || !slices.Equal(dst, stamped(number)) || g.puts[number].key != k {
		g.t.Errorf("seed %d: site %d read wrong bytes of block %d, %s", g.seed, n, k, where)
		return number
	}
	put := g.puts[number]
	for _, r := range known {
		if put.end > 0 && put.end < r.began {
			g.t.Errorf("seed %d: site %d read put %d of block %d, %s, which had been put at site %d (%d to %d), and was then erased at site %d (from %d), as it knew",
				g.seed, n, number, k, where, put.site, put.began, put.end, r.site, r.began)
		}
	}
	return number
}

// carry moves a copy.
func (g *grounds) carry(from, to, k int) {
	p := g.sites[from].running()
	if p == nil || from == to {
		return
	}
	ids, incarnation := p.IDs([]engine.Key{key(k)})
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if p.pool.Carry(ctx, pool.Of{Namespace: p.shelf.id, Incarnation: incarnation, BlockBytes: blockBytes}, ids[0], key(k), nodeID(to),
		func() { g.pause(500 * time.Millisecond) }) {
		g.mu.Lock()
		g.carried++
		g.mu.Unlock()
	}
}

package node

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/member/membertest"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// mesh is a pool of real nodes over a simulated network, in a bubble. Clients have no
// sockets.
type mesh struct {
	t     *testing.T
	move  pool.MoveOptions
	wrap  func(*mesh, transport.Transport) transport.Transport // around that of every node; nil: as it is
	net   *netsim.Network
	nodes []*meshNode
}

type meshNode struct {
	*Node
	disk    *sim.Disk
	store   *engine.Store
	tier    *memory.Tier
	space   *space
	conn    *conn
	address string
}

// inMesh runs f in a mesh of n nodes; change, if not nil, edits the options of node i.
func inMesh(t *testing.T, n int, change func(i int, o *Options), f func(m *mesh)) {
	t.Helper()
	inMeshWith(t, n, pool.MoveOptions{}, change, f)
}

func inMeshWith(t *testing.T, n int, move pool.MoveOptions, change func(i int, o *Options), f func(m *mesh)) {
	t.Helper()
	inMeshOver(t, n, nil, move, change, f)
}

func inMeshOver(t *testing.T, n int, wrap func(*mesh, transport.Transport) transport.Transport, move pool.MoveOptions, change func(i int, o *Options), f func(m *mesh)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &mesh{t: t, move: move, wrap: wrap, net: netsim.New(netsim.Config{Seed: 1, Shape: netsim.Shape{DelayMin: 50 * time.Microsecond, DelayMax: 100 * time.Microsecond}})}
		world := membertest.New(1, 0, time.Millisecond)
		for i := range n {
			m.nodes = append(m.nodes, m.open(i, world, change))
		}
		time.Sleep(time.Second)
		f(m)
		m.net.HealAll()
		for _, n := range m.nodes {
			n.disk.SetFaults(sim.Plan{})
			meshMust(t, n.Close(context.Background()))
			meshMust(t, n.store.Close())
			if n.tier != nil {
				meshMust(t, n.tier.Close())
			}
		}
		m.net.Close()
	})
}

func meshMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *mesh) open(i int, world *membertest.World, change func(i int, o *Options)) *meshNode {
	m.t.Helper()
	n := &meshNode{address: fmt.Sprint("node-", i), disk: sim.NewDisk(sim.Config{Seed: uint64(i), MinLatency: 100 * time.Microsecond, MaxLatency: 100 * time.Microsecond})}
	dev, err := n.disk.Open()
	meshMust(m.t, err)
	n.store, err = engine.Open(engine.Options{Device: dev, IndexFS: vfs.NewCrashableMem(), CapacityBytes: 8 << 20, SegmentBytes: 128 << 10, LeaseShare: 0.9})
	meshMust(m.t, err)
	node, err := m.net.Node(n.address)
	meshMust(m.t, err)
	over := transport.Transport(node)
	if m.wrap != nil {
		over = m.wrap(m, node)
	}
	id := member.ID{byte(i + 1)}
	p, err := pool.New(pool.Options{PoolID: "mesh", Node: id, Name: n.address, Dir: m.t.TempDir(), Transport: over, Move: m.move,
		Members: world.Join(member.Member{ID: id, Name: n.address, Address: n.address, State: member.Active, ProtocolLow: 1, ProtocolHigh: 1})})
	meshMust(m.t, err)
	o := Options{Stores: []*engine.Store{n.store}, Pool: p}
	if change != nil {
		change(i, &o)
	}
	n.tier = o.Memory
	n.Node, err = New(o)
	meshMust(m.t, err)
	n.space, err = n.openSpace(engine.Descriptor{Name: "chat", BlockBytes: localBlock, TokensPerBlock: 16}, "")
	meshMust(m.t, err)
	n.conn = &conn{node: n.Node, number: 1, options: n.options.Load(), spaces: map[uint32]*space{1: n.space}, requests: map[uint64]*request{}}
	return n
}

// put stores blocks at a node, and there only.
func (n *meshNode) put(t *testing.T, from, count int) {
	t.Helper()
	items := make([]engine.PutItem, count)
	for i := range items {
		items[i] = engine.PutItem{Key: localKey(from + i), Src: [][]byte{localContent(from + i)}, Depth: uint32(i)}
	}
	meshMust(t, n.space.parts[0].ns.Put(items, engine.PutOptions{}))
}

// read loads blocks from..from+count-1 as a client of the node would, and checks hits.
func (n *meshNode) read(t *testing.T, flags uint32, patience time.Duration, from, count int) (*transfer, time.Duration) {
	t.Helper()
	began := time.Now()
	q := &request{c: n.conn, came: began, over: make(chan struct{})}
	tr := &transfer{q: q}
	keys := localKeys(from, count)
	tr.batch = batch{node: n.Node, space: n.space, class: loads, keys: keys, pieces: make([][][]byte, count), statuses: make([]byte, count),
		over: q.over, freed: tr.released, note: n.conn.note}
	for i := range tr.pieces {
		mem := make([]byte, localBlock)
		tr.pieces[i] = [][]byte{mem[:512], mem[512:]}
	}
	timer := time.AfterFunc(patience, q.giveUp)
	tr.read(flags, began.Add(patience))
	timer.Stop()
	took := time.Since(began)
	prefix := 0
	for prefix < count && wire.Status(tr.statuses[prefix]) == wire.Hit {
		prefix++
	}
	tr.count(prefix)
	for i, s := range tr.statuses {
		if wire.Status(s) == wire.Hit && !bytes.Equal(slices.Concat(tr.pieces[i]...), localContent(from+i)) {
			t.Errorf("block %d has wrong bytes", from+i)
		}
	}
	return tr, took
}

// text says HIT as H, MISS as M, LATE as L, for runs of blocks: "3H2M".
func (tr *transfer) text() (s string) {
	for i := 0; i < len(tr.statuses); {
		n := i
		for n < len(tr.statuses) && tr.statuses[n] == tr.statuses[i] {
			n++
		}
		s += fmt.Sprint(n-i, wire.Status(tr.statuses[i]).String()[:1])
		i = n
	}
	return s
}

// wantText wants a load to end so.
func wantText(t *testing.T, tr *transfer, want string) {
	t.Helper()
	if got := tr.text(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReadAway: blocks come from this node and two others in one request, with every flag,
// and those from others are counted apart. A node asks nobody for what it has.
func TestReadAway(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 10)
		m.nodes[1].put(t, 10, 10)
		m.nodes[2].put(t, 20, 10)
		for _, flags := range []uint32{0, wire.GetBounce, wire.GetNoTouch, wire.GetWorth, wire.GetPrefix, wire.GetPrefix | wire.GetBounce} {
			tr, _ := me.read(t, flags, time.Second, 0, 30)
			wantText(t, tr, "30H")
		}
		st := me.space.stat()
		if st.Hits != 180 || st.RemoteHits != 120 || st.PrefixHits != 180 || st.Misses != 0 || st.ReadBytes != 180*localBlock {
			t.Errorf("%+v", st)
		}
		before := me.pool.Stat()
		for _, flags := range []uint32{0, wire.GetPrefix} {
			tr, _ := me.read(t, flags, time.Second, 0, 10)
			wantText(t, tr, "10H")
		}
		if st := me.pool.Stat(); st.Matches != before.Matches || st.Peers[0].Hits != before.Peers[0].Hits {
			t.Error("others were asked for what is here")
		}
		if hits := m.nodes[1].space.stat().Hits; hits != 0 {
			t.Errorf("%d hits of clients at a node without any", hits)
		}
	})
}

// TestReadPrefixAway: the longest prefix over all nodes, and nothing behind it is read.
func TestReadPrefixAway(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 4)
		m.nodes[1].put(t, 4, 4)
		me.put(t, 8, 4)
		m.nodes[2].put(t, 12, 4)
		me.put(t, 17, 4) // 16 is nowhere
		m.nodes[1].put(t, 21, 4)
		for range 2 { // places not known, and known
			reads, far := me.store.Stat().Counters.ReadBytes, me.space.stat().RemoteHits
			tr, _ := me.read(t, wire.GetPrefix, time.Second, 0, 25)
			wantText(t, tr, "16H9M")
			if got := me.store.Stat().Counters.ReadBytes - reads; got != 8*localBlock {
				t.Errorf("%d bytes were read here, want those of 8 blocks", got)
			}
			if got := me.space.stat().RemoteHits - far; got != 8 {
				t.Errorf("%d blocks from others, want 8", got)
			}
		}
		tr, _ := me.read(t, wire.GetPrefix, time.Second, 16, 4)
		wantText(t, tr, "4M")
		tr, _ = me.read(t, wire.GetPrefix, time.Second, 12, 8)
		wantText(t, tr, "4H4M")
		tr, _ = me.read(t, 0, time.Second, 0, 25)
		wantText(t, tr, "16H1M8H")
	})
}

// TestLocalReadsWaitForNobody: while a peer is frozen, what is here is answered in exactly
// the time that it took before; a request for both waits for its patience, holds no turn of
// the drive meanwhile, and has what is here.
func TestLocalReadsWaitForNobody(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 10)
		m.nodes[1].put(t, 10, 10)
		tr, _ := me.read(t, 0, time.Second, 0, 20)
		wantText(t, tr, "20H")
		_, alone := me.read(t, 0, time.Second, 0, 10)
		m.net.Freeze(m.nodes[1].address)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			tr, took := me.read(t, 0, 300*time.Millisecond, 0, 20)
			if wantText(t, tr, "10H10L"); took != 300*time.Millisecond {
				t.Errorf("a request for both took %v", took)
			}
			tr, took = me.read(t, wire.GetPrefix, 300*time.Millisecond, 0, 20)
			if wantText(t, tr, "10H10L"); took != 300*time.Millisecond {
				t.Errorf("a prefix of both took %v", took)
			}
		}()
		time.Sleep(10 * time.Millisecond)
		if st := me.drives[0].stat(); st.LoadBytes != 0 || st.LoadsWaiting != 0 {
			t.Errorf("turns are held for a peer: %+v", st)
		}
		for range 50 {
			for _, flags := range []uint32{0, wire.GetPrefix} {
				if tr, took := me.read(t, flags, time.Second, 0, 10); took != alone || tr.text() != "10H" {
					t.Errorf("%s in %v, alone it took %v", tr.text(), took, alone)
				}
			}
		}
		<-ended
		time.Sleep(5 * time.Second) // the breaker is open
		if tr, took := me.read(t, 0, time.Second, 0, 20); took > 2*alone+time.Millisecond || tr.text() != "10H10M" {
			t.Errorf("%s in %v", tr.text(), took)
		}
	})
}

// look is a Match of a client of the node.
func (n *meshNode) look(t *testing.T, m wire.Match, from, count int) (wire.MatchAnswer, bool) {
	t.Helper()
	m.Namespace = 1
	raw := make([][]byte, count)
	for i, k := range localKeys(from, count) {
		raw[i] = k.Bytes
	}
	m.Keys = wire.MakeKeys(raw)
	l, err := n.conn.lookFor(&m)
	meshMust(t, err)
	asks := l.away != nil
	if asks {
		l.ask(nil)
	}
	return *n.conn.matched(&m, l).(*wire.MatchAnswer), asks
}

// TestMatchAway: a match finds what is anywhere, leases it where it is, and gives it back.
func TestMatchAway(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 4)
		m.nodes[1].put(t, 4, 4)
		m.nodes[2].put(t, 9, 4)
		if a, asks := me.look(t, wire.Match{}, 0, 4); asks || a.Prefix != 4 {
			t.Errorf("%+v, others asked: %v", a, asks)
		}
		a, asks := me.look(t, wire.Match{LeaseMS: 50_000, Trailing: 10}, 0, 13)
		if !asks || a.Prefix != 8 || a.Trailing != 4 || a.Leased != 12 || !bytes.Equal(a.Bitmap, []byte{0xff, 0x1e}) {
			t.Errorf("%+v, others asked: %v", a, asks)
		}
		leased := func() (n []int) {
			time.Sleep(time.Millisecond)
			for _, node := range m.nodes {
				n = append(n, node.store.Stat().LeasedBlocks)
			}
			return n
		}
		if got := leased(); !slices.Equal(got, []int{4, 4, 4}) {
			t.Errorf("leased: %v", got)
		}
		me.conn.release(a.Lease)
		if got := leased(); !slices.Equal(got, []int{0, 0, 0}) {
			t.Errorf("leased after the release: %v", got)
		}
		l, err := me.conn.look(1, 0, wire.MakeKeys([][]byte{localKey(1).Bytes, localKey(5).Bytes, localKey(8).Bytes}), 0)
		meshMust(t, err)
		l.ask(nil)
		if got := l.located().Append(nil); !bytes.Equal(got, []byte{3, 0, 0, 0, 1, 2, 0}) {
			t.Errorf("located: %v", got)
		}
		if n := me.conn.touchAway(&wire.KeyList{Namespace: 1, Keys: wire.MakeKeys([][]byte{localKey(0).Bytes, localKey(5).Bytes, localKey(8).Bytes})}); n != 1 {
			t.Errorf("%d touched at others, want 1", n)
		}
		time.Sleep(time.Second)
	})
}

// TestWorthAway: blocks that others would take too long to send are not worth it, and count
// as declined.
func TestWorthAway(t *testing.T) {
	inMesh(t, 2, nil, func(m *mesh) {
		me := m.nodes[0]
		m.nodes[1].put(t, 0, 400)
		m.net.SetShape(m.nodes[1].address, netsim.Shape{BytesPerSecond: 40 << 20}) // 100 us a block
		for range 20 {
			tr, _ := me.read(t, 0, 10*time.Second, 0, 400)
			wantText(t, tr, "400H")
		}
		if a, _ := me.look(t, wire.Match{ComputeUS: 200, LeaseMS: 1000}, 0, 100); a.Prefix != 100 || a.Leased != 100 {
			t.Errorf("%+v at twice the time that it takes", a)
		}
		if a, _ := me.look(t, wire.Match{ComputeUS: 50, LeaseMS: 1000}, 0, 100); a.Prefix != 0 || a.Lease != 0 || me.space.stat().Declined != 100 {
			t.Errorf("%+v at half the time that it takes", a)
		}
		time.Sleep(time.Second)
	})
}

// TestMemoryAndAway: what memory has comes from there, what others have from them.
func TestMemoryAndAway(t *testing.T) {
	inMesh(t, 2, func(i int, o *Options) {
		if i == 0 {
			tier, err := memory.New(memory.Options{Bytes: 4 << 20, Pages: arena.PagesSmall})
			meshMust(t, err)
			o.Memory = tier
		}
	}, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 10)
		m.nodes[1].put(t, 10, 10)
		me.ahead.begin(me.space, localKeys(0, 5), 0, nil, true)
		time.Sleep(time.Second)
		for _, flags := range []uint32{0, wire.GetPrefix} {
			before := me.space.stat()
			tr, _ := me.read(t, flags, time.Second, 0, 20)
			wantText(t, tr, "20H")
			if st := me.space.stat(); st.MemoryHits-before.MemoryHits < 5 || st.RemoteHits-before.RemoteHits != 10 {
				t.Errorf("%+v", st)
			}
		}
	})
}

// TestSickDriveAway: what lies on a drive that is sick comes from another node that has it.
func TestSickDriveAway(t *testing.T) {
	inMesh(t, 2, nil, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 10)
		m.nodes[1].put(t, 0, 10)
		time.Sleep(10 * time.Second)
		me.disk.SetFaults(sim.Plan{Delay: 1, DelayBy: time.Minute})
		tr, _ := me.read(t, 0, 20*time.Second, 0, 1) // finds it out
		wantText(t, tr, "1L")
		if me.store.Health() == nil {
			t.Fatal("the drive is well")
		}
		for _, flags := range []uint32{0, wire.GetPrefix} {
			tr, took := me.read(t, flags, time.Second, 0, 10)
			if wantText(t, tr, "10H"); took > 10*time.Millisecond {
				t.Errorf("took %v", took)
			}
		}
		if a, asks := me.look(t, wire.Match{}, 0, 10); !asks || a.Prefix != 10 {
			t.Errorf("%+v", a)
		}
		if st := me.space.stat(); st.RemoteHits != 20 {
			t.Errorf("%+v", st)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestHotAway: what clients of a node read from others often is copied to it, and read
// here from then on.
func TestHotAway(t *testing.T) {
	inMeshWith(t, 2, pool.MoveOptions{HotReads: 3}, nil, func(m *mesh) {
		me := m.nodes[0]
		m.nodes[1].put(t, 0, 20)
		for i := range 5 {
			tr, _ := me.read(t, uint32(i%2)*wire.GetPrefix, time.Second, 0, 10)
			wantText(t, tr, "10H")
			time.Sleep(time.Second)
		}
		tr, _ := me.read(t, 0, time.Second, 10, 10)
		wantText(t, tr, "10H")
		if st := me.space.stat(); st.RemoteHits != 3*10+10 {
			t.Errorf("%d blocks came from the other node", st.RemoteHits)
		}
		if st := me.pool.Stat().Moves.Hot; st.Copied != 10 || st.Refused != 0 {
			t.Errorf("%+v", st)
		}
	})
}

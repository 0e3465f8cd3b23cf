package node

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/memory"
)

const rdmaLanding = 1 << 20

// inRDMA runs f in a mesh of two nodes with RDMA, whose processes may lock so much memory; 0:
// all.
func inRDMA(t *testing.T, lockBytes int64, change func(i int, o *Options), f func(m *mesh)) {
	t.Helper()
	var net *sim.Network
	nodes := 0
	wrap := func(m *mesh, control transport.Transport) transport.Transport {
		if net == nil { // within the bubble
			net = sim.New(sim.Config{Seed: 1, DelayMin: 2 * time.Microsecond, DelayMax: 5 * time.Microsecond})
			m.t.Cleanup(net.Close)
		}
		nodes++
		machine, err := net.Machine(string(rune('a'+nodes)), sim.MachineConfig{Ports: sim.RoCE(uint8(nodes), 1), MemoryLockBytes: lockBytes})
		meshMust(t, err)
		over, err := rdma.New(rdma.Options{Control: control, Fabric: machine, LandingBytes: rdmaLanding})
		meshMust(t, err)
		return over
	}
	inMeshOver(t, 2, wrap, pool.MoveOptions{}, func(i int, o *Options) {
		o.PeerFrameBytes = 2 << 20
		if change != nil {
			change(i, o)
		}
	}, f)
}

// readRegion has the first node's client read blocks from..from+count-1 into a region of its.
func (m *mesh) readRegion(r *region, from, count int) (hits int) {
	m.t.Helper()
	n := m.nodes[0]
	q := &request{c: n.conn, came: time.Now(), over: make(chan struct{})}
	tr := &transfer{q: q}
	tr.batch = batch{node: n.Node, space: n.space, class: loads, keys: localKeys(from, count), pieces: make([][][]byte, count), statuses: make([]byte, count),
		over: q.over, freed: tr.released, note: n.conn.note}
	for i := range tr.pieces {
		mem, err := r.memory.Slice(uint64(i*localBlock), localBlock)
		meshMust(m.t, err)
		tr.pieces[i] = [][]byte{mem}
	}
	tr.read(0, q.came.Add(time.Second))
	for i, s := range tr.statuses {
		if wire.Status(s) == wire.Hit {
			hits++
			if string(tr.pieces[i][0]) != string(localContent(from+i)) {
				m.t.Errorf("block %d has wrong bytes", from+i)
			}
		}
	}
	return hits
}

// TestRDMA: blocks leave from the memory tier and from frames, and come into a client's
// memory, all of it registered: with the memory that RDMA lands in taken away it still works.
func TestRDMA(t *testing.T) {
	inRDMA(t, 0, func(i int, o *Options) {
		if i == 1 {
			tier, err := memory.New(memory.Options{Bytes: 4 << 20, Mode: memory.Inclusive})
			meshMust(t, err)
			o.Memory = tier
		}
	}, func(m *mesh) {
		m.nodes[1].put(t, 0, 40)
		m.nodes[1].read(t, 0, time.Second, 0, 20) // into its tier
		number, r := m.region(true)
		if r.copied {
			t.Error("the region is not registered")
		}
		for range 3 {
			if hits := m.readRegion(r, 0, 40); hits != 40 {
				t.Errorf("%d hits", hits)
			}
		}
		way := m.nodes[0].pool.Stat().Peers[0].Way
		if way.Name != "rdma" || way.Blocks != 120 || way.Bytes != 120*localBlock || way.Fallbacks != 0 || way.Ports != 1 {
			t.Errorf("%+v", way)
		}
		if way := m.nodes[1].pool.Stat().Peers[0].Way; way.SentBlocks != 120 || way.SentBytes != 120*localBlock || way.Pieces < 120 {
			t.Errorf("%+v", way)
		}
		if st := m.nodes[0].Stat().Registered; st.Bytes != 2<<20+arena.SharedUnitBytes || st.Missing != 0 {
			t.Errorf("%+v", st)
		}
		if st := m.nodes[1].Stat(); st.Registered.Bytes != 2<<20+4<<20 || st.Memory.Hits < 60 {
			t.Errorf("%+v, memory %+v", st.Registered, st.Memory)
		}
		meshMust(t, m.nodes[0].conn.dropRegion(number))
		m.gone()
	})
}

// TestRDMALockedMemory: where the limit of locked memory leaves room for what RDMA has of its
// own and no more, blocks come by RDMA all the same, and the log says what it costs, once.
func TestRDMALockedMemory(t *testing.T) {
	var log warnings
	inRDMA(t, 2*rdmaLanding+512<<10, func(i int, o *Options) {
		if i == 0 {
			o.Logger = slog.New(&log)
		}
	}, func(m *mesh) {
		m.nodes[1].put(t, 0, 40)
		var numbers []uint32
		for range 2 {
			number, r := m.region(true)
			numbers = append(numbers, number)
			if hits := m.readRegion(r, 0, 40); hits != 40 || !r.copied {
				t.Errorf("%d hits, copied: %v", hits, r.copied)
			}
		}
		if way := m.nodes[0].pool.Stat().Peers[0].Way; way.Name != "rdma" || way.Blocks != 80 {
			t.Errorf("%+v", way)
		}
		if st := m.nodes[0].Stat().Registered; st.Bytes != 0 || st.Missing != 3 {
			t.Errorf("%+v", st)
		}
		for _, number := range numbers {
			meshMust(t, m.nodes[0].conn.dropRegion(number))
		}
		m.gone()
	})
	if len(log.lines) != 1 || !strings.Contains(log.lines[0], "the limit on locked memory is too low") {
		t.Errorf("%q", log.lines)
	}
}

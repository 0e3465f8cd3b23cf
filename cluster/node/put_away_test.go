package node

import (
	"slices"
	"testing"
	"time"

	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// write stores blocks from..from+count-1 as a client of the node would.
func (n *meshNode) write(flags uint32, patience time.Duration, from, count int) (*transfer, time.Duration) {
	began := time.Now()
	q := &request{c: n.conn, came: began, over: make(chan struct{})}
	tr := &transfer{q: q}
	tr.batch = batch{node: n.Node, space: n.space, class: stores, keys: localKeys(from, count), pieces: make([][][]byte, count),
		statuses: make([]byte, count), over: q.over, freed: tr.released, note: n.conn.note}
	for i := range tr.pieces {
		mem := localContent(from + i)
		tr.pieces[i] = [][]byte{mem[:512], mem[512:]}
	}
	timer := time.AfterFunc(patience, q.giveUp)
	tr.put(tr.putting(&wire.Put{Flags: flags, Depth: 3}, began.Add(patience)))
	timer.Stop()
	tr.count(0)
	return tr, time.Since(began)
}

// has says how many of the blocks a node has.
func (n *meshNode) has(from, count int) (here int) {
	present, _, _, _ := n.space.present(localKeys(from, count), engine.MatchOptions{})
	for _, yes := range present {
		if yes {
			here++
		}
	}
	return here
}

// count says how many blocks of a transfer have this status.
func (tr *transfer) have(s wire.Status) (n int) {
	for _, got := range tr.statuses {
		if wire.Status(got) == s {
			n++
		}
	}
	return n
}

// TestWriteAway: blocks that are here are PRESENT, those that are elsewhere, too; new ones
// go to homes, here and on other nodes, each to one; and are read from everywhere.
func TestWriteAway(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 10)
		m.nodes[1].put(t, 10, 10)
		me.read(t, 0, time.Second, 10, 10) // where these are is remembered
		tr, _ := me.write(0, time.Second, 0, 200)
		for i, s := range tr.statuses {
			want := wire.Stored
			if i < 20 {
				want = wire.Present
			}
			if wire.Status(s) != want {
				t.Errorf("block %d: %v, want %v", i, wire.Status(s), want)
			}
		}
		total := 0
		for _, n := range m.nodes {
			total += n.has(0, 200)
		}
		if total != 200 {
			t.Errorf("%d blocks on all nodes, want 200", total)
		}
		for _, n := range m.nodes {
			tr, _ := n.read(t, 0, time.Second, 0, 200)
			wantText(t, tr, "200H")
		}
		st := me.space.stat()
		away := uint64(200 - me.has(0, 200) - 10)
		if st.Stored != 180 || st.Present != 20 || st.RemoteStored != away || st.WrittenBytes != (180-away)*localBlock || st.Dropped+st.LatePuts != 0 {
			t.Errorf("%+v; %d away", st, away)
		}
		if tr, _ := me.write(0, time.Second, 0, 200); tr.have(wire.Present) != 200 {
			t.Errorf("again: %d are PRESENT", tr.have(wire.Present))
		}
	})
}

// TestWriteAwayPartial: a last block that is not full is sent nowhere.
func TestWriteAwayPartial(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		for n := range 10 {
			tr, _ := m.nodes[0].write(wire.PutPartial, time.Second, 100*n, 5)
			if tr.have(wire.Stored) != 4 || wire.Status(tr.statuses[4]) != wire.Dropped || admit.Reason(tr.reasons[4]) != admit.Partial {
				t.Errorf("%v, %v", tr.statuses, tr.reasons)
			}
		}
		if st := m.nodes[0].pool.Stat().Puts; st.Blocks != 40 {
			t.Errorf("%+v", st)
		}
	})
}

// TestWriteAwayTwiceSeen: where blocks are admitted when they are put again, the node that
// the client speaks to judges, and no other.
func TestWriteAwayTwiceSeen(t *testing.T) {
	inMesh(t, 3, func(_ int, o *Options) { o.Admission.Admit = AdmitSecond }, func(m *mesh) {
		tr, _ := m.nodes[0].write(0, time.Second, 0, 100)
		if tr.have(wire.Dropped) != 100 || admit.Reason(tr.reasons[50]) != admit.FirstSight {
			t.Errorf("first: %d dropped", tr.have(wire.Dropped))
		}
		if tr, _ = m.nodes[0].write(0, time.Second, 0, 100); tr.have(wire.Stored) != 100 {
			t.Errorf("second: %d stored", tr.have(wire.Stored))
		}
	})
}

// TestWriteAwayBudget: the write budget of a home counts, not that of the client's node.
func TestWriteAwayBudget(t *testing.T) {
	const blocks = 30
	inMesh(t, 3, func(i int, o *Options) {
		if i == 0 {
			o.Admission.WriteBytesPerSecond, o.Admission.WriteBurst = 1, time.Second
		}
	}, func(m *mesh) {
		for n := range 30 {
			m.nodes[1].write(0, time.Second, 100*n, blocks)
			m.nodes[0].write(0, time.Second, 10000+100*n, blocks)
		}
		for i, n := range m.nodes {
			here := n.has(0, 3000) + n.has(10000, 3000)
			if (i == 0) != (here < 10) { // a budget takes a few blocks before it is overdrawn
				t.Errorf("node %d has %d blocks", i, here)
			}
		}
		st := m.nodes[1].space.stat()
		if st.Stored == 0 || st.OverBudget == 0 || st.Stored+st.OverBudget != 30*blocks {
			t.Errorf("%+v", st)
		}
	})
}

// TestWriteAwayAlone: when nobody can be reached everything stays here.
func TestWriteAwayAlone(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		for _, n := range m.nodes[1:] {
			m.net.Cut(m.nodes[0].address, n.address)
		}
		tr, took := m.nodes[0].write(0, 20*time.Second, 0, 200)
		if tr.have(wire.Stored) != 200 || m.nodes[0].has(0, 200) != 200 || took > 10*time.Second {
			t.Errorf("%d stored, %d here, after %v", tr.have(wire.Stored), m.nodes[0].has(0, 200), took)
		}
	})
}

// TestWriteAwayLate: a request that is given up is answered at once; what is LATE is
// released once, what is here is not late for others.
func TestWriteAwayLate(t *testing.T) {
	inMesh(t, 2, nil, func(m *mesh) {
		me := m.nodes[0]
		me.put(t, 0, 10)
		m.net.SetShape(m.nodes[1].address, netsim.Shape{DelayMin: time.Millisecond, DelayMax: time.Millisecond, BytesPerSecond: 1 << 20})
		tr, took := me.write(0, 50*time.Millisecond, 0, 200)
		if took > 51*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
		late := []uint32{}
		for i, s := range tr.statuses {
			switch wire.Status(s) {
			case wire.Late:
				late = append(late, uint32(i))
			case wire.Stored, wire.Present:
			default:
				t.Errorf("block %d: %v", i, wire.Status(s))
			}
		}
		released := slices.Sorted(slices.Values(tr.early))
		if len(late) == 0 || !slices.Equal(released, late) || tr.have(wire.Present) != 10 {
			t.Errorf("late %v, released %v, %d present", late, released, tr.have(wire.Present))
		}
	})
}

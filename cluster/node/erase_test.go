package node

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

// TestEraseEverywhere: a client's delete and drop, and an operator's drop, take blocks from
// all nodes; what is put then is found again.
func TestEraseEverywhere(t *testing.T) {
	inMesh(t, 3, nil, func(m *mesh) {
		me := m.nodes[0]
		fill := func() {
			t.Helper()
			for _, n := range m.nodes {
				n.put(t, 0, 10)
			}
			tr, _ := me.read(t, 0, time.Second, 0, 10)
			wantText(t, tr, "10H")
		}
		want := func(text string) {
			t.Helper()
			for _, n := range m.nodes {
				tr, _ := n.read(t, 0, time.Second, 0, 10)
				wantText(t, tr, text)
			}
		}
		fill()
		var keys [][]byte
		for _, k := range localKeys(2, 3) {
			keys = append(keys, k.Bytes)
		}
		answer, err := me.conn.delete(&wire.KeyList{Namespace: 1, Group: localKey(0).Group, Keys: wire.MakeKeys(keys)})
		if err != nil || answer != wire.Number(3) {
			t.Fatal(answer, err)
		}
		want("2H3M5H")
		me.put(t, 2, 3) // they are new blocks
		want("10H")
		for i, drop := range []func() error{
			func() error { _, err := m.nodes[1].conn.dropNamespace(1); return err },
			func() error { return m.nodes[2].DropNamespace("chat") },
			func() error { return me.dropSpace(me.space) },
		} {
			if err := drop(); err != nil {
				t.Fatal(err)
			}
			want("10M")
			for _, n := range m.nodes {
				if got := n.space.incarnation(); got != uint32(i+2) {
					t.Errorf("drop %d: incarnation %d", i, got)
				}
			}
			fill()
		}
		if err := me.DropNamespace("nothing"); err == nil {
			t.Error("what is nowhere was dropped")
		}
		for _, n := range m.nodes {
			if st := n.pool.Stat().Erase; st.Missing != 0 || st.Tombstones != 6 || st.Floors != 1 || st.Cleared != 0 {
				t.Errorf("%+v", st)
			}
		}
		other, err := me.openSpace(engine.Descriptor{Name: "other", BlockBytes: localBlock}, "")
		if err != nil || other.incarnation() != 1 {
			t.Error(err)
		}
	})
}

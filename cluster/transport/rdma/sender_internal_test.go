package rdma

import (
	"context"
	"testing"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// recording is a queue pair that keeps what is posted and completes nothing.
type recording struct {
	fabric.QueuePair
	lists [][]fabric.Write
}

func (q *recording) PostWrites(_ uint64, list []fabric.Write) error {
	q.lists = append(q.lists, append([]fabric.Write(nil), list...))
	return nil
}

// still makes a sender whose writes are kept, and a request of some blocks for it, on lines
// from its number on.
func still(t *testing.T, requests ...int) (d *sender, q *recording, asked []*asked) {
	s := newServing(&Transport{peers: map[member.ID]*peer{}})
	s.t.o.setDefaults()
	g := newGuest(s, helloOf(1), 16)
	q = &recording{}
	d = newSender(g, &port{}, q, &callerRail{}, sendsMax)
	g.rails = []*sender{d}
	for i, blocks := range requests {
		m := &fetchRequest{request: uint64(1 + i), blocks: make([]wantedBlock, blocks)}
		for b := range m.blocks {
			m.blocks[b].line = uint16(10*i + b)
		}
		r := newAsked(t.Context(), g, m, 0)
		g.asked[m.request] = r
		asked = append(asked, r)
		t.Cleanup(r.halt)
	}
	return d, q, asked
}

// TestBatch has blocks of two requests in the queue: those of one that lie together are told
// with one immediate, and each names the one before it.
func TestBatch(t *testing.T) {
	d, q, r := still(t, 4, 1)
	for i := range 3 {
		r[0].None(i, transport.Miss)
	}
	r[1].None(0, transport.Refused)
	r[0].None(3, transport.Miss)
	for range 3 {
		d.batch(d.next())
	}
	want := [][]uint16{{noLine, 0, 1}, {noLine}, {noLine}}
	if len(q.lists) != len(want) {
		t.Fatalf("%d lists are posted", len(q.lists))
	}
	for i, list := range q.lists {
		for k, w := range list {
			m, err := parseRecord((*[recordBytes]byte)(w.Inline))
			if err != nil || k >= len(want[i]) || m.before != want[i][k] || w.Notify != (k == len(want[i])-1) {
				t.Errorf("list %d, write %d: %+v, %v, with immediate %v", i, k, m, err, w.Notify)
			}
		}
	}
}

// TestNothingBehindAMark has a request halted, and a mark posted, while the sender is
// between two steps of making its list: at none of them it is posted behind the mark.
func TestNothingBehindAMark(t *testing.T) {
	for step := range 4 {
		d, q, asked := still(t, 2)
		r := asked[0]
		r.None(0, transport.Miss)
		r.None(1, transport.Miss)
		o := d.next()
		steps := []func() bool{
			func() bool { return d.data(o) },
			func() bool { return d.record(o, noLine, true) },
			func() bool { return d.post(nil) },
		}
		for i := range steps {
			if i == step {
				r.halt()
				if err := d.mark(context.Background(), 9); err != nil {
					t.Fatal(err)
				}
			}
			if !steps[i]() {
				if i < step {
					t.Fatalf("step %d was not done", i)
				}
				break
			}
		}
		if step < 3 {
			if n := len(q.lists); n != 1 || q.lists[0][0].Immediate != markImmediate(9) {
				t.Errorf("halted before step %d, %d lists are posted", step, n)
			}
		} else if len(q.lists) != 1 || len(q.lists[0]) != 1 || q.lists[0][0].Immediate != immediateOf(0, 0) {
			t.Errorf("%+v are posted", q.lists)
		}
	}
}

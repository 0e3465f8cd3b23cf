package rdma

import (
	"context"
	"testing"

	"github.com/spillway-kv/spillway/cluster/member"
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

// TestNothingBehindAMark has a request halted, and a mark posted, while the sender is
// between two steps of making its list: at none of them it is posted behind the mark.
func TestNothingBehindAMark(t *testing.T) {
	for step := range 4 {
		s := newServing(&Transport{peers: map[member.ID]*peer{}})
		s.t.o.setDefaults()
		g := newGuest(s, helloOf(1), 16)
		q := &recording{}
		d := newSender(g, &port{}, q, &callerRail{}, sendsMax)
		g.rails = []*sender{d}
		m := &fetchRequest{request: 1, blocks: []wantedBlock{{line: 1}, {line: 2}}}
		r := newAsked(t.Context(), g, m, 0)
		g.asked[1] = r
		r.None(0, 2)
		r.None(1, 2)
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
		} else if len(q.lists) != 1 || len(q.lists[0]) != 1 || q.lists[0][0].Immediate != immediateOf(1, 0) {
			t.Errorf("%+v are posted", q.lists)
		}
		d.making.r = nil
		r.halt()
	}
}

package rdma

import (
	"context"
	"errors"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/engine/offheap"
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
	s := newServing(&Transport{})
	s.t.o.setDefaults()
	g := newGuest(s, helloOf(1), 16)
	g.of = &peer{}
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

// oneTurn has a sender post what is next.
func (d *sender) oneTurn() {
	w, o := d.next()
	d.done(w, d.batch(w, o))
}

// TestBatch has blocks of two requests in the queue: those of one that are posted together are
// told with one immediate, and each names the one before it.
func TestBatch(t *testing.T) {
	d, q, r := still(t, 4, 1)
	for i := range 3 {
		r[0].None(i, transport.Miss)
	}
	r[1].None(0, transport.Refused)
	r[0].None(3, transport.Miss)
	for range 2 {
		d.oneTurn()
	}
	want := [][]uint16{{noLine, 0, 1, 2}, {noLine}}
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
		_, o := d.next()
		steps := []func() bool{
			func() bool { return d.data(o, batchBytes) },
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

// refusing is a queue pair that takes some lists, and of the next one perhaps a part.
type refusing struct {
	recording
	takes int
}

func (q *refusing) PostWrites(id uint64, list []fabric.Write) error {
	refuse := len(q.lists) == q.takes
	if err := q.recording.PostWrites(id, list); err != nil || !refuse {
		return err
	}
	return errors.New("some are posted")
}

func (q *refusing) Destroy() error { return nil }

// reads reports whether a list, perhaps posted, has what lies at an address.
func (q *refusing) reads(address uint64) bool {
	for _, list := range q.lists {
		for i := range list {
			if list[i].Source == address {
				return true
			}
		}
	}
	return false
}

// TestPostFails: nobody knows what of a list is posted after an error, so its memory is let
// go of when the queue pair is destroyed, once.
func TestPostFails(t *testing.T) {
	a, err := offheap.Make[byte](3 * listBytes)
	must(t, err)
	defer a.Free()
	for takes, lists := 0, 0; takes == 0 || lists == takes; takes++ { // until none is refused
		d, _, r := still(t, 3)
		q := &refusing{takes: takes}
		d.pair = q
		base := addressOf(a.Slice())
		d.g.s.t.regions.now.Store(&snapshot{{base: base, end: base + 3*listBytes, at: []registered{{address: base}}}})
		destroyed, done := false, 0
		for i := range r[0].blocks {
			w := &r[0].blocks[i]
			w.size, w.pieces = listBytes, []target{{address: 1 << 20, bytes: listBytes}}
			r[0].Block(i, [][]byte{a.Slice()[i*listBytes:][:listBytes]}, 0, func() {
				if done++; !destroyed && q.reads(base+uint64(i*listBytes)) {
					t.Errorf("block %d is let go of, and perhaps posted, with %d lists taken", i, takes)
				}
			})
		}
		d.oneTurn()
		if lists = len(q.lists); d.g.failed != (lists > takes) {
			t.Errorf("with %d lists taken of %d the session has failed: %v", takes, lists, d.g.failed)
		}
		lists = min(lists, takes+1) - 1
		d.g.fail(errGivenUp)
		d.kill()
		must(t, d.destroy())
		destroyed = true
		d.letGo()
		if done != 3 {
			t.Errorf("with %d lists taken %d blocks are let go of", takes, done)
		}
	}
}

package rdma

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// TestBlocks has blocks of many shapes sent, out of memory that is registered, that is not,
// and that is in part.
func TestBlocks(t *testing.T) {
	sizes := []int{0, 1, 4096, 100_000, 1 << 20, 1<<20 + 1, 5 << 20, 300_000}
	for _, source := range []string{"registered", "loose", "mixed"} {
		for _, pieces := range []int{64 << 20, 70_000} {
			t.Run(fmt.Sprintf("%s/%d", source, pieces), func(t *testing.T) {
				serve(t, 1, Options{LandingBytes: 512 << 10, PostedBytes: 2 << 20}, func(r *rig) {
					c := r.caller(1).up()
					defer c.end()
					l := &lender{T: r.T}
					r.on(func(_ context.Context, body []byte, n int, reply transport.Reply) ([]byte, error) {
						for i := range n {
							memory := r.memory
							if source == "loose" {
								memory = r.loose
							}
							p, done := l.lend(memory, content(uint64(i), sizes[i]), pieces)
							if source == "mixed" && len(p) > 0 {
								copy(r.loose, p[len(p)-1])
								p[len(p)-1] = r.loose[:len(p[len(p)-1])]
								r.loose = r.loose[len(p[len(p)-1]):]
							}
							reply.Block(i, p, uint64(100+i), done)
						}
						return append([]byte("did "), body...), nil
					})
					m := c.ask(0, 0, 50_000, sizes...)
					answer, err := c.fetch(m)
					if err != nil || answer.failed != nil || string(answer.answer) != "did what" {
						r.Fatalf("%+v, %v", answer, err)
					}
					for i, got := range c.records(0, len(sizes)) {
						want := record{request: m.request, sum: uint64(100 + i), block: i, generation: m.blocks[i].generation, status: transport.Done, before: got.before, bytes: uint32(sizes[i])}
						if got != want {
							r.Errorf("the record is %+v, want %+v", got, want)
						}
						c.arrived(m, int(i), content(uint64(i), sizes[i]))
					}
					r.settle()
					l.back()
					way := r.t.Way(helloOf(c.id).Node)
					if way.SentBlocks != uint64(len(sizes)) || way.SentBytes == 0 || way.Pieces < uint64(len(sizes)) {
						r.Errorf("%+v", way)
					}
				})
			})
		}
	}
}

// TestStatuses has blocks that there are not, and calls that fail.
func TestStatuses(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		c := r.caller(1).up()
		defer c.end()
		l := &lender{T: r.T}
		r.on(func(_ context.Context, _ []byte, n int, reply transport.Reply) ([]byte, error) {
			reply.None(1, transport.Refused)
			p, done := l.lend(r.memory, content(2, 999), 999)
			reply.Block(2, p, 5, done) // of another size
			reply.None(0, transport.Miss)
			p, done = l.lend(r.memory, content(3, 1000), 10)
			reply.Block(3, p, 5, done)
			return nil, nil // nothing of 4
		})
		m := c.ask(0, 0, 1000, 1000, 1000, 1000, 1000, 1000)
		answer, err := c.fetch(m)
		if err != nil || answer.failed != nil || len(answer.answer) != 0 {
			r.Fatalf("%+v, %v", answer, err)
		}
		got := c.records(0, 5)
		for i, want := range []transport.Status{transport.Miss, transport.Refused, transport.Miss, transport.Done, transport.Miss} {
			if got[uint32(i)].status != want {
				r.Errorf("block %d has status %d, want %d", i, got[uint32(i)].status, want)
			}
		}
		c.arrived(m, 3, content(3, 1000))
		r.settle()
		l.back()

		var late transport.Reply
		r.on(func(_ context.Context, _ []byte, n int, reply transport.Reply) ([]byte, error) {
			late = reply
			p, done := l.lend(r.memory, content(4, 1000), 1000)
			reply.Block(0, p, 5, done)
			return nil, fmt.Errorf("no: %w", &transport.RemoteError{Code: transport.CodeFloor, Text: "dropped"})
		})
		answer, err = c.fetch(c.ask(0, 10, 1000, 1000, 1000))
		if err != nil || answer.failed == nil || answer.failed.Code != transport.CodeFloor || answer.failed.Text != "no: dropped" {
			r.Errorf("%+v, %v", answer.failed, err)
		}
		r.settle()
		l.back()
		p, done := l.lend(r.memory, content(4, 1000), 1000)
		late.Block(1, p, 5, done)
		l.back()

		r.on(func(_ context.Context, _ []byte, n int, reply transport.Reply) ([]byte, error) {
			p, done := l.lend(r.memory, content(4, 1000), 1000)
			reply.Block(0, p, 5, done)
			panic("the handler breaks down")
		})
		_, err = c.fetch(c.ask(0, 20, 1000, 1000, 1000))
		codeOf(r.T, "a panic", err, transport.CodeInternal)
		r.settle()
		l.back()

		if got, err := c.link.Call(r.Context(), 0xf4, []byte("x")); err != nil || string(got) != "\xf4x" {
			r.Errorf("a call of another kind: %q, %v", got, err)
		}
	})
}

// TestPosted samples what is posted while large blocks are sent: it is bounded.
func TestPosted(t *testing.T) {
	serveOver(t, 1, Options{PostedBytes: 256 << 10, PieceBytes: 64 << 10}, slow, func(r *rig) {
		c := r.caller(1).up()
		defer c.end()
		l := &lender{T: r.T}
		r.on(r.lending(l, 3<<20, 3<<20))
		_, err := c.fetch(c.ask(0, 0, 20_000, 3<<20, 3<<20))
		r.must(err)
		g, err := r.t.serving.find(c.session, helloOf(c.id))
		r.must(err)
		d, most := g.rails[0], int64(0)
		for l.out.Load() > 0 {
			d.mu.Lock()
			nBytes, writes := d.bytes, d.writes
			d.mu.Unlock()
			if most = max(most, nBytes); nBytes > 256<<10+recordBytes || writes > d.sends {
				r.Fatalf("%d bytes in %d writes are posted", nBytes, writes)
			}
			time.Sleep(100 * time.Microsecond)
		}
		if most < 128<<10 {
			r.Errorf("only %d bytes were ever posted", most)
		}
	})
}

// TestAnswerAfterHandler: what a handler says of blocks when it is over is not heard, and
// brings nobody down, however early it comes.
func TestAnswerAfterHandler(t *testing.T) {
	d, _, r := still(t, 2)
	d.mu.Lock() // handled waits for it with the first block
	unlock := sync.OnceFunc(d.mu.Unlock)
	defer unlock()
	var over sync.WaitGroup
	over.Go(func() { r[0].handled(false) })
	for answered := false; !answered; runtime.Gosched() {
		r[0].g.mu.Lock()
		answered = r[0].answered[0]
		r[0].g.mu.Unlock()
	}
	done := 0
	r[0].Block(0, nil, 0, func() { done++ })
	r[0].None(1, transport.Refused)
	unlock()
	over.Wait()
	w, o := d.next()
	for i := range 2 {
		if i > 0 {
			o = d.follower(w, 0)
		}
		if o.index != i || o.status != transport.Miss {
			t.Errorf("block %d is answered with %d, want a miss of %d", o.index, o.status, i)
		}
	}
	if done != 1 {
		t.Errorf("done was called %d times", done)
	}
}

// TestSmallBehindLarge asks for a small block behind fetches of large ones: it is there long
// before them, and they are whole all the same.
func TestSmallBehindLarge(t *testing.T) {
	for _, source := range []string{"registered", "loose"} {
		t.Run(source, func(t *testing.T) {
			serveOver(t, 1, Options{PostedBytes: 256 << 10, PieceBytes: 64 << 10, LandingBytes: 1 << 20}, slow, func(r *rig) {
				c := r.caller(1).up()
				defer c.end()
				l := &lender{T: r.T}
				memory := r.memory
				if source == "loose" {
					memory = r.loose
				}
				r.on(func(_ context.Context, _ []byte, n int, reply transport.Reply) ([]byte, error) {
					for i := range n {
						size := int(reply.(*asked).blocks[i].size)
						p, done := l.lend(memory, content(uint64(size), size), size)
						reply.Block(i, p, uint64(size), done)
					}
					return nil, nil
				})
				large := c.ask(0, 0, 1<<20, 2<<20, 3<<20)
				_, err := c.fetch(large)
				r.must(err)
				c.base = 6 << 20
				small := c.ask(0, 8, 1000, 1000)
				_, err = c.fetch(small)
				r.must(err)
				line, _ := lineOf(c.rails[0].receive(r.T))
				if m := c.rails[0].line(r.T, line); m.request != small.request || l.out.Load() < 2 {
					r.Errorf("the first record is of request %d, want %d; %d blocks are still to be sent", m.request, small.request, l.out.Load())
				}
				c.arrived(small, 0, content(1000, 1000))
				c.records(0, 2)
				for i, size := range []int{2 << 20, 3 << 20} {
					c.arrived(large, i, content(uint64(size), size))
				}
				r.settle()
				l.back()
			})
		})
	}
}

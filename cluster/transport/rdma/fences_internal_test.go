package rdma

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	fsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
)

// slow is a network on which blocks take a while: 20 ms a MiB.
var slow = fsim.Config{Seed: 3, DelayMin: time.Millisecond, DelayMax: 2 * time.Millisecond, BytesPerSecond: 50 << 20}

// poison fills the caller's memory, and says later whether it changed.
func (e *callerEnd) poison() (changed func() bool) {
	fill(e.mem, 0xa5)
	return func() bool { return bytes.Count(e.mem, []byte{0xa5}) != len(e.mem) }
}

// begun proves that the bytes of a block have come up to some point and not from there: they
// were not let go of before they were sent.
func (c *caller) begun(m *fetchRequest, i int, want []byte) {
	c.Helper()
	e, got := c.rails[m.blocks[i].rail], []byte(nil)
	for _, p := range m.blocks[i].pieces {
		at := p.address - e.region.Address()
		got = append(got, e.mem[at:at+uint64(p.bytes)]...)
	}
	same := sort.Search(len(got), func(n int) bool { return !bytes.Equal(got[:n+1], want[:n+1]) })
	if bytes.Count(got[same:], []byte{0}) != len(got)-same {
		c.Errorf("of %d bytes %d are right, and others have come behind them", len(got), same)
	}
}

// lending answers every block out of registered memory, as large as it is asked for.
func (r *rig) lending(l *lender, sizes ...int) func(context.Context, []byte, int, transport.Reply) ([]byte, error) {
	return func(_ context.Context, _ []byte, n int, reply transport.Reply) ([]byte, error) {
		for i := range n {
			p, done := l.lend(r.memory, content(uint64(i), sizes[i]), 1<<20)
			reply.Block(i, p, uint64(i), done)
		}
		return nil, nil
	}
}

// TestFenceUnderWay fences a request of which some is posted and some is not, at many
// moments: nothing comes behind the word, and other requests do not notice.
func TestFenceUnderWay(t *testing.T) {
	for moment := range 12 {
		serveOver(t, 1, Options{PostedBytes: 1 << 20, LandingBytes: 2 << 20}, slow, func(r *rig) {
			c := r.caller(1).up()
			defer c.end()
			l := &lender{T: r.T}
			sizes := []int{2 << 20, 1 << 20, 100, 3 << 20}
			if moment%2 == 1 { // through memory of the server's own
				r.memory = r.loose
			}
			r.on(r.lending(l, sizes...))
			m := c.ask(0, 0, 20_000, sizes...)
			if answer, err := c.fetch(m); err != nil || answer.failed != nil {
				r.Fatal(answer, err)
			}
			c.base = 7 << 20
			r.memory = r.loose                  // it takes memory of the server's own as soon as there is some
			other := c.ask(0, 20, 1<<20, 1<<20) // behind it
			r.on(r.lending(l, 1<<20))
			if answer, err := c.fetch(other); err != nil || answer.failed != nil {
				r.Fatal(answer, err)
			}
			time.Sleep(time.Duration(moment*12) * time.Millisecond)
			if err := c.fence(m.request); err != nil {
				r.Fatal(err)
			}
			for i, n := range sizes {
				c.begun(m, i, content(uint64(i), n))
			}
			fill(c.rails[0].mem[:c.base], 0xa5)
			r.settle()
			l.back()
			if bytes.Count(c.rails[0].mem[:c.base], []byte{0xa5}) != int(c.base) {
				r.Error("memory changed behind the word")
			}
			c.arrived(other, 0, content(0, 1<<20))
			if got := c.rails[0].line(r.T, 20); got.request != other.request || got.status != transport.Done {
				r.Errorf("%+v", got)
			}
		})
	}
}

// TestFenceOfHandler fences a request whose handler still runs: it hears of it, and what it
// says later is not sent.
func TestFenceOfHandler(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		c := r.caller(1).up()
		defer c.end()
		l := &lender{T: r.T}
		changed := c.rails[0].poison()
		fenced, answered := make(chan struct{}), make(chan error, 1)
		r.on(func(ctx context.Context, _ []byte, _ int, reply transport.Reply) ([]byte, error) {
			<-ctx.Done()
			<-fenced // the word does not wait for the handler
			p, done := l.lend(r.memory, content(1, 1000), 1000)
			reply.Block(0, p, 1, done)
			l.back()
			return nil, ctx.Err()
		})
		m := c.ask(0, 0, 1000, 1000, 1000)
		go func() {
			_, err := c.fetch(m)
			answered <- err
		}()
		r.settle()
		r.must(c.fence(m.request))
		close(fenced)
		r.must(<-answered)
		r.settle()
		if changed() {
			r.Error("memory changed behind the word")
		}
	})
}

// TestFenceFirst fences requests that have not come: they are refused, until the oldest
// request is beyond them.
func TestFenceFirst(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		c := r.caller(1).up()
		defer c.end()
		l := &lender{T: r.T}
		r.on(r.lending(l, 10))
		c.last = 4
		r.must(c.fence(5, 7))
		for n := uint64(5); n <= 8; n++ {
			_, err := c.fetch(c.ask(0, int(n), 10, 10))
			if n == 5 || n == 7 {
				codeOf(r.T, fmt.Sprint("request ", n), err, transport.CodeBusy)
			} else {
				r.must(err)
			}
		}
		r.settle()
		m := c.ask(0, 10, 10, 10) // 9
		m.oldest = 9
		_, err := c.fetch(m)
		r.must(err)
		c.last = 7
		_, err = c.fetch(c.ask(0, 11, 10, 10))
		codeOf(r.T, "a request below the oldest", err, transport.CodeBusy)
		g, err := r.t.serving.find(c.session, helloOf(c.id))
		r.must(err)
		g.mu.Lock()
		if len(g.fenced) > 0 {
			r.Errorf("%v are remembered", g.fenced)
		}
		g.mu.Unlock()
		r.settle()
		l.back()
	})
}

// TestFencesAndFetches has random requests fenced at random, before they come as well, on
// two rails, and proves every byte that was said to have come, and that nothing changes
// behind a word.
func TestFencesAndFetches(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			config := slow
			config.Seed = seed
			serveOver(t, 2, Options{PostedBytes: 1 << 20, LandingBytes: 256 << 10}, config, func(r *rig) {
				c := r.caller(2).up()
				defer c.end()
				history(r, c, rand.New(rand.NewPCG(seed, 8)))
			})
		})
	}
}

func history(r *rig, c *caller, rng *rand.Rand) {
	l := &lender{T: r.T}
	for round := range 15 {
		l.mu.Lock()
		l.lent = 0 // all of it is back
		l.mu.Unlock()
		rail := rng.IntN(2)
		sizes := make([]int, 1+rng.IntN(5))
		for i := range sizes {
			sizes[i] = rng.IntN(600_000)
		}
		memory, pieceBytes := r.memory, 1+rng.IntN(1<<20)
		if rng.IntN(2) == 0 {
			memory = r.loose
		}
		r.on(func(ctx context.Context, _ []byte, n int, reply transport.Reply) ([]byte, error) {
			for _, i := range rand.Perm(n) {
				p, done := l.lend(memory, content(uint64(round*10+i), sizes[i]), pieceBytes+1000)
				reply.Block(i, p, uint64(i), done)
			}
			return nil, nil
		})
		m := c.ask(rail, 0, pieceBytes+300, sizes...)
		for i := range m.blocks {
			m.blocks[i].generation = uint32(round)
		}
		before := rng.IntN(4) == 0
		if before {
			r.must(c.fence(m.request))
		}
		_, err := c.fetch(m)
		if before {
			codeOf(r.T, "a fenced request", err, transport.CodeBusy)
		} else {
			r.must(err)
		}
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
		r.must(c.fence(m.request))
		for i := range m.blocks {
			if got, err := parseRecord((*[recordBytes]byte)(c.rails[rail].table[i*recordBytes:])); err == nil && got.request == m.request {
				c.arrived(m, i, content(uint64(round*10+i), sizes[i]))
				if before {
					r.Errorf("block %d of a fenced request has come", i)
				}
			}
		}
		changed := c.rails[rail].poison()
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if changed() {
			r.Fatalf("memory changed behind the word of round %d", round)
		}
		r.settle()
		l.back()
		clear(c.rails[rail].mem)
	}
}

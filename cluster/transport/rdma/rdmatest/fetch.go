package rdmatest

import (
	"context"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// fetch asks for the blocks of the operation, as far as there is memory for them.
func (a *asking) fetch(ctx context.Context, link transport.Link) {
	var orders []order
	f := &transport.Fetching{}
	for i, b := range a.op.Blocks {
		g := &asked{Block: b, id: a.first + uint64(i), f: a.l.n.dst[bit(b.Known)]}
		ok, pure := false, false
		if g.p, ok, pure = g.f.lend(b.Bytes); !ok {
			break
		}
		if !pure {
			a.fail("MEMORY: somebody wrote to a destination that was the test's again")
		}
		a.asked = append(a.asked, g)
		orders = append(orders, order{id: g.id, bytes: uint32(b.Bytes), pieces: uint8(b.Pieces), what: b.What, known: b.SourceKnown, apart: b.Apart, read: b.Read})
		f.Blocks = append(f.Blocks, transport.Block{Dst: cut(g.f.bytes(g.p), b.Pieces)})
	}
	if !a.op.Quiet {
		f.Arrived = func(i int) { a.arrive(f, i) }
	}
	kind := kindBlocks
	if a.op.Waits {
		kind = kindWaits
	}
	f.Released = func(i int) { a.release(f, i) }
	answer, err := link.Fetch(ctx, kind, encode(orders), f)
	a.err = err
	if err == nil && string(answer) != "fetched" {
		a.fail("WRONG BYTES: the answer is %q", answer)
	}
	a.r.note(func(f *Figures) { f.Fetches++ })
	for i := range f.Blocks {
		a.settle(f, i)
	}
}

// arrive is Fetching.Arrived.
func (a *asking) arrive(f *transport.Fetching, i int) {
	g := a.asked[i]
	if g.arrived {
		a.fail("ANSWER: block %d arrived twice", i)
		return
	}
	g.arrived = true
	a.take(f, i)
	a.arrivals++
	if a.arrivals == a.op.CancelAt {
		a.gaveUp = time.Now()
		a.cancel()
	}
}

// take judges a block that is answered, and takes its memory back.
func (a *asking) take(f *transport.Fetching, i int) {
	g, b := a.asked[i], &f.Blocks[i]
	switch b.Status {
	case transport.Done:
		if g.What != Send {
			a.fail("ANSWER: block %d is done, and was not to be", i)
			break
		}
		if at := differs(g.f.bytes(g.p), g.id); at >= 0 {
			a.fail("WRONG BYTES: byte %d of block %d, of %d", at, i, g.Bytes)
		}
		if b.Checksum != sumOf(g.id) {
			a.fail("WRONG BYTES: checksum %#x of block %d", b.Checksum, i)
		}
	case transport.Miss, transport.Refused, transport.Lost:
	default:
		a.fail("ANSWER: block %d has status %d", i, b.Status)
	}
	a.back(g)
}

// back takes memory back.
func (a *asking) back(g *asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.ours {
		a.r.fail("RELEASE: memory came back twice: %s", a.name)
		return
	}
	g.ours = true
	if !g.f.back(g.p) {
		a.r.fail("MEMORY: somebody wrote around a destination: %s", a.name)
	}
}

// release is Fetching.Released.
func (a *asking) release(f *transport.Fetching, i int) {
	if s := f.Blocks[i].Status; s != transport.Late {
		a.fail("RELEASE: block %d was released with status %d", i, s)
	}
	a.back(a.asked[i])
}

// settle looks at a block when its Fetch has returned.
func (a *asking) settle(f *transport.Fetching, i int) {
	g, s := a.asked[i], f.Blocks[i].Status
	a.count(s)
	told := f.Arrived != nil && s != transport.Late && s != transport.Lost
	if g.arrived != told {
		a.fail("ANSWER: block %d has status %d, and arrived: %v", i, s, g.arrived)
	}
	if s != transport.Late && !g.arrived {
		a.take(f, i)
	}
	if a.err != nil {
		return
	}
	want := [...]transport.Status{Send: transport.Done, Miss: transport.Miss, Refuse: transport.Refused, Forget: transport.Miss, Longer: transport.Miss}
	if g.What == Send && s == transport.Refused && a.other.stuck.Load() { // all memory to send from may be lost
		return
	}
	if g.What < Fail && s != want[g.What] {
		a.fail("ANSWER: block %d of %d bytes has status %d in a fetch without an error", i, g.Bytes, s)
	}
}

func (a *asking) count(s transport.Status) {
	a.r.note(func(f *Figures) {
		switch s {
		case transport.Done:
			f.Done++
		case transport.Miss:
			f.Missed++
		case transport.Refused:
			f.Refused++
		case transport.Late:
			f.Late++
		case transport.Lost:
			f.Lost++
		}
	})
}

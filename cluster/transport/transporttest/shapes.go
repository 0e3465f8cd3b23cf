package transporttest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

func (k *kit) rng() *rand.Rand {
	const seed = 20
	k.Helper()
	k.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

func testCall(k *kit) {
	l, server := k.pair()
	if got := l.Peer(); got != server.self {
		k.Errorf("the peer is %+v, want %+v", got, server.self)
	}
	if l.Version() != 3 {
		k.Errorf("version %d, want 3", l.Version())
	}
	for _, n := range append(sizes, 4<<20) {
		body := make([]byte, n)
		content(body, uint64(n))
		want := slices.Clone(body)
		slices.Reverse(want)
		answer, err := l.Call(k.Context(), kindEcho, body)
		k.must(err)
		if string(answer) != string(want) {
			k.Errorf("a body of %d bytes came back as %d other bytes", n, len(answer))
		}
		Spoil(body) // the caller's again
		Spoil(answer)
	}
}

func testCallErrors(k *kit) {
	l, _ := k.pair()
	for range 3 {
		_, err := l.Call(k.Context(), kindFail, nil)
		k.remote(err, transport.CodeInternal)
		if err.Error() != errFail.Error() {
			k.Errorf("the text is %q, want %q", err, errFail)
		}
		_, err = l.Call(k.Context(), kindPanic, nil)
		k.remote(err, transport.CodeInternal)
		_, err = l.Call(k.Context(), 0xee, nil)
		k.remote(err, transport.CodeUnknown)
		for code := transport.CodeInternal; code <= transport.CodeClosing; code++ {
			_, err := l.Call(k.Context(), kindCode, []byte{byte(code), 'x'})
			k.remote(err, code)
		}
		k.alive(l)
	}
}

func testFetchShapes(k *kit) {
	rng := k.rng()
	l, _ := k.pair()
	shapes := [][]int{{}, {0}, {largest}, slices.Clone(sizes), make([]int, 500), {1 << 20, 0, 5 << 20, 3, 3 << 20}}
	for i := range shapes[4] {
		shapes[4][i] = rng.IntN(3000)
	}
	for _, shape := range shapes {
		var orders []order
		for _, n := range shape {
			orders = append(orders, order{id: rng.Uint64(), size: uint32(n)})
		}
		t := k.fetching(rng, orders)
		answer, err := t.run(k.Context(), l, kindBlocks)
		k.must(err)
		if string(answer) != "fetched" {
			k.Errorf("the answer is %q", answer)
		}
		t.want(func(int) transport.Status { return transport.Done })
	}
	k.bare(l)
}

// bare fetches without callbacks.
func (k *kit) bare(l transport.Link) {
	f := &transport.Fetching{Blocks: []transport.Block{{Dst: [][]byte{make([]byte, 5000)}}}}
	_, err := l.Fetch(k.Context(), kindBlocks, encode([]order{{id: 4, size: 5000}}), f)
	k.must(err)
	if f.Blocks[0].Status != transport.Done || !same(f.Blocks[0].Dst, 4) {
		k.Errorf("a fetch without callbacks: status %d", f.Blocks[0].Status)
	}
}

func testFetchStatuses(k *kit) {
	rng := k.rng()
	l, _ := k.pair()
	for range some(20) {
		orders := randomOrders(rng, 40)
		for i := range orders {
			orders[i].what = []uint8{send, send, miss, refuse, forget}[rng.IntN(5)]
		}
		t := k.fetching(rng, orders)
		_, err := t.run(k.Context(), l, kindBlocks)
		k.must(err)
		t.want(func(i int) transport.Status {
			return []transport.Status{transport.Done, transport.Miss, transport.Refused, transport.Miss}[orders[i].what]
		})
	}
	// A block of another size than there is room for is no block.
	for _, room := range []int{0, 99, 101, 300 << 10} {
		g := newGuarded(rng, room)
		f := &transport.Fetching{Blocks: []transport.Block{{Dst: g.pieces}}}
		_, err := l.Fetch(k.Context(), kindBlocks, encode([]order{{id: 4, size: 100}}), f)
		k.must(err)
		if f.Blocks[0].Status != transport.Miss || !IsSpoilt(g.all) {
			k.Errorf("a block of 100 bytes into %d: status %d", room, f.Blocks[0].Status)
		}
	}
	k.alive(l)
}

func testFetchErrors(k *kit) {
	rng := k.rng()
	l, _ := k.pair()
	for _, what := range []uint8{fail, panics} {
		for at := range 5 {
			orders := randomOrders(rng, 5)
			orders[at].what = what
			for i := range at {
				orders[i] = order{id: rng.Uint64(), size: 1 << 20}
			}
			t := k.fetching(rng, orders)
			_, err := t.run(k.Context(), l, kindBlocks)
			k.remote(err, transport.CodeInternal)
			for i := range orders {
				if s := t.f.Blocks[i].Status; s != transport.Refused && (i >= at || s != transport.Done) {
					k.Errorf("block %d has status %d after an error at %d", i, s, at)
				}
			}
		}
		k.alive(l)
	}
	t := k.fetching(rng, make([]order, 3))
	_, err := t.run(k.Context(), l, 0xee)
	k.remote(err, transport.CodeUnknown)
	t.want(func(int) transport.Status { return transport.Refused })
}

// pushing is a Push with memory that is spoiled as soon as it may be.
func (k *kit) push(ctx context.Context, rng *rand.Rand, l transport.Link, kind transport.Kind, orders []order) ([]byte, error) {
	var blocks [][][]byte
	var all [][]byte
	for _, o := range orders {
		b := make([]byte, o.size)
		content(b, o.id)
		blocks, all = append(blocks, cut(rng, b)), append(all, b)
	}
	answer, err := l.Push(ctx, kind, encode(orders), blocks)
	for _, b := range all {
		Spoil(b)
	}
	return answer, err
}

func testPushShapes(k *kit) {
	rng := k.rng()
	l, _ := k.pair()
	shapes := [][]int{{}, {0}, {largest}, slices.Clone(sizes), make([]int, 300), {1 << 20, 0, 5 << 20, 3, 3 << 20}}
	for i := range shapes[4] {
		shapes[4][i] = rng.IntN(3000)
	}
	for _, shape := range shapes {
		var orders []order
		for _, n := range shape {
			orders = append(orders, order{id: rng.Uint64(), size: uint32(n)})
		}
		for kind, want := range map[transport.Kind]string{kindTake: "taken", kindSkip: "taken", kindLeave: "no, thank you"} {
			answer, err := k.push(k.Context(), rng, l, kind, orders)
			k.must(err)
			if string(answer) != want {
				k.Errorf("the answer is %q, want %q", answer, want)
			}
		}
	}
	k.alive(l)
}

func testPushErrors(k *kit) {
	rng := k.rng()
	l, _ := k.pair()
	orders := []order{{id: 1, size: 1 << 20}, {id: 2, size: 2 << 20}, {id: 3, size: 10}}
	for range 3 {
		_, err := k.push(k.Context(), rng, l, kindFail, orders)
		k.remote(err, transport.CodeInternal)
		_, err = k.push(k.Context(), rng, l, kindPanic, orders)
		k.remote(err, transport.CodeInternal)
		_, err = k.push(k.Context(), rng, l, kindCode, append([]order{{id: uint64(transport.CodeFloor), size: 1}}, orders...))
		k.remote(err, transport.CodeFloor)
		answer, err := k.push(k.Context(), rng, l, kindTake, orders)
		k.must(err)
		if string(answer) != "taken" {
			k.Errorf("the answer is %q", answer)
		}
	}
}

// testTogether has hundreds of calls of all shapes under way over two links at once,
// in both directions.
func testTogether(k *kit) {
	rng := k.rng()
	a, b := k.node(), k.node()
	links := []transport.Link{a.link(b), b.link(a)}
	var all sync.WaitGroup
	for range 300 {
		l, own := links[rng.IntN(len(links))], rand.New(rand.NewPCG(rng.Uint64(), 1))
		all.Go(func() {
			for range some(4) {
				k.anyCall(own, l)
			}
		})
	}
	all.Wait()
	for _, l := range links {
		k.alive(l)
		k.must(l.Close())
	}
}

func (k *kit) anyCall(rng *rand.Rand, l transport.Link) {
	ctx := k.Context()
	switch rng.IntN(4) {
	case 0:
		k.echo(rng, l)
	case 1:
		_, err := l.Call(ctx, kindFail, nil)
		k.remote(err, transport.CodeInternal)
	case 2:
		t := k.fetching(rng, randomOrders(rng, rng.IntN(8)))
		if _, err := t.run(ctx, l, kindBlocks); err != nil {
			k.Error(err)
		}
		t.want(func(i int) transport.Status {
			if t.orders[i].what == miss {
				return transport.Miss
			}
			return transport.Done
		})
	case 3:
		if answer, err := k.push(ctx, rng, l, kindTake, randomOrders(rng, rng.IntN(8))); err != nil || string(answer) != "taken" {
			k.Errorf("a push: %q, %v", answer, err)
		}
	}
}

func (k *kit) echo(rng *rand.Rand, l transport.Link) {
	body := make([]byte, rng.IntN(5000))
	content(body, 9)
	want := slices.Clone(body)
	slices.Reverse(want)
	if answer, err := l.Call(k.Context(), kindEcho, body); err != nil || string(answer) != string(want) {
		k.Errorf("an echo of %d bytes: %d bytes, %v", len(body), len(answer), err)
	}
}

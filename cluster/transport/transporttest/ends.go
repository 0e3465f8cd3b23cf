package transporttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// over is a context that has ended.
func over(k *kit) context.Context {
	ctx, cancel := context.WithCancel(k.Context())
	cancel()
	return ctx
}

func testCallGivenUp(k *kit) {
	l, server := k.pair()
	_, err := l.Call(over(k), kindEcho, nil)
	k.is(err, context.Canceled)
	for range 20 {
		ctx, cancel := context.WithCancel(k.Context())
		go func() {
			<-server.h.began
			cancel()
		}()
		_, err := l.Call(ctx, kindHang, nil)
		k.is(err, context.Canceled)
		<-server.h.ended // the handler hears of it
	}
	ctx, cancel := context.WithTimeout(k.Context(), 5*time.Millisecond)
	defer cancel()
	_, err = l.Call(ctx, kindHang, nil)
	k.is(err, context.DeadlineExceeded)
	k.alive(l)
}

// testFetchGivenUp gives a Fetch up at every step: before it begins, when its handler
// has begun, after each block that has arrived, and somewhere in the middle of one.
func testFetchGivenUp(k *kit) {
	rng := k.rng()
	l, server := k.pair()
	orders := make([]order, 6)
	for i := range orders {
		orders[i] = order{id: rng.Uint64(), size: uint32(rng.IntN(1 << 20))}
	}
	all := []*fetching{k.fetching(rng, orders)}
	_, err := all[0].run(over(k), l, kindStep)
	k.is(err, context.Canceled)
	all[0].want(func(int) transport.Status { return transport.Late })
	for step := range len(orders) {
		t := k.fetching(rng, orders)
		all = append(all, t)
		ctx, cancel := context.WithCancel(k.Context())
		t.onArrive = func(count int) {
			if count == step {
				cancel()
			} else {
				server.h.step <- struct{}{}
			}
		}
		go func() {
			<-server.h.began
			if step == 0 {
				cancel()
			} else {
				server.h.step <- struct{}{}
			}
		}()
		_, err := t.run(ctx, l, kindStep)
		k.is(err, context.Canceled)
		<-server.h.ended
		t.want(func(i int) transport.Status {
			if i < step {
				return transport.Done
			}
			return transport.Late
		})
	}
	all = append(all, k.fetchesCutShort(rng, l)...)
	k.alive(l)
	k.must(l.Close())
	for _, t := range all {
		t.lateOnesReleased()
	}
}

// fetchesCutShort gives fetches up while their blocks come, and others at their deadline.
func (k *kit) fetchesCutShort(rng *rand.Rand, l transport.Link) (all []*fetching) {
	for round := range 40 {
		orders := make([]order, 1+rng.IntN(8))
		for i := range orders {
			orders[i] = order{id: rng.Uint64(), size: uint32(rng.IntN(300 << 10))}
		}
		t := k.fetching(rng, orders)
		all = append(all, t)
		ctx, cancel := context.WithCancel(k.Context())
		if round%2 == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Microsecond)
		} else {
			at := rng.IntN(len(orders))
			t.onArrive = func(count int) {
				if count == at {
					cancel()
				}
			}
		}
		_, err := t.run(ctx, l, kindBlocks)
		if err != nil && ctx.Err() == nil {
			k.Errorf("a fetch that nobody gave up: %v", err)
		}
		cancel()
	}
	return all
}

// testFetchDeadline: the server hears of a deadline by itself.
func testFetchDeadline(k *kit) {
	rng := k.rng()
	l, server := k.pair()
	ctx, cancel := context.WithTimeout(k.Context(), 5*time.Millisecond)
	defer cancel()
	t := k.fetching(rng, []order{{id: 1, size: 100}, {id: 2, size: 1 << 20}})
	_, err := t.run(ctx, l, kindStep)
	k.is(err, context.DeadlineExceeded)
	t.want(func(int) transport.Status { return transport.Late })
	k.must(l.Close())
	t.lateOnesReleased()
	server.close()
}

func testPushGivenUp(k *kit) {
	rng := k.rng()
	l, server := k.pair()
	orders := []order{{id: 1, size: 1 << 20}, {id: 2, size: 300}, {id: 3, size: 3 << 20}}
	_, err := k.push(over(k), rng, l, kindTake, orders)
	k.is(err, context.Canceled)
	for range 10 { // while the handler receives nothing
		ctx, cancel := context.WithCancel(k.Context())
		go func() {
			<-server.h.began
			cancel()
		}()
		_, err := k.push(ctx, rng, l, kindHang, orders)
		k.is(err, context.Canceled)
		<-server.h.ended
	}
	for range 40 { // while it does
		ctx, cancel := context.WithTimeout(k.Context(), time.Duration(rng.IntN(3000))*time.Microsecond)
		_, err := k.push(ctx, rng, l, kindTake, orders)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("a push at its deadline: %v", err)
		}
		cancel()
	}
	k.alive(l)
}

// testServerGone: the server goes while calls of every shape are under way.
func testServerGone(k *kit) {
	rng := k.rng()
	l, server := k.pair()
	orders := []order{{id: 1, size: 1 << 20}, {id: 2, size: 300}, {id: 3, size: 3 << 20}}
	t := k.fetching(rng, orders)
	var all sync.WaitGroup
	all.Go(func() {
		_, err := l.Call(k.Context(), kindHang, nil)
		k.is(err, transport.ErrLost)
	})
	all.Go(func() {
		_, err := k.push(k.Context(), rand.New(rand.NewPCG(1, 1)), l, kindHang, orders)
		k.is(err, transport.ErrLost)
	})
	arrived := make(chan struct{})
	all.Go(func() {
		t.onArrive = func(int) { close(arrived) }
		_, err := t.run(k.Context(), l, kindStep)
		k.is(err, transport.ErrLost)
	})
	for range 3 {
		<-server.h.began
	}
	server.h.step <- struct{}{}
	<-arrived
	server.close()
	all.Wait()
	<-l.Gone()
	t.want(func(i int) transport.Status {
		if i == 0 {
			return transport.Done
		}
		return transport.Lost
	})
	_, err := l.Call(k.Context(), kindEcho, nil)
	k.is(err, transport.ErrLost)
	after := k.fetching(rng, orders)
	_, err = after.run(k.Context(), l, kindBlocks)
	k.is(err, transport.ErrLost)
	after.want(func(int) transport.Status { return transport.Lost })
	_, err = k.push(k.Context(), rng, l, kindTake, orders)
	k.is(err, transport.ErrLost)
	k.must(l.Close())
}

// testLinkClosed: the side that asks closes its link while calls are under way.
func testLinkClosed(k *kit) {
	rng := k.rng()
	client, server := k.node(), k.node()
	l := client.link(server)
	t := k.fetching(rng, []order{{id: 1, size: 1 << 20}, {id: 2, size: 300}})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := l.Call(k.Context(), kindHang, nil)
		k.is(err, transport.ErrLost)
	})
	all.Go(func() {
		_, err := t.run(k.Context(), l, kindStep)
		k.is(err, transport.ErrLost)
	})
	<-server.h.began
	<-server.h.began
	k.must(l.Close())
	k.must(l.Close())
	all.Wait()
	<-l.Gone()
	<-server.h.ended // both handlers hear of it
	<-server.h.ended
	k.alive(client.link(server))
}

// testCloseUnderLoad closes one side, then the other, in the middle of everything.
func testCloseUnderLoad(k *kit) {
	rng := k.rng()
	for round := range 4 {
		a, b := k.node(), k.node()
		l := a.link(b)
		var all sync.WaitGroup
		begun := make(chan struct{}, 1000)
		for range 25 {
			own := rand.New(rand.NewPCG(rng.Uint64(), 1))
			all.Go(func() {
				for {
					begun <- struct{}{}
					if err := k.loadedCall(own, l); err != nil {
						k.is(err, transport.ErrLost)
						return
					}
				}
			})
		}
		go func() {
			for range 200 {
				<-begun
			}
			if round%2 == 0 {
				a.close()
			} else {
				b.close()
			}
			for range begun { // let them all go on
			}
		}()
		all.Wait()
		close(begun)
	}
}

func (k *kit) loadedCall(rng *rand.Rand, l transport.Link) (err error) {
	switch rng.IntN(3) {
	case 0:
		_, err = l.Call(k.Context(), kindEcho, make([]byte, rng.IntN(9000)))
	case 1:
		_, err = k.fetching(rng, randomOrders(rng, 5)).run(k.Context(), l, kindBlocks)
	case 2:
		_, err = k.push(k.Context(), rng, l, kindTake, randomOrders(rng, 5))
	}
	return err
}

func testHello(k *kit) {
	client, server := k.node(), k.node()
	to := server.Address().String()
	for _, c := range []struct {
		change func(h *transport.Hello)
		want   error
	}{
		{func(h *transport.Hello) { h.PoolID = "other" }, transport.ErrForeign},
		{func(h *transport.Hello) { h.PoolID = "" }, transport.ErrForeign},
		{func(h *transport.Hello) { h.ProtocolLow, h.ProtocolHigh = 4, 9 }, transport.ErrVersion},
	} {
		self := client.self
		c.change(&self)
		_, err := client.Dial(k.Context(), to, self)
		k.is(err, c.want)
	}
	if len(server.h.peers) != 0 {
		k.Errorf("the handler was asked about %v", server.h.peers)
	}
	self := client.self
	self.ProtocolLow, self.ProtocolHigh = 0, 2
	l, err := client.Dial(k.Context(), to, self)
	k.must(err)
	if l.Version() != 2 {
		k.Errorf("version %d, want 2", l.Version())
	}
	k.alive(l)
	for refusal, code := range map[error]transport.Code{
		errFail: transport.CodeDenied, &transport.RemoteError{Code: transport.CodeJoining, Text: "later"}: transport.CodeJoining,
	} {
		server.h.mu.Lock()
		server.h.refuse = refusal
		server.h.mu.Unlock()
		_, err := client.Dial(k.Context(), to, client.self)
		k.remote(err, code)
	}
	k.alive(l)
	_, err = client.Dial(over(k), to, client.self)
	k.is(err, context.Canceled)
	server.close()
	if _, err := client.Dial(k.Context(), to, client.self); err == nil {
		k.Error("a node that is closed was reached")
	}
}

func testServe(k *kit) {
	n := k.node()
	if n.Name() == "" {
		k.Error("the transport has no name")
	}
	other := k.node()
	k.alive(n.link(other))
	n.close()
	if err := n.Close(); err != nil {
		k.Errorf("the second Close: %v", err)
	}
	if _, err := n.Dial(k.Context(), other.Address().String(), n.self); err == nil {
		k.Error("a closed transport dialled")
	}
	if err := n.Serve(n.self, n.h); err != nil {
		k.Errorf("Serve after Close: %v", err)
	}
}

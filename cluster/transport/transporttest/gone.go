package transporttest

import (
	"math/rand/v2"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

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
	for round := range some(4) {
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

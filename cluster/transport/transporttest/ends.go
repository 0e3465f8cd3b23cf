package transporttest

import (
	"context"
	"errors"
	"math/rand/v2"
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
	for round := range some(40) {
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
	for range some(10) { // while the handler receives nothing
		ctx, cancel := context.WithCancel(k.Context())
		go func() {
			<-server.h.began
			cancel()
		}()
		_, err := k.push(ctx, rng, l, kindHang, orders)
		k.is(err, context.Canceled)
		<-server.h.ended
	}
	for range some(40) { // while it does
		ctx, cancel := context.WithTimeout(k.Context(), time.Duration(rng.IntN(3000))*time.Microsecond)
		_, err := k.push(ctx, rng, l, kindTake, orders)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("a push at its deadline: %v", err)
		}
		cancel()
	}
	k.alive(l)
}

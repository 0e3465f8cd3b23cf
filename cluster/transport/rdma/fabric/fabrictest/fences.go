package fabrictest

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

const (
	windowBytes = 1 << 20
	poison      = 0xd6
	// heard is how many lists of a stream have an immediate, streamed how many there are if
	// nothing stops it.
	heard    = 32
	streamed = 512
)

var errEndless = errors.New("nothing has stopped it")

// stream writes from src over all of dst, again and again, until something fails, and
// returns that completion. The first lists have an immediate.
func (s *side) stream(src, dst *memory, key uint32) (last fabric.Completion, err error) {
	whole := split(src, 0, dst, 0, windowBytes, 64<<10)
	for i := range whole {
		whole[i].TargetKey = key
	}
	for id := uint64(0); id < streamed; {
		list := whole
		if id < heard {
			list = append(list[:len(list):len(list)], notify(uint32(id)))
		}
		err := s.PostWrites(id, list)
		if err == nil {
			id++
			continue
		}
		if !errors.Is(err, fabric.ErrFull) {
			return last, err
		}
		var c [1]fabric.Completion
		if _, err := s.wait(s.Sends(), c[:]); err != nil {
			return last, err
		}
		if c[0].Result != fabric.OK {
			return c[0], nil
		}
	}
	return last, errEndless
}

// fence has a stream run into b's memory, calls cut in the midst of it, poisons the memory as
// soon as that has returned, and wants the poison to last.
func (k *kit) fence(round int, src, dst *memory, cut func(b *side), want fabric.Result) {
	k.Helper()
	random := rand.New(rand.NewPCG(uint64(round), 1))
	a, b := k.pair(room)
	b.receives(heard)
	var running sync.WaitGroup
	var last fabric.Completion
	var err error
	key := dst.RemoteKey()
	running.Go(func() { last, err = a.stream(src, dst, key) })
	b.take(b.Receives(), 1+random.IntN(heard-1))
	cut(b)
	set(dst.mem, poison)
	running.Wait()
	if err != nil || last.Result != want {
		k.Errorf("round %d: the stream ended with %v (code %d), %v, want %v", round, last.Result, last.Code, err, want)
	}
	if !uniform(dst.mem, poison) {
		k.Errorf("round %d: bytes have changed behind the fence", round)
	}
	a.useless(notify(1))
	a.destroy()
	b.destroy()
	if !uniform(dst.mem, poison) {
		k.Errorf("round %d: bytes have changed behind the fence, at last", round)
	}
}

// testFenceDestroy: when Destroy has returned, nothing is written any more.
func testFenceDestroy(k *kit) {
	src, dst := k.memory(k.a, windowBytes, 0), k.memory(k.b, windowBytes, fabric.RemoteWrite)
	fill(src.mem, 3)
	for round := range k.rig.Rounds {
		k.fence(round, src, dst, (*side).destroy, fabric.NoAnswer)
	}
}

// testFenceDeregister: when Deregister has returned, nobody writes there.
func testFenceDeregister(k *kit) {
	src := k.memory(k.a, windowBytes, 0)
	fill(src.mem, 4)
	for round := range k.rig.Rounds {
		dst := k.memory(k.b, windowBytes, fabric.RemoteWrite)
		k.fence(round, src, dst, func(*side) { dst.deregister() }, fabric.RemoteDenied)
	}
}

// testFenceSource: when Destroy has returned, nothing is read any more either.
func testFenceSource(k *kit) {
	src, dst := k.memory(k.a, windowBytes, 0), k.memory(k.b, windowBytes, fabric.RemoteWrite)
	other, there := k.pair(room)
	for round := range k.rig.Rounds {
		set(src.mem, 0x11)
		set(dst.mem, 0)
		a, b := k.pair(room)
		b.receives(1)
		a.post(1, append([]fabric.Write{notify(1)}, split(src, 0, dst, 0, windowBytes, 64<<10)...)...)
		b.received(1)
		a.destroy()
		set(src.mem, poison)
		// What the device still sends goes before this.
		there.receives(1)
		other.post(2, notify(2))
		there.received(2)
		other.sent(2, fabric.OK)
		b.destroy()
		for i, v := range dst.mem {
			if v != 0 && v != 0x11 {
				k.Fatalf("round %d: byte %d came after the fence of its source", round, i)
			}
		}
	}
}

package fabrictest

import (
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// testNoReceive: who notifies where no receive is posted fails; those before it have come.
func testNoReceive(k *kit) {
	for _, receives := range []int{0, 3} {
		a, b := k.pair(room)
		if receives > 0 {
			b.receives(receives)
		}
		for i := range receives {
			a.post(uint64(i), notify(uint32(i)))
			a.sent(uint64(i), fabric.OK)
			b.received(uint32(i))
		}
		a.post(9, notify(9))
		a.sent(9, fabric.NoReceive)
		a.useless(notify(10))
		if n := b.Receives().Poll(make([]fabric.Completion, 1)); n != 0 {
			k.Errorf("a receive has completed that was never posted")
		}
		a.destroy()
		b.destroy()
	}
}

// testDenied: a write that may not be made changes nothing, and ends the connection.
func testDenied(k *kit) {
	const size = 64 << 10
	src := k.memory(k.a, size, 0)
	set(src.mem, 0x55)
	good := k.memory(k.b, size, fabric.RemoteWrite)
	bare := k.memory(k.b, size, 0)
	gone := k.memory(k.b, size, fabric.RemoteWrite)
	gone.deregister()
	key := func(w fabric.Write, key uint32) fabric.Write {
		w.TargetKey = key
		return w
	}
	address := func(w fabric.Write, address uint64) fabric.Write {
		w.Target = address
		return w
	}
	whole := write(src, 0, good, 0, size)
	for _, c := range []struct {
		name string
		bad  fabric.Write
	}{
		{"a key that nobody has", key(whole, good.RemoteKey()^0x5a5a5a5a)},
		{"key 0", key(whole, 0)},
		{"a region without the right", write(src, 0, bare, 0, size)},
		{"a region that is gone", write(src, 0, gone, 0, size)},
		{"one byte before the region", address(whole, good.at(-1))},
		{"one byte behind the region", address(whole, good.at(1))},
		{"right behind the region", address(write(src, 0, good, 0, 1), good.at(size))},
		{"far away", address(whole, good.at(1<<40))},
		{"the end of all addresses", address(whole, ^uint64(0)-100)},
		{"inline, outside", address(inline([]byte{1}, good, 0), good.at(size))},
	} {
		set(good.mem, 0)
		a, b := k.pair(room)
		b.receives(2)
		bad := c.bad
		bad.Notify = true
		a.post(1, inline([]byte{1}, good, 0), notify(77))
		a.post(2, inline([]byte{2}, good, 1), bad, inline([]byte{3}, good, 2))
		a.sent(1, fabric.OK)
		b.received(77)
		a.sent(2, fabric.RemoteDenied)
		a.useless(inline([]byte{4}, good, 3))
		b.flushed()
		b.useless(notify(1))
		a.destroy()
		b.destroy()
		if good.mem[0] != 1 || good.mem[1] != 2 || !uniform(good.mem[2:], 0) || !uniform(bare.mem, 0) || !uniform(gone.mem, 0) {
			k.Errorf("%s: bytes have changed", c.name)
		}
	}
}

// testNotWritable: a queue pair that was not made for writes takes none; writing itself it can.
func testNotWritable(k *kit) {
	closed := fabric.QueueOptions{Sends: 8, Receives: 8}
	a, b := k.side(k.a, room), k.side(k.b, closed)
	k.connect(a, b)
	to := k.memory(k.b, 64, fabric.RemoteWrite)
	back := k.memory(k.a, 64, fabric.RemoteWrite)
	a.receives(1)
	b.receives(2)
	w := inline([]byte{9}, back, 5)
	w.Notify, w.Immediate = true, 5
	b.post(1, w)
	a.received(5)
	b.sent(1, fabric.OK)
	if back.mem[5] != 9 {
		k.Errorf("wrong byte %d", back.mem[5])
	}
	a.post(2, inline([]byte{1}, to, 0))
	if c := a.take(a.Sends(), 1)[0]; c.ID != 2 || c.Result != fabric.RemoteMalformed && c.Result != fabric.RemoteDenied {
		k.Errorf("a write to a queue pair that takes none: %+v", c)
	}
	a.useless(notify(1))
	b.flushed()
	if !uniform(to.mem, 0) {
		k.Errorf("bytes have changed")
	}
}

// testLocalFault: a write whose source is not what it says is not made.
func testLocalFault(k *kit) {
	const size = 8192
	src, dst := k.memory(k.a, size, 0), k.memory(k.b, 2*size, fabric.RemoteWrite)
	gone := k.memory(k.a, size, 0)
	gone.deregister()
	wrongKey := write(src, 0, dst, 0, size)
	wrongKey.SourceKey ^= 0x5a5a5a5a
	for _, c := range []struct {
		name string
		bad  fabric.Write
	}{
		{"a key that nobody has", wrongKey},
		{"behind the end", write(src, 1, dst, 0, size)},
		{"before the start", write(src, -1, dst, 0, size)},
		{"a region that is gone", write(gone, 0, dst, 0, size)},
	} {
		a, b := k.pair(room)
		b.receives(1)
		a.post(4, c.bad, notify(1))
		a.sent(4, fabric.LocalFault)
		a.useless(notify(1))
		a.destroy()
		b.destroy()
		if !uniform(dst.mem, 0) {
			k.Errorf("%s: bytes have changed", c.name)
		}
	}
}

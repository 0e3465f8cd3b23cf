package fabrictest

import (
	"errors"
	"net/netip"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// testWoken: Destroy ends every Wait before it returns.
func testWoken(k *kit) {
	for range k.rig.Rounds * 4 {
		a, _ := k.pair(room)
		a.receives(1)
		var waiting sync.WaitGroup
		for _, q := range []fabric.Queue{a.Receives(), a.Sends()} {
			waiting.Go(func() {
				if n, err := q.Wait(make([]fabric.Completion, 4)); n != 0 || !errors.Is(err, fabric.ErrClosed) {
					k.Errorf("Wait of a destroyed queue pair: %d, %v, want ErrClosed", n, err)
				}
			})
		}
		a.destroy()
		waiting.Wait()
	}
}

// testDestroyed: nothing works any more, nothing panics.
func testDestroyed(k *kit) {
	a, b := k.pair(room)
	fresh := k.side(k.a, room)
	if err := fresh.PostWrites(1, []fabric.Write{notify(1)}); err == nil {
		k.Errorf("PostWrites before Connect: no error")
	}
	fresh.receives(1)
	for _, s := range []*side{a, fresh} {
		s.destroy()
		if err := s.PostWrites(1, []fabric.Write{notify(1)}); !errors.Is(err, fabric.ErrClosed) {
			k.Errorf("PostWrites: %v, want ErrClosed", err)
		}
		if err := s.PostReceives(1); !errors.Is(err, fabric.ErrClosed) {
			k.Errorf("PostReceives: %v, want ErrClosed", err)
		}
		if err := s.Connect(b.Local(), k.rig.Path); !errors.Is(err, fabric.ErrClosed) {
			k.Errorf("Connect: %v, want ErrClosed", err)
		}
		for _, q := range []fabric.Queue{s.Sends(), s.Receives()} {
			c := make([]fabric.Completion, 1)
			if n := q.Poll(c); n != 0 {
				k.Errorf("Poll: %d completions", n)
			}
			if n, err := q.Wait(c); n != 0 || !errors.Is(err, fabric.ErrClosed) {
				k.Errorf("Wait: %d, %v, want ErrClosed", n, err)
			}
		}
	}
}

// testPeerGone: who writes to a queue pair that is gone hears so, within its retries.
func testPeerGone(k *kit) {
	a, b := k.pair(room)
	src, dst := k.memory(k.a, 1<<20, 0), k.memory(k.b, 1<<20, fabric.RemoteWrite)
	b.receives(1)
	a.post(1, notify(1))
	a.sent(1, fabric.OK)
	b.destroy()
	fill(src.mem, 1)
	a.post(2, split(src, 0, dst, 0, 1<<20, 1<<18)...)
	a.post(3, inline([]byte{1}, dst, 0))
	a.sent(2, fabric.NoAnswer)
	a.useless(notify(1))
	if !uniform(dst.mem, 0) {
		k.Errorf("bytes have changed")
	}
	// Another pair takes its place.
	c, d := k.pair(room)
	d.receives(1)
	c.post(4, write(src, 0, dst, 0, 1<<20), notify(4))
	c.sent(4, fabric.OK)
	d.received(4)
}

// testConnectGarbage: whatever the other side says of itself, the worst is that it does not
// answer.
func testConnectGarbage(k *kit) {
	for _, c := range []struct {
		name  string
		spoil func(e *fabric.Endpoint)
	}{
		{"zero", func(e *fabric.Endpoint) { *e = fabric.Endpoint{} }},
		{"no such number", func(e *fabric.Endpoint) { e.Number = e.Number ^ 0x3f0000 }},
		{"number 0", func(e *fabric.Endpoint) { e.Number = 0 }},
		{"number of 32 bits", func(e *fabric.Endpoint) { e.Number |= 1 << 31 }},
		{"packet of 32 bits", func(e *fabric.Endpoint) { e.Packet |= 1 << 30 }},
		{"no address", func(e *fabric.Endpoint) { e.GID = netip.Addr{} }},
		{"zero address", func(e *fabric.Endpoint) { e.GID = netip.IPv6Unspecified() }},
		{"address of 4 bytes", func(e *fabric.Endpoint) { e.GID = netip.AddrFrom4([4]byte{192, 0, 2, 1}) }},
		{"no packet size", func(e *fabric.Endpoint) { e.MTUBytes = 0 }},
		{"huge packets", func(e *fabric.Endpoint) { e.MTUBytes = 1 << 20 }},
		{"the other kind", func(e *fabric.Endpoint) { e.Ethernet = !e.Ethernet }},
	} {
		a, b := k.side(k.a, room), k.side(k.b, room)
		e := b.Local()
		c.spoil(&e)
		if err := a.Connect(e, k.rig.Path); err == nil {
			if err := a.PostWrites(1, []fabric.Write{notify(1)}); err == nil {
				if done := a.take(a.Sends(), 1)[0]; done.Result != fabric.NoAnswer && done.Result != fabric.LocalFault {
					k.Errorf("%s: %+v, want no answer", c.name, done)
				}
			}
		}
		a.destroy()
		b.destroy()
	}
	a, b := k.side(k.a, room), k.side(k.b, room)
	for _, path := range []fabric.Path{{}, {Timeout: 14, Retries: 7, HopLimit: 64}, {Timeout: 32, Retries: 5, HopLimit: 64}} {
		if err := a.Connect(b.Local(), path); err == nil {
			k.Fatalf("Connect with path %+v: no error", path)
		}
	}
	k.connect(a, b)
}

package fabrictest

import (
	"errors"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// testDevices: what devices and queue pairs say of themselves.
func testDevices(k *kit) {
	for _, d := range []fabric.Device{k.a, k.b} {
		p, g := d.Port(), d.GID()
		l := p.Limits
		if p.Device == "" || p.Number < 1 || !p.Active || p.State == "" || p.MTUBytes < 256 || p.MTUBytes > 4096 {
			k.Errorf("port %+v", p)
		}
		if l.InlineBytesMax < 64 || l.MessageBytesMax < 4096 || l.SendsMax < 256 || l.ReceivesMax < 256 || l.RegionBytesMax < 1<<20 {
			k.Errorf("limits %+v", l)
		}
		if !g.Address.Is6() {
			k.Errorf("address %v has not 16 bytes", g.Address)
		}
		for _, n := range g.Networks {
			if n != n.Masked() || n.Addr().BitLen() != 128 {
				k.Errorf("network %v", n)
			}
		}
		first, second := k.side(d, room).Local(), k.side(d, room).Local()
		if first.Number == second.Number {
			k.Errorf("two queue pairs of number %d", first.Number)
		}
		for _, e := range []fabric.Endpoint{first, second} {
			if e.Number >= 1<<24 || e.Packet >= 1<<24 || e.GID != g.Address || e.MTUBytes != p.MTUBytes || e.Ethernet != p.Ethernet {
				k.Errorf("endpoint %+v of %+v", e, g)
			}
		}
		if q, err := d.NewQueuePair(fabric.QueueOptions{Sends: l.SendsMax + 1, Receives: 1}); err == nil {
			k.Errorf("more sends than the device has: no error")
			k.must(q.Destroy())
		}
	}
	if r, err := k.a.RegisterGPU(-1, 0, 1<<20, 1<<30, fabric.RemoteWrite); err == nil {
		k.Errorf("memory of no GPU is registered")
		k.must(r.Deregister())
	} else if !k.a.Port().Limits.GPUMemory && !errors.Is(err, fabric.ErrUnsupported) {
		k.Errorf("RegisterGPU: %v, want ErrUnsupported", err)
	}
}

// testRegions: several are there at once, of any size, and one can go.
func testRegions(k *kit) {
	a, b := k.pair(room)
	keys := make(map[uint32]bool)
	var all []*memory
	for i, bytes := range []int{1, 31, 4096, 4097, 1 << 20, 3<<20 + 5} {
		m := k.memory(k.b, bytes, fabric.RemoteWrite)
		if m.Bytes() != int64(bytes) || keys[m.RemoteKey()] {
			k.Errorf("region %d: %d bytes, key %#x", i, m.Bytes(), m.RemoteKey())
		}
		keys[m.RemoteKey()] = true
		all = append(all, m)
	}
	all[2].deregister()
	for i, m := range all {
		if i == 2 {
			continue
		}
		last := len(m.mem) - 1
		b.receives(1)
		a.post(uint64(i), inline([]byte{byte(i + 1)}, m, last), notify(uint32(i)))
		a.sent(uint64(i), fabric.OK)
		b.received(uint32(i))
		if m.mem[last] != byte(i+1) {
			k.Errorf("region %d: last byte %d", i, m.mem[last])
		}
	}
}

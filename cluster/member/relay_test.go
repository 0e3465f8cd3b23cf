package member

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// relay stands before a node's gossip, where the others are told that it is, and passes on
// what comes there, or does not: so a test cuts networks, one way or both. It knows the
// sender by the loopback address that its node is bound to.
type relay struct {
	tcp    net.Listener
	udp    *net.UDPConn
	behind netip.AddrPort
	loops  sync.WaitGroup

	mu     sync.Mutex
	refuse func(from netip.Addr, udp bool) bool
	open   map[net.Conn]netip.Addr
	closed bool
}

func newRelay(t *testing.T, ip string) *relay {
	t.Helper()
	tcp, udp, err := listen(Address{Host: ip})
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{tcp: tcp, udp: udp, open: map[net.Conn]netip.Addr{}, refuse: func(netip.Addr, bool) bool { return false }}
	t.Cleanup(r.close)
	return r
}

func (r *relay) address() string { return r.tcp.Addr().String() }

// to begins to pass on to a node.
func (r *relay) to(behind netip.AddrPort) {
	r.behind = behind
	r.loops.Go(r.packets)
	r.loops.Go(r.streams)
}

// cut refuses what comes from there, from now on; streams that are open end.
func (r *relay) cut(refuse func(from netip.Addr, udp bool) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
	for c, from := range r.open {
		if refuse(from, false) {
			c.Close()
		}
	}
}

func (r *relay) refuses(from netip.Addr, udp bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refuse(from, udp)
}

func (r *relay) packets() {
	buf := make([]byte, packetBytesMax)
	for {
		n, from, err := r.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if !r.refuses(from.Addr().Unmap(), true) {
			r.udp.WriteToUDPAddrPort(buf[:n], r.behind)
		}
	}
}

func (r *relay) streams() {
	for {
		c, err := r.tcp.Accept()
		if err != nil {
			return
		}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if r.refuses(from, false) {
			c.Close()
			continue
		}
		r.loops.Go(func() { r.stream(c, from) })
	}
}

func (r *relay) stream(c net.Conn, from netip.Addr) {
	defer c.Close()
	on, err := net.Dial("tcp", r.behind.String())
	if err != nil {
		return
	}
	defer on.Close()
	if !r.track(from, c, on) {
		return
	}
	defer r.untrack(c, on)
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(c, on)
		c.Close()
	})
	io.Copy(on, c)
	on.(*net.TCPConn).CloseWrite()
	back.Wait()
}

func (r *relay) track(from netip.Addr, list ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range list {
		r.open[c] = from
	}
	return !r.closed
}

func (r *relay) untrack(list ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range list {
		delete(r.open, c)
	}
}

func (r *relay) close() {
	r.tcp.Close()
	r.udp.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.open {
		c.Close()
	}
	r.mu.Unlock()
	r.loops.Wait()
}

// relayed is a pool whose nodes stand behind relays, each bound to an address of its own.
type relayed struct {
	nodes  []*Gossip
	relays []*relay
	ips    []netip.Addr
}

func relayedPool(t *testing.T, n int, change ...func(*Options)) *relayed {
	t.Helper()
	p := &relayed{}
	for i := range n {
		ip := netip.AddrFrom4([4]byte{127, 0, 0, byte(11 + i)})
		r := newRelay(t, fmt.Sprintf("127.0.1.%d", 11+i))
		c := append([]func(*Options){func(o *Options) {
			o.Bind, o.Advertise = ip.String()+":0", r.address()
			for _, other := range p.nodes {
				o.Seeds = append(o.Seeds, other.advertise.String())
			}
		}}, change...)
		g := node(t, fmt.Sprintf("n%d", i+1), c...)
		r.to(g.bound)
		p.nodes, p.relays, p.ips = append(p.nodes, g), append(p.relays, r), append(p.ips, ip)
	}
	agree(t, p.nodes...)
	for _, g := range p.nodes {
		until(t, g.o.Name+" is established", func() bool { return g.Status().Established })
	}
	return p
}

// cut keeps away from node i what those of from send.
func (p *relayed) cut(i int, from ...int) {
	p.relays[i].cut(func(ip netip.Addr, _ bool) bool {
		for _, f := range from {
			if p.ips[f] == ip {
				return true
			}
		}
		return false
	})
}

func (p *relayed) heal() {
	for _, r := range p.relays {
		r.cut(func(netip.Addr, bool) bool { return false })
	}
}

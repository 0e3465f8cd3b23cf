package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// network is the gossip library's way to the others: one UDP socket and one TCP listener.
// Unlike the library's own it turns foreign packets and streams away before the library
// sees them and counts them, bounds what is open, and ends it all at Shutdown.
//
// Bind and advertised address are apart: what the node calls itself is decided by the
// caller.
type network struct {
	label     string
	encrypted bool
	turned    func(Refusal, netip.Addr, string) // what is turned away; called from any goroutine
	advertise netip.AddrPort
	counters  *traffic

	udp     *net.UDPConn
	tcp     *net.TCPListener
	packets chan *memberlist.Packet
	streams chan net.Conn
	dialer  net.Dialer
	ctx     context.Context // ends with Shutdown
	stop    context.CancelFunc
	loops   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	closed  bool
	open    map[*stream]bool
	inbound int // of them those that others opened
}

// traffic counts packets and streams.
type traffic struct {
	packetsIn, packetsOut, bytesIn, bytesOut atomic.Int64
	streamsIn, streamsOut, streamsRefused    atomic.Int64
}

// Bounds.
const (
	streamsMax        = 64       // that others have open at a time
	streamBytesMax    = 8 << 20  // taken in from one stream: everything about MembersMax members
	packetBytesMax    = 64 << 10 // what UDP can carry
	packetsQueuedMax  = 256      // between socket and library
	packetSocketBytes = 1 << 20  // asked of the system for the socket
	labelMagic        = 244      // a packet or stream begins with it if it has a label
	encryptedStream   = 10       // then a stream's type, if it is encrypted
	encryptionWithout = 1        // version of the encryption without padding, the only one that nodes use
	labelTimeout      = 5 * time.Second
	acceptPause       = 50 * time.Millisecond
)

var _ memberlist.NodeAwareTransport = (*network)(nil)

// listen takes bind, an IP address or none for all interfaces of both families, for TCP
// and UDP on one port; 0 is any that both have free.
func listen(bind Address) (tcp *net.TCPListener, udp *net.UDPConn, err error) {
	for range 16 {
		l, err := net.Listen("tcp", bind.String())
		if err != nil {
			return nil, nil, err
		}
		tcp = l.(*net.TCPListener)
		at := tcp.Addr().(*net.TCPAddr)
		udp, err = net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
		if err == nil {
			_ = udp.SetReadBuffer(packetSocketBytes) // less will do
			return tcp, udp, nil
		}
		tcp.Close()
		if bind.Port != 0 {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("no port is free for both TCP and UDP")
}

// newNetwork completes n. tcp and udp are its own from now on.
func newNetwork(n *network, tcp *net.TCPListener, udp *net.UDPConn) *network {
	n.tcp, n.udp = tcp, udp
	n.packets, n.streams = make(chan *memberlist.Packet, packetsQueuedMax), make(chan net.Conn)
	n.open = map[*stream]bool{}
	n.ctx, n.stop = context.WithCancel(context.Background())
	if at := tcp.Addr().(*net.TCPAddr); !at.IP.IsUnspecified() {
		n.dialer.LocalAddr = &net.TCPAddr{IP: at.IP, Zone: at.Zone}
	}
	return n
}

// begin takes packets and streams in. Before, nothing reaches the library.
func (n *network) begin() {
	n.loops.Go(n.readPackets)
	n.loops.Go(n.accept)
}

// FinalAdvertiseAddr is part of the library's interface.
func (n *network) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return n.advertise.Addr().AsSlice(), int(n.advertise.Port()), nil
}

// PacketCh is part of the library's interface.
func (n *network) PacketCh() <-chan *memberlist.Packet { return n.packets }

// StreamCh is part of the library's interface.
func (n *network) StreamCh() <-chan net.Conn { return n.streams }

// WriteTo is part of the library's interface.
func (n *network) WriteTo(b []byte, addr string) (time.Time, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = n.udp.WriteToUDPAddrPort(b, at)
	n.counters.packetsOut.Add(1)
	n.counters.bytesOut.Add(int64(len(b)))
	return time.Now(), err
}

// WriteToAddress is part of the library's interface.
func (n *network) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return n.WriteTo(b, a.Addr)
}

// DialTimeout is part of the library's interface.
func (n *network) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(n.ctx, timeout)
	defer cancel()
	c, err := n.dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s, ok := n.track(c, false)
	if !ok {
		c.Close()
		return nil, net.ErrClosed
	}
	n.counters.streamsOut.Add(1)
	return s, nil
}

// DialAddressTimeout is part of the library's interface.
func (n *network) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return n.DialTimeout(a.Addr, timeout)
}

// Shutdown is part of the library's interface. When it returns nothing is open.
func (n *network) Shutdown() error {
	n.stop()
	err := errors.Join(n.tcp.Close(), n.udp.Close())
	n.mu.Lock()
	n.closed = true
	for c := range n.open {
		c.Conn.Close()
	}
	clear(n.open)
	n.mu.Unlock()
	n.loops.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// readPackets passes packets of the pool on. One that the library is too slow for is lost,
// as on the way.
func (n *network) readPackets() {
	buf := make([]byte, packetBytesMax)
	for {
		size, from, err := n.udp.ReadFromUDPAddrPort(buf)
		if n.ctx.Err() != nil {
			return
		}
		if err != nil {
			n.pause() // what an earlier packet came to: nobody listens there
			continue
		}
		n.counters.packetsIn.Add(1)
		n.counters.bytesIn.Add(int64(size))
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if why, text := n.judgePacket(buf[:size]); why != "" {
			n.turned(why, from.Addr(), text)
			continue
		}
		select {
		case n.packets <- &memberlist.Packet{Buf: append([]byte(nil), buf[:size]...), From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now()}:
		default:
		}
	}
}

// judgePacket says why a packet is not for this pool; empty: it is, as far as can be seen.
func (n *network) judgePacket(b []byte) (Refusal, string) {
	rest, label, err := memberlist.RemoveLabelHeaderFromPacket(b)
	switch {
	case err != nil || label != n.label:
		return RefusedForeign, labelText(label)
	case len(rest) == 0:
		return RefusedMalformed, "an empty packet"
	case n.encrypted && rest[0] != encryptionWithout:
		return RefusedKey, "a packet that is not encrypted, while this node has keys"
	}
	return "", ""
}

func labelText(label string) string {
	id, ours := poolOfLabel(label)
	if !ours {
		return "it names no pool"
	}
	return fmt.Sprintf("it is of the pool %q", id)
}

// accept passes streams of the pool on, each judged in a goroutine of its own.
func (n *network) accept() {
	var judged sync.WaitGroup
	defer judged.Wait()
	for {
		c, err := n.tcp.Accept()
		if n.ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return
		}
		if err != nil {
			n.pause()
			continue
		}
		n.counters.streamsIn.Add(1)
		s, ok := n.track(c, true)
		if !ok {
			n.counters.streamsRefused.Add(1)
			c.Close()
			continue
		}
		judged.Go(func() { n.judgeStream(s) })
	}
}

// pause keeps a loop whose call fails from running hot.
func (n *network) pause() {
	select {
	case <-time.After(acceptPause):
	case <-n.ctx.Done():
	}
}

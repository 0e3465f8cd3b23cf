package member

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// track bounds and remembers an open stream; false: there are enough, or it is over.
func (n *network) track(c net.Conn, inbound bool) (*stream, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || inbound && n.inbound >= streamsMax {
		return nil, false
	}
	s := &stream{Conn: c, owner: n, inbound: inbound, left: streamBytesMax}
	n.open[s] = true
	if inbound {
		n.inbound++
	}
	return s, true
}

// judgeStream passes a stream on if it begins with this pool's label.
func (n *network) judgeStream(s *stream) {
	from, _ := netip.ParseAddrPort(s.RemoteAddr().String())
	head := make([]byte, 2+len(n.label), 2+len(n.label)+6)
	_ = s.SetDeadline(time.Now().Add(labelTimeout))
	_, err := io.ReadFull(s, head[:1])
	if err != nil { // somebody looked whether the port is open
		s.Close()
		return
	}
	_, err = io.ReadFull(s, head[1:])
	if err != nil || head[0] != labelMagic || int(head[1]) != len(n.label) || string(head[2:]) != n.label {
		n.turned(RefusedForeign, from.Addr().Unmap(), "a stream that is of another pool, or none")
		s.Close()
		return
	}
	if n.encrypted {
		// Type, length and version of the encryption. The library tells whoever does not
		// encrypt, but would trip over another version.
		kind := head[len(head) : len(head)+6]
		if _, err = io.ReadFull(s, kind[:1]); err == nil && kind[0] == encryptedStream {
			_, err = io.ReadFull(s, kind[1:])
			head = head[:len(head)+6]
		} else if err == nil {
			head = head[:len(head)+1]
			n.turned(RefusedKey, from.Addr().Unmap(), "a stream that is not encrypted, while this node has keys")
		}
		if err == nil && kind[0] == encryptedStream && kind[5] != encryptionWithout {
			n.turned(RefusedMalformed, from.Addr().Unmap(), "a stream with an encryption that no node uses")
			err = errMessage
		}
		if err != nil { // or it ended early
			s.Close()
			return
		}
	}
	s.head = head
	select {
	case n.streams <- s:
	case <-n.ctx.Done():
		s.Close()
	}
}

// stream is a tracked stream.
type stream struct {
	net.Conn
	owner   *network
	inbound bool
	head    []byte // read already, to be read again
	left    int    // bytes that may still be read
}

// Read gives the head first, and ends beyond the bound.
func (s *stream) Read(b []byte) (int, error) {
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if s.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes in one stream of gossip", streamBytesMax)
	}
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

// Close ends it, and makes room for another.
func (s *stream) Close() error {
	s.owner.mu.Lock()
	if s.owner.open[s] && s.inbound {
		s.owner.inbound--
	}
	delete(s.owner.open, s)
	s.owner.mu.Unlock()
	return s.Conn.Close()
}

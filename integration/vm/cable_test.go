package vm

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// cable joins the network cards of two machines, either of which may go and come back. Like
// a switch, it drops what a machine does not take.
type cable struct {
	ends  [2]*cableEnd
	group sync.WaitGroup
}

// cableFrames are kept for a machine that is slow: some bursts of the other's.
const cableFrames = 16 << 10

// cableEnd is where one machine plugs in.
type cableEnd struct {
	listener net.Listener
	queue    chan []byte // frames for the machine, with their lengths

	mu     sync.Mutex
	conn   net.Conn // nil: none
	closed bool
}

func newCable(t *testing.T) *cable {
	t.Helper()
	c := &cable{}
	for i := range c.ends {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.ends[i] = &cableEnd{listener: l, queue: make(chan []byte, cableFrames)}
	}
	for i, end := range c.ends {
		c.group.Go(func() { c.take(end, c.ends[1-i]) })
	}
	t.Cleanup(func() {
		for _, end := range c.ends {
			end.listener.Close()
			end.plug(nil, true)
		}
		c.group.Wait()
	})
	return c
}

// option is what qemu is told to plug its card in.
func (c *cable) option(i int) string { return "connect=" + c.ends[i].listener.Addr().String() }

// plug takes a new connection in, and ends the one before. False: the cable is gone.
func (e *cableEnd) plug(conn net.Conn, closed bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil {
		e.conn.Close()
	}
	e.conn, e.closed = conn, e.closed || closed
	if e.closed && conn != nil {
		conn.Close()
	}
	return !e.closed
}

// take carries frames from the machines that come to this end, one after the other, to the
// other end.
func (c *cable) take(end, other *cableEnd) {
	for {
		conn, err := end.listener.Accept()
		if err != nil || !end.plug(conn, false) {
			return
		}
		gone := make(chan struct{})
		c.group.Go(func() { end.give(conn, gone) })
		for frames := bufio.NewReader(conn); ; {
			frame, err := readFrame(frames)
			if err != nil {
				break
			}
			select {
			case other.queue <- frame:
			default: // dropped
			}
		}
		conn.Close()
		close(gone)
	}
}

// readFrame reads a frame as qemu writes it, and keeps its length before it.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	frame := append(head[:], make([]byte, binary.BigEndian.Uint32(head[:])&0xfffff)...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// give writes frames to a machine until it is gone.
func (e *cableEnd) give(conn net.Conn, gone chan struct{}) {
	for {
		select {
		case frame := <-e.queue:
			if _, err := conn.Write(frame); err != nil {
				return
			}
		case <-gone:
			return
		}
	}
}

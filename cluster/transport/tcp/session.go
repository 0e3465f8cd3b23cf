package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// session is a group of connections to one peer, at either end. Its goroutines are a
// reader and a writer for each connection, and a watch, which waits for the others.
type session struct {
	t       *Transport
	peer    hello
	version uint8
	token   [tokenBytes]byte // the server's name for it; zero at the side that asks
	calls   *queue           // for the connection of calls
	blocks  *queue           // for those of blocks
	frame   func(c *conn, h *header) error
	ended   func() // called once when it ends; may be nil

	gone    chan struct{} // closed when it ends
	once    sync.Once
	cause   error          // set before gone is closed
	running sync.WaitGroup // readers, writers, handlers; Add under mu while not over
	done    chan struct{}  // closed when nothing of it is left

	mu    sync.Mutex
	conns []*conn // does not change once over
	over  bool
}

// conn is one connection of a session.
type conn struct {
	s      *session
	socket net.Conn
	blocks bool // of the connections of blocks
	in     *input
	out    *output

	beat bool // a sign of life is due; under the queue's mu

	// The watch's own: what it saw last, and for how many looks nothing moved.
	heard, moved   uint64
	silent, halted int
}

func newSession(t *Transport, peer hello, version uint8) *session {
	return &session{t: t, peer: peer, version: version, calls: newQueue(), blocks: newQueue(),
		gone: make(chan struct{}), done: make(chan struct{})}
}

// attach takes a connection in and starts its goroutines; false if the session is over
// or has its connections.
func (s *session) attach(socket net.Conn, blocks bool) (bool, error) {
	d, err := directOf(socket)
	if err != nil {
		return false, err
	}
	aheadBytes := aheadCallsBytes
	if blocks {
		aheadBytes = aheadBlocksBytes
	}
	c := &conn{s: s, socket: socket, blocks: blocks, in: newInput(socket, d, aheadBytes), out: &output{conn: socket, direct: d}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.conns) > LinkConnectionsMax {
		return false, nil
	}
	s.conns = append(s.conns, c)
	s.running.Go(func() { s.end(c.read()) })
	s.running.Go(func() { s.end(c.write()) })
	return true, nil
}

// directOf is nil for a connection with TLS.
func directOf(socket net.Conn) (*direct, error) {
	if plain, ok := socket.(*net.TCPConn); ok {
		return newDirect(plain)
	}
	return nil, nil
}

// end ends the session; what is under way hears of it by gone. It does not wait.
func (s *session) end(cause error) {
	s.once.Do(func() {
		s.mu.Lock()
		s.over = true // nothing is added to running from here on
		s.mu.Unlock()
		s.cause = cause
		close(s.gone)
		s.calls.close()
		s.blocks.close()
		for _, c := range s.conns {
			// Behind a write that is stuck TLS would wait to say goodbye.
			_ = tcpOf(c.socket).Close()
		}
		if cause != errClosed {
			s.t.counters.lost.Add(1)
		}
		if s.ended != nil {
			s.ended()
		}
	})
}

// lost is the error of calls that the session's end cut off.
func (s *session) lost() error {
	return fmt.Errorf("%w: %s at %s: %w", transport.ErrLost, s.peer.Name, s.address(), s.cause)
}

func (s *session) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == 0 {
		return "?"
	}
	return s.conns[0].socket.RemoteAddr().String()
}

// errEnded is the cause of a session that the peer has ended.
var errEnded = errors.New("the peer has closed the connection")

func (c *conn) read() error {
	for {
		h, err := c.in.header()
		if err == io.EOF {
			return errEnded
		}
		if err != nil {
			return err
		}
		if ofBlocks := h.Type == typeData || h.Type == typeAbort; ofBlocks != c.blocks && h.Type != typeBeat {
			return malformed("frame type %#x on the wrong connection", h.Type)
		}
		if h.Type == typeBeat {
			continue
		}
		if err := c.s.frame(c, &h); err != nil {
			return err
		}
	}
}

// gatherBytes is how much of messages goes out in one write.
const gatherBytes = 64 << 10

func (c *conn) write() error {
	var gathered []byte
	q := c.queue()
	due := func() bool {
		was := c.beat
		c.beat = false
		return was
	}
	for {
		it, h, ok := q.take(due)
		switch {
		case !ok:
			return errEnded
		case it == nil:
			gathered = appendBeat(gathered[:0])
		case it.m != nil:
			if err := c.writeBlock(it, &h); err != nil {
				return err
			}
			continue
		default:
			gathered = appendMessage(gathered[:0], it, &h)
			for len(gathered) < gatherBytes && !c.blocks {
				if it, h, ok = q.more(); !ok {
					break
				}
				gathered = appendMessage(gathered, it, &h)
			}
		}
		if err := c.out.own(gathered); err != nil {
			return err
		}
		if cap(gathered) > 8*gatherBytes {
			gathered = nil
		}
	}
}

func (c *conn) queue() *queue {
	if c.blocks {
		return c.s.blocks
	}
	return c.s.calls
}

func appendBeat(b []byte) []byte {
	h := header{Type: typeBeat}
	return h.append(b)
}

func appendMessage(b []byte, it *item, h *header) []byte {
	return append(h.append(b), it.body[h.Offset:h.Offset+h.Length]...)
}

func (c *conn) writeBlock(it *item, h *header) error {
	defer c.s.blocks.written(it)
	ok, err := c.out.chunk(h, it.m)
	if !ok {
		c.s.t.counters.faults.Add(1)
		it.m.close()
	}
	return err
}

// watch finds out that the peer is silent, or takes nothing off a connection. It counts
// looks, not time: if it is this process that was stopped, what the peer said meanwhile
// is still to be read. It sees the session to its end.
func (s *session) watch() {
	defer func() {
		s.running.Wait()
		s.t.remove(s)
		close(s.done)
	}()
	period := min(s.t.o.Silence, s.peer.silence(), s.t.o.StallTime) / looksSilent
	silent, stalled := int(s.t.o.Silence/period)-1, int(s.t.o.StallTime/period)-1
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-s.gone:
			return
		case <-ticker.C:
		}
		if err := s.look(silent, stalled); err != nil {
			s.end(err)
			return
		}
	}
}

// looksSilent is how often the watch looks, and sends a sign of life on every
// connection, within the time after which either side takes silence for an end.
const looksSilent = 5

func (s *session) look(silentMax, stalledMax int) error {
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, c := range conns {
		if heard := c.in.heard.Load(); heard != c.heard {
			c.heard, c.silent = heard, 0
		} else if c.silent++; c.silent >= silentMax {
			return fmt.Errorf("nothing was heard for %v", s.t.o.Silence)
		}
		if moved := c.out.moved.Load(); moved != c.moved || !c.out.busy.Load() {
			c.moved, c.halted = moved, 0
		} else if c.halted++; c.halted >= stalledMax {
			return fmt.Errorf("nothing could be sent for %v", s.t.o.StallTime)
		}
		q := c.queue()
		q.mu.Lock()
		c.beat = true
		q.filled.Broadcast()
		q.mu.Unlock()
	}
	return nil
}

// drop takes what h brings off the stream.
func (c *conn) drop(h *header) error {
	if h.Type == typeData {
		return c.in.skip(int(h.Length) + trailerBytes)
	}
	return c.in.skip(int(h.Length))
}

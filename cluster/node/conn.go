package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// helloTime is how long a client may take to say Hello.
const helloTime = 5 * time.Second

// conn is one client's connection. Its reader goroutine (serve) owns inbox; mu
// guards what follows it.
type conn struct {
	node     *Node
	options  *Options // as they were when it came
	socket   *net.UnixConn
	in       *inbox
	out      *outbox
	releases releases // late items to be told of
	number   uint64
	since    time.Time

	over     chan struct{} // closed when the connection ends: cancels its requests
	ended    chan struct{} // closed when nothing of it is left
	overOnce sync.Once
	cause    error // why it ended; set before over is closed

	mu          sync.Mutex
	peer        Peer   // zero until Hello
	client      string // what it calls itself
	spaces      map[uint32]*space
	regions     map[uint32]*region
	regionBytes int64 // of regions, those being dropped included
	regionCount int
	leases      leaseBook
	requests    map[uint64]*request // that have not ended
	open        int                 // of them, those whose last message is still to come
	lastNumber  uint32              // of namespaces and regions
	running     sync.WaitGroup      // requests; Add under mu while not draining
	draining    bool
}

func newConn(n *Node, socket *net.UnixConn) *conn {
	c := &conn{node: n, options: n.options.Load(), socket: socket, in: newInbox(socket), since: time.Now(),
		over: make(chan struct{}), ended: make(chan struct{}),
		spaces: map[uint32]*space{}, regions: map[uint32]*region{}, requests: map[uint64]*request{}}
	c.out = newOutbox(socket, c.options.StallTime, c.end)
	return c
}

// refuse answers a client that there is no room for, or whose daemon stops.
func (c *conn) refuse(closing bool) {
	defer c.socket.Close()
	answer := &wire.ErrorAnswer{Code: wire.CodeLimit, Text: fmt.Sprintf("%d clients are connected, which is the limit", c.options.ConnectionsMax),
		Remedy: "raise limits.connections in the daemon's configuration"}
	if closing {
		answer = &wire.ErrorAnswer{Code: wire.CodeClosing, Text: errClosing.Error()}
	}
	c.out.add(func(b []byte) []byte { return wire.AppendFrame(b, wire.TypeError, 0, answer) }, nil)
}

// end ends the connection; what is under way is cancelled. It does not wait.
func (c *conn) end(cause error) {
	c.overOnce.Do(func() {
		c.cause = cause
		close(c.over)
		c.mu.Lock()
		c.draining = true
		for _, q := range c.requests {
			q.giveUp()
		}
		c.mu.Unlock()
		c.out.close()
		_ = c.socket.Close()
	})
}

// serve reads requests until the connection ends, and then clears away what
// it leaves.
func (c *conn) serve() {
	defer close(c.ended)
	defer c.node.gone(c)
	err := c.handshake()
	for err == nil {
		err = c.step()
	}
	if errors.Is(err, wire.ErrMalformed) {
		c.node.counters.malformed.Add(1)
		c.fail(0, wire.CodeProtocol, err.Error(), "the client does not speak version 1 of the protocol")
	}
	c.end(err)
	c.clear()
	if quiet := errors.Is(c.cause, io.EOF) || errors.Is(c.cause, errClosing); quiet {
		c.node.log.Debug("client left", "client", c.number, "name", c.client)
	} else {
		c.node.log.Info("client lost", "client", c.number, "name", c.client, "pid", c.peer.PID, "cause", c.cause)
	}
}

// clear waits for the connection's requests, which are cancelled, and gives
// leases and regions back.
func (c *conn) clear() {
	c.in.close()
	c.running.Wait()
	c.mu.Lock()
	leases, regions := c.leases.takeAll(), c.regions
	c.regions = nil
	c.mu.Unlock()
	for _, l := range leases {
		l.end()
	}
	for _, r := range regions {
		r.memory.Close()
	}
	for _, r := range regions {
		<-r.memory.Dropped()
	}
}

// stopTaking lets no further request begin.
func (c *conn) stopTaking() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
}

// drain waits for the requests that have begun, while ctx lasts.
func (c *conn) drain(ctx context.Context) {
	c.stopTaking()
	idle := make(chan struct{})
	go func() {
		c.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	case <-c.over:
	}
}

// handshake expects Hello and answers Welcome.
func (c *conn) handshake() error {
	peer, err := peerOf(c.socket)
	if err != nil {
		return fmt.Errorf("who is connecting: %w", err)
	}
	_ = c.socket.SetReadDeadline(time.Now().Add(helloTime)) // fails only when closed, as the read will
	h, body, err := c.in.next(wire.HelloBytesMax, func(n int) []byte { return make([]byte, n) })
	if err != nil {
		return err
	}
	if h.Type != wire.TypeHello {
		return fmt.Errorf("%w: the first message is of type %#x, not Hello", wire.ErrMalformed, h.Type)
	}
	hello, err := wire.ParseHello(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.peer, c.client = peer, printable(hello.Client)
	c.mu.Unlock()
	o := c.options
	switch {
	case hello.Lowest > wire.Version || hello.Highest < 1:
		c.fail(h.Request, wire.CodeProtocol, fmt.Sprintf("the client speaks versions %d to %d, this daemon 1 to %d", hello.Lowest, hello.Highest, wire.Version),
			"install a client and a daemon of the same release")
		return errors.New("no common version")
	case len(o.AllowUIDs) > 0 && !slices.Contains(o.AllowUIDs, c.peer.UID):
		c.fail(h.Request, wire.CodeDenied, fmt.Sprintf("user %d may not connect", c.peer.UID), "add it to socket.allow_uids in the daemon's configuration")
		return fmt.Errorf("user %d: %w", c.peer.UID, errDenied)
	case !sameSecret(o.Token, hello.Token):
		c.fail(h.Request, wire.CodeDenied, "the token is not the daemon's", "")
		return fmt.Errorf("token: %w", errDenied)
	}
	_ = c.socket.SetReadDeadline(time.Time{})
	if err := c.replace(&hello); err != nil {
		if errors.Is(err, errDenied) {
			c.fail(h.Request, wire.CodeDenied, "the connection that this one is to follow is another user's", "connect again when it has ended")
		}
		return err
	}
	c.answer(h.Request, wire.TypeHello, &wire.Welcome{Version: wire.Version, Instance: c.node.instance, Connection: c.number, Limits: o.limits(), Server: o.Server})
	c.node.log.Debug("client came", "client", c.number, "name", c.client, "pid", c.peer.PID, "uid", c.peer.UID)
	return nil
}

// replace ends the connection that this one follows, and waits until nothing of
// it touches memory any more. One of another user is none of its business.
func (c *conn) replace(hello *wire.Hello) error {
	if hello.Instance != c.node.instance {
		return nil
	}
	before := c.node.connection(hello.Connection)
	if before == nil || before == c {
		return nil
	}
	before.mu.Lock()
	same := before.peer.UID == c.peer.UID
	before.mu.Unlock()
	if !same {
		return errDenied
	}
	before.end(errReplaced)
	look := time.NewTicker(hangUpTime)
	defer look.Stop()
	for {
		select {
		case <-before.ended:
			return nil
		case <-c.over: // two that follow each other
			return errReplaced
		case <-look.C:
			if hungUp(c.socket) {
				return io.EOF
			}
		}
	}
}

// hangUpTime is how often a client that waits for its welcome is asked whether it is
// still there.
const hangUpTime = 100 * time.Millisecond

var errReplaced = errors.New("the client has connected again")

// printable is a client's text for a log.
func printable(s string) string {
	if len(s) > 128 {
		s = s[:128]
	}
	clean := []rune(s)
	for i, r := range clean {
		if r < ' ' || r == 0x7f {
			clean[i] = '?'
		}
	}
	return string(clean)
}

// step reads one request and starts it.
func (c *conn) step() error {
	c.out.wait()
	h, body, err := c.in.next(wire.FrameBytesMax, takeBody)
	if err != nil {
		return err
	}
	if h.Request == 0 {
		return fmt.Errorf("%w: a request without a number", wire.ErrMalformed)
	}
	c.node.counters.requests.Add(1)
	return c.dispatch(h, body)
}

// answer sends the answer to a request of type t.
func (c *conn) answer(request uint64, t wire.Type, m wire.Message) {
	c.out.add(func(b []byte) []byte { return wire.AppendFrame(b, t|wire.Answer, request, m) }, nil)
}

// fail answers a request with an error.
func (c *conn) fail(request uint64, code wire.Code, text, remedy string) {
	c.out.add(func(b []byte) []byte {
		return wire.AppendFrame(b, wire.TypeError, request, &wire.ErrorAnswer{Code: code, Text: text, Remedy: remedy})
	}, nil)
}

// note logs the cause of a miss or drop that is none of the client's doing.
func (c *conn) note(what string, cause error) {
	c.node.log.Debug(what, "client", c.number, "cause", cause)
}

// bodies keeps the memory of requests, up to a size.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

const bodyKeptMax = 1 << 20

func takeBody(n int) []byte {
	b := bodies.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	return (*b)[:n]
}

// giveBody takes back what takeBody gave; nothing refers to it any more.
func giveBody(b []byte) {
	if cap(b) > 0 && cap(b) <= bodyKeptMax {
		bodies.Put(&b)
	}
}

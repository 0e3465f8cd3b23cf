package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// errLost says that the connection ended before the answer came.
var errLost = errors.New("connection lost")

// link is one connection.
type link struct {
	socket  *net.UnixConn
	welcome wire.Welcome
	over    chan struct{} // closed when it has ended
	read    chan struct{} // closed when its reader has ended
	once    sync.Once
	// doubt are calls whose memory the daemon may still use; set before over is closed.
	doubt []*call

	sending sync.Mutex // one request at a time goes out
	out     []byte

	mu      sync.Mutex
	err     error
	last    uint64 // of requests
	waiting map[uint64]*call
	spaces  map[*Namespace]uint32
	regions map[*Region]uint32
}

// call waits for an answer, or for the releases that follow it.
type call struct {
	kind     wire.Type
	number   uint64        // of the request; 0 if it was never one
	answered chan struct{} // closed when body or err is set
	body     []byte
	err      error
	late     int // items to be released still; -1 before the answer
	free     chan struct{}
	events   *eventSink // of a subscription
}

// newLink connects, following the connection that was welcomed before.
func newLink(ctx context.Context, o *Options, before wire.Welcome) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", o.Path)
	if err != nil {
		return nil, err
	}
	l := &link{socket: conn.(*net.UnixConn), over: make(chan struct{}), read: make(chan struct{}),
		waiting: map[uint64]*call{}, spaces: map[*Namespace]uint32{}, regions: map[*Region]uint32{}}
	go l.receive()
	hello := &wire.Hello{Lowest: 1, Highest: wire.Version, Instance: before.Instance, Connection: before.Connection, Client: o.Name, Token: o.Token}
	body, err := l.ask(ctx, wire.TypeHello, hello, nil)
	if err == nil {
		l.welcome, err = wire.ParseWelcome(body)
	}
	if err != nil {
		l.end(err)
		<-l.read
		return nil, err
	}
	return l, nil
}

// end ends the connection; every call that waits is answered errLost.
func (l *link) end(err error) {
	l.once.Do(func() {
		l.mu.Lock()
		l.err = err
		for _, c := range l.waiting {
			if c.late < 0 {
				c.err = fmt.Errorf("%w: %w", errLost, err)
				close(c.answered)
			}
			if c.events != nil {
				c.events.end(fmt.Errorf("%w: %w", errLost, err))
			}
			l.doubt = append(l.doubt, c)
		}
		l.waiting = nil
		l.mu.Unlock()
		_ = l.socket.Close()
		close(l.over)
	})
}

func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// waits reports whether a call is not over.
func (l *link) waits(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting[c.number] == c
}

// underWay are the calls that are not over. Subscriptions never are.
func (l *link) underWay() (calls []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.waiting {
		if c.events == nil {
			calls = append(calls, c)
		}
	}
	return calls
}

// leave ends the connection when the daemon has let go of all memory, or does
// not answer for a while.
func (l *link) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	for _, c := range l.underWay() {
		_, _ = l.ask(ctx, wire.TypeCancel, wire.Wide(c.number), nil)
	}
	_, _ = l.ask(ctx, wire.TypeDrain, nil, nil)
	l.end(ErrClosed)
}

// leaveTime bounds leave.
const leaveTime = 2 * time.Second

// start sends a request and returns the call that its answer ends.
func (l *link) start(t wire.Type, m wire.Message, file *os.File) *call {
	return l.startWith(t, m, file, nil)
}

// startWith is start for a request whose answer events follow, if sink is not nil.
func (l *link) startWith(t wire.Type, m wire.Message, file *os.File, sink *eventSink) *call {
	c := &call{kind: t, events: sink, answered: make(chan struct{}), free: make(chan struct{}), late: -1}
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	if l.waiting == nil {
		c.err = fmt.Errorf("%w: %w", errLost, l.err)
		l.mu.Unlock()
		close(c.answered)
		close(c.free)
		return c
	}
	l.last++
	c.number = l.last
	l.waiting[c.number] = c
	l.mu.Unlock()
	l.out = wire.AppendFrame(l.out[:0], t, c.number, m)
	if most := l.welcome.Limits.FrameBytes; most > 0 && len(l.out)-wire.HeaderBytes > int(most) {
		l.out = nil
		l.refuse(c, fmt.Errorf("a request of more than %d bytes: ask for fewer blocks at once", most))
		return c
	}
	if err := sendFrame(l.socket, l.out, file); err != nil {
		l.end(err)
	}
	return c
}

// refuse answers a call that is not sent.
func (l *link) refuse(c *call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.waiting[c.number]; waits { // else the link has ended and answered
		delete(l.waiting, c.number)
		c.err, c.late = err, 0
		close(c.answered)
		close(c.free)
	}
}

// ask is start that waits for the answer, while ctx lasts.
func (l *link) ask(ctx context.Context, t wire.Type, m wire.Message, file *os.File) ([]byte, error) {
	c := l.start(t, m, file)
	select {
	case <-c.answered:
		return c.body, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

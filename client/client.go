package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// DefaultPath is where the daemon's socket is unless it is told otherwise.
const DefaultPath = "/run/spillway/spillway.sock"

// Options configure a Client. Zero values mean the defaults named here.
type Options struct {
	Path  string // of the socket; the environment's SPILLWAY_SOCKET, else DefaultPath
	Token string // that the daemon wants to see
	Name  string // what the daemon's operator sees; the program's name
	// ConnectTime bounds one attempt to connect, the handshake included. Default 5 s
	ConnectTime time.Duration
	// RetryMax is the longest pause between two attempts. Default 2 s.
	RetryMax time.Duration
	Logger   *slog.Logger // default: discard
}

// Client is a connection to a daemon that renews itself.
type Client struct {
	options Options
	log     *slog.Logger
	stop    context.CancelFunc
	stopped chan struct{} // closed when the keeper has ended

	opening sync.Mutex // held while something is added to what every link must know

	mu      sync.Mutex
	link    *link // nil while there is no connection
	changed chan struct{}
	lastErr error
	doubt   []*call // of connections that were lost: the daemon may still use their memory
	spaces  []*Namespace
	regions []*Region
	closed  bool
}

// ErrClosed says that the client has been closed.
var ErrClosed = errors.New("client is closed")

const retryMin = 10 * time.Millisecond

// New makes a client and lets it connect in the background.
func New(o Options) *Client {
	if o.Path == "" {
		o.Path = cmp.Or(os.Getenv("SPILLWAY_SOCKET"), DefaultPath)
	}
	if o.Name == "" && len(os.Args) > 0 {
		o.Name = os.Args[0]
	}
	if o.ConnectTime == 0 {
		o.ConnectTime = 5 * time.Second
	}
	if o.RetryMax == 0 {
		o.RetryMax = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{options: o, log: o.Logger, stop: stop, stopped: make(chan struct{}), changed: make(chan struct{})}
	go c.keep(ctx)
	return c
}

// Dial is New that waits for the first connection, while ctx lasts.
func Dial(ctx context.Context, o Options) (*Client, error) {
	c := New(o)
	if err := c.Await(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Await waits until the daemon is connected. The error tells what the last attempt
// came to.
func (c *Client) Await(ctx context.Context) error {
	for {
		c.mu.Lock()
		linked, closed, changed, last := c.link != nil, c.closed, c.changed, c.lastErr
		c.mu.Unlock()
		switch {
		case linked:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("connect to %s: %w", c.options.Path, last)
			}
			return fmt.Errorf("connect to %s: %w", c.options.Path, ctx.Err())
		}
	}
}

// Connected reports whether the daemon is there now.
func (c *Client) Connected() bool { return c.current() != nil }

// Limits are what the daemon allows this client; ok is false while there is none.
func (c *Client) Limits() (l wire.Limits, ok bool) {
	if link := c.current(); link != nil {
		return link.welcome.Limits, true
	}
	return l, false
}

// Close ends the connection; what is under way is cancelled. It returns when the
// daemon has let go of the client's memory, is gone, or has said nothing for two
// seconds; in that last case, or where a lost connection was never renewed, its drives may
// still write to memory that was registered. More than one call has no effect.
func (c *Client) Close() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.stop()
	}
	<-c.stopped
	if !first {
		return
	}
	c.mu.Lock()
	regions := c.regions
	c.regions = nil
	c.mu.Unlock()
	for _, r := range regions {
		r.unmap()
	}
}

func (c *Client) current() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// keep connects, and connects again, until the client is closed.
func (c *Client) keep(ctx context.Context) {
	defer close(c.stopped)
	pause := retryMin
	var before wire.Welcome
	defer c.settle()
	for ctx.Err() == nil {
		l, err := c.connect(ctx, before)
		if l != nil { // welcomed: the daemon has let go of everything before
			c.settle()
		}
		if err == nil {
			pause = retryMin
			before = l.welcome
			c.log.Debug("connected", "path", c.options.Path, "server", l.welcome.Server)
			select {
			case <-l.over:
			case <-ctx.Done():
				l.leave()
			}
			err = l.cause()
			c.unset(err, l.doubt...)
			<-l.read
			if ctx.Err() == nil {
				c.log.Info("connection lost", "path", c.options.Path, "cause", err)
			}
			continue
		}
		if l != nil {
			c.unset(err, l.doubt...)
			before = l.welcome
		} else {
			c.unset(err)
		}
		c.log.Debug("not connected", "path", c.options.Path, "cause", err, "next try in", pause)
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		case <-ctx.Done():
		}
		pause = min(2*pause, c.options.RetryMax)
	}
	c.unset(ErrClosed)
}

// connect makes a link that knows all namespaces and regions, and takes it into use.
// With an error and a link, the link has ended since its welcome.
func (c *Client) connect(ctx context.Context, before wire.Welcome) (*link, error) {
	l, err := newLink(ctx, &c.options, before)
	if err != nil {
		return nil, err
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	spaces, regions := append([]*Namespace(nil), c.spaces...), append([]*Region(nil), c.regions...)
	c.mu.Unlock()
	for _, s := range spaces {
		if err := l.openNamespace(ctx, s); err != nil {
			c.log.Warn("a namespace cannot be opened again; it misses", "cause", err)
		}
	}
	for _, r := range regions {
		if err := l.registerRegion(ctx, r); err != nil {
			c.log.Warn("a region cannot be registered again; its places miss", "cause", err)
		}
	}
	select {
	case <-l.over:
		<-l.read
		return l, l.cause()
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.lastErr = l, nil
	close(c.changed)
	c.changed = make(chan struct{})
	return l, nil
}

// unset says that there is no connection, and which calls it has left in doubt.
func (c *Client) unset(err error, doubt ...*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.lastErr = nil, err
	c.doubt = append(c.doubt, doubt...)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Stats is the daemon's state as JSON; an error if there is none.
func (c *Client) Stats(ctx context.Context) ([]byte, error) {
	l := c.current()
	if l == nil {
		return nil, c.notConnected()
	}
	body, err := l.ask(ctx, wire.TypeStats, wire.Number(0), nil)
	return append([]byte(nil), body...), err
}

// settle ends all doubt: the daemon has let go of everything before.
func (c *Client) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.doubt {
		close(call.free)
	}
	c.doubt = nil
}

// Drain waits until every request before it is answered and its memory the client's
// again. If a connection was lost, that is when the next one is welcomed.
func (c *Client) Drain(ctx context.Context) error {
	c.mu.Lock()
	calls := append([]*call(nil), c.doubt...)
	if l := c.link; l != nil {
		calls = append(calls, l.underWay()...)
	}
	c.mu.Unlock()
	for _, call := range calls {
		select {
		case <-call.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c *Client) notConnected() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastErr != nil {
		return fmt.Errorf("no daemon at %s: %w", c.options.Path, c.lastErr)
	}
	return fmt.Errorf("no daemon at %s", c.options.Path)
}

package node

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// Node serves stores to clients. All methods may be called from many goroutines.
type Node struct {
	stores   []*engine.Store
	options  atomic.Pointer[Options] // replaced whole by Update
	log      *slog.Logger
	instance [16]byte
	started  time.Time
	drives   []*drive // one for each store
	seeds    []uint64
	sizes    []float64
	counters counters
	// bodyBytes are those of requests in flight.
	bodyBytes  atomic.Int64
	times      times
	events     eventLog
	sights     atomic.Pointer[admit.Sights] // nil until somebody wants it
	memory     *memory.Tier                 // nil: none
	unpin      []func()                     // takes the tier's memory from the stores
	predicting *predicting                  // nil: nobody predicts
	pool       *pool.Pool                   // nil: the node is alone
	frames     peerFrames                   // from which peers are sent blocks; nil without pool
	registered *registered                  // with the pool's transport
	ahead      *prefetcher                  // nil without memory

	opening sync.Mutex // held while a namespace is opened, drive and all

	mu        sync.Mutex
	spaces    map[[32]byte]*space // written under opening too
	conns     map[*conn]struct{}
	listeners map[*net.UnixListener]struct{}
	closing   bool
	lastConn  uint64
	ending    chan struct{} // closed with closing
	serving   sync.WaitGroup
}

// New makes a node of open stores. It serves no client until Serve. Peers of a pool are
// served from then on.
func New(o Options) (*Node, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(o.Stores) == 0 {
		return nil, fmt.Errorf("%w: no store", ErrOptions)
	}
	n := &Node{stores: o.Stores, memory: o.Memory, log: o.Logger, started: time.Now(), spaces: map[[32]byte]*space{},
		conns: map[*conn]struct{}{}, listeners: map[*net.UnixListener]struct{}{}, ending: make(chan struct{})}
	n.options.Store(&o)
	n.registered = newRegistered(o.Pool, n.log)
	n.events = eventLog{first: 1, news: make(chan struct{}), spaces: map[*engine.Namespace]*space{}}
	rand.Read(n.instance[:]) // never fails
	for _, s := range o.Stores {
		st := s.Stat()
		d := newDrive(o.PutQueueBytes, o.PutQueueTime)
		d.inOrder = o.InOrder
		d.capacityBytes, d.enduranceBytes = st.CapacityBytes, o.Endurance[st.Dir]
		d.setLimits(&o.Admission)
		n.drives = append(n.drives, d)
		n.seeds = append(n.seeds, xxh3.HashString(st.StoreID))
		n.sizes = append(n.sizes, float64(max(st.CapacityBytes, 1)))
	}
	n.setSights(&o)
	n.startMemory()
	if err := n.startPool(&o); err != nil {
		n.stopMemory()
		return nil, err
	}
	return n, nil
}

// errDenied says that a peer may not do what it asked for.
var errDenied = errors.New("denied")

// Serve accepts clients on l until Close, then returns nil, or until accepting
// fails for good. It closes l.
func (n *Node) Serve(l *net.UnixListener) error {
	defer l.Close()
	n.mu.Lock()
	if n.closing {
		n.mu.Unlock()
		return nil
	}
	n.listeners[l] = struct{}{}
	n.serving.Add(1)
	n.mu.Unlock()
	defer n.serving.Done()
	for pause := time.Millisecond; ; {
		c, err := l.AcceptUnix()
		if err == nil {
			pause = time.Millisecond
			n.greet(c)
			continue
		}
		select {
		case <-n.ending:
			return nil
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept clients: %w", err)
		}
		// Too many open files, most likely: those in use go on, newcomers wait.
		n.log.Warn("a client could not be accepted", "cause", err, "next try in", pause)
		select {
		case <-time.After(pause):
		case <-n.ending:
			return nil
		}
		pause = min(2*pause, time.Second)
	}
}

// greet begins a connection.
func (n *Node) greet(socket *net.UnixConn) {
	c := newConn(n, socket)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing || len(n.conns) >= n.options.Load().ConnectionsMax {
		n.counters.refused.Add(1)
		go c.refuse(n.closing)
		return
	}
	n.lastConn++
	c.number = n.lastConn
	n.conns[c] = struct{}{}
	n.counters.connections.Add(1)
	go c.serve()
}

// connection finds a connection that has not quite ended; nil if there is none.
func (n *Node) connection(number uint64) *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.number == number {
			return c
		}
	}
	return nil
}

// gone ends the account of a connection.
func (n *Node) gone(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// Close stops accepting, lets every connection finish what it has begun, as long as
// ctx lasts, and ends them. When it returns, nothing uses the stores any more; the
// error matches that of ctx, if requests had to be cut short, and says what of the pool
// could not be closed well.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	if !n.closing {
		n.closing = true
		close(n.ending)
	}
	for l := range n.listeners {
		_ = l.Close() // ends Serve
	}
	var conns []*conn
	for c := range n.conns {
		conns = append(conns, c)
	}
	n.mu.Unlock()
	var idle sync.WaitGroup
	for _, c := range conns {
		idle.Go(func() { c.drain(ctx) })
	}
	idle.Wait()
	err := context.Cause(ctx)
	for _, c := range conns {
		c.end(errClosing)
	}
	for _, c := range conns {
		<-c.ended
	}
	n.serving.Wait()
	err = errors.Join(err, n.stopPool(ctx))
	for _, s := range n.stores {
		s.Watch(nil)
	}
	n.stopMemory()
	return err
}

var errClosing = errors.New("the daemon stops")

// Stores are the node's stores.
func (n *Node) Stores() []*engine.Store { return n.stores }

// sameSecret compares without telling by its time how much is right.
func sameSecret(want, got string) bool {
	return subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1 || want == ""
}

// counters of the node, since it was made.
type counters struct {
	connections, refused, malformed atomic.Uint64
	requests, limited               atomic.Uint64
	faults                          atomic.Uint64 // places outside a region, and memory that was gone
	matched, matchedPresent         atomic.Uint64 // keys
	declined                        atomic.Uint64 // of matchedPresent
}

// bit sets bit i of a bitmap.
func bit(bitmap []byte, i int) { bitmap[i/8] |= 1 << (i % 8) }

var le = binary.LittleEndian

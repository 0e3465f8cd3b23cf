package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
)

// ErrOptions says that options contradict each other or are out of range.
var ErrOptions = errors.New("bad options of a pool")

// Options configure a Pool. Zero values mean the defaults named here.
type Options struct {
	PoolID string // not empty; nodes of another pool are turned away
	Node   member.ID
	Name   string
	// Dir is where the node keeps what it must not forget: floors, erasures, whether
	// it drains. The pool's own; made if it is not there.
	Dir     string
	Members member.Membership
	// Transport reaches the others. From Start on it is the pool's, which closes it.
	Transport transport.Transport
	Logger    *slog.Logger // nil: none

	MatchTime time.Duration // how long a Match waits for others (50ms)
	GetTime   time.Duration // how long a block may take from a peer, without a deadline of its own (1s)
	PutTime   time.Duration // how long a run may take to a peer (5s)
	Copies    int           // of each block, on different nodes (1)
	// LocalPlacement keeps new blocks on the node that they were put to.
	LocalPlacement bool
	// HedgePercent bounds the blocks that are asked of a second node because the first
	// is slow, in percent of those asked for at all (5). Below 0: none.
	HedgePercent int
	// Hints bounds the blocks whose places are remembered, 24 bytes each (1<<19).
	Hints int
	// InFlightBytes bounds what is asked of one peer at once (64 MiB), and FrameBytes
	// the private memory for what cannot go straight to its destination (64 MiB).
	InFlightBytes int64
	FrameBytes    int64
	// PutQueueBytes and PutQueueTime bound what puts may wait for each peer, as the
	// node's do for each store (256 MiB, 2s), and ArrivalBytes the memory for blocks that
	// peers bring (256 MiB).
	PutQueueBytes int64
	PutQueueTime  time.Duration
	ArrivalBytes  int64

	Erase EraseOptions
	Move  MoveOptions
	// Journal hears of what an operator should know; nil: nobody does.
	Journal *journal.Journal
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.MatchTime, 50*time.Millisecond)
	setDefault(&o.GetTime, time.Second)
	setDefault(&o.PutTime, 5*time.Second)
	setDefault(&o.Copies, 1)
	setDefault(&o.HedgePercent, 5)
	setDefault(&o.Hints, 1<<19)
	setDefault(&o.InFlightBytes, 64<<20)
	setDefault(&o.FrameBytes, 64<<20)
	setDefault(&o.PutQueueBytes, 256<<20)
	setDefault(&o.PutQueueTime, 2*time.Second)
	setDefault(&o.ArrivalBytes, 256<<20)
	o.Erase.setDefaults()
	o.Move.setDefaults()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	if o.PoolID == "" || len(o.PoolID) > member.PoolIDBytesMax {
		return fmt.Errorf("%w: the pool's ID has %d bytes, want 1 to %d", ErrOptions, len(o.PoolID), member.PoolIDBytesMax)
	}
	for _, c := range []struct {
		name        string
		n, min, max int64
	}{
		{"copies", int64(o.Copies), 1, CopiesMax},
		{"match time (ns)", int64(o.MatchTime), int64(time.Millisecond), int64(time.Minute)},
		{"get time (ns)", int64(o.GetTime), int64(time.Millisecond), int64(time.Minute)},
		{"put time (ns)", int64(o.PutTime), int64(time.Millisecond), int64(time.Minute)},
		{"hedge percent", int64(o.HedgePercent), -1, 100},
		{"hints", int64(o.Hints), 1, 1 << 28},
		{"bytes in flight", o.InFlightBytes, 1 << 20, 1 << 40},
		{"frame bytes", o.FrameBytes, 0, 1 << 40},
		{"put queue bytes", o.PutQueueBytes, engine.BlockBytesMin, 1 << 40},
		{"put queue time (ns)", int64(o.PutQueueTime), int64(time.Millisecond), int64(time.Hour)},
		{"arrival bytes", o.ArrivalBytes, engine.BlockBytesMax, 1 << 40},
	} {
		if c.n < c.min || c.n > c.max {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrOptions, c.name, c.n, c.min, c.max)
		}
	}
	return errors.Join(o.Erase.validate(), o.Move.validate())
}

// CopiesMax bounds Options.Copies.
const CopiesMax = 3

// Of says whose blocks a call is about.
type Of struct {
	Namespace   [32]byte
	Incarnation uint32 // that the IDs are derived from
	BlockBytes  int
}

// Pool is a node's part in a pool. All methods may be called from many goroutines.
type Pool struct {
	o       Options
	log     *slog.Logger
	local   Local
	self    transport.Hello
	servers [1 << 8]server // by kind
	peers   peers
	hints   *hints
	lent    lentLeases
	hedges  allowance
	frames  *semaphore.Weighted // bytes of private memory
	counts  counters
	erase   *eraser
	move    *mover

	puts      putCounters
	arrivals  *semaphore.Weighted // bytes of blocks that peers bring
	pushBytes int

	ctx  context.Context // ends when the pool stops
	stop context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup // goroutines of the pool; Add under mu while not stopped
	closing bool
	serving sync.WaitGroup // calls of peers; Add under mu while not closing
}

// New makes a node's part in a pool. It serves nobody and asks nobody until Start.
func New(o Options) (*Pool, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{o: o, log: o.Logger, hints: newHints(o.Hints), frames: semaphore.NewWeighted(o.FrameBytes), arrivals: semaphore.NewWeighted(o.ArrivalBytes), pushBytes: pushBytes,
		self: transport.Hello{PoolID: o.PoolID, Node: o.Node, Name: o.Name, ProtocolLow: peer.VersionLow, ProtocolHigh: peer.VersionHigh}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.peers.pool = p
	p.hedges.percent, p.hedges.left = o.HedgePercent, allowanceMax
	if o.HedgePercent < 0 {
		p.hedges.left = 0
	}
	for _, serve := range []func(*Pool){
		(*Pool).serveProbe,
		(*Pool).serveMatch,
		(*Pool).serveRelease,
		(*Pool).serveGet,
		(*Pool).serveTouch,
		(*Pool).serveOffer,
		(*Pool).serveDescribe,
		(*Pool).servePut,
		(*Pool).serveErase,
	} {
		serve(p)
	}
	var err error
	if p.erase, err = newEraser(p); err != nil {
		p.stop()
		return nil, err
	}
	p.move = newMover(p)
	return p, nil
}

// Start joins: it merges what was erased with the others, answers them from local, and
// takes new blocks. It returns when peers are served; the merge goes on beside it.
func (p *Pool) Start(local Local) error {
	p.local = local
	if err := p.erase.start(); err != nil {
		return err
	}
	p.spawn(func() {
		if err := p.o.Transport.Serve(p.self, handler{p}); err != nil {
			p.log.Error("peers are not served any more", "cause", err)
		}
	})
	p.spawn(p.peers.follow)
	p.spawn(p.move.run)
	return nil
}

// Close stops serving peers and asking them. Calls of peers that have begun may go on as
// long as ctx lasts. When it returns, nothing of local is in use.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		p.serving.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.stop()
	err := p.o.Transport.Close()
	p.running.Wait()
	<-idle
	p.lent.releaseAll()
	return errors.Join(err, p.erase.close())
}

// spawn runs f on a goroutine of the pool; Close waits for it. It reports whether the
// pool still runs: otherwise f is not called.
func (p *Pool) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	p.running.Go(f)
	return true
}

// sleep waits, and reports whether the pool still runs.
func (p *Pool) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

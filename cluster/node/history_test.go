package node

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/pool/historytest"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
)

// Random histories of a pool of nodes, each with all its parts but the sockets.

var (
	historySeed  = flag.Uint64("history.seed", 0, "run the cluster history of this seed alone")
	historyFrom  = flag.Uint64("history.from", 1, "first seed of cluster histories")
	historyCount = flag.Int("history.count", 0, "how many cluster histories run; 0: as many as the form of the tests wants")
	historyMode  = flag.String("history.mode", "", "mode of all cluster histories; empty: each draws its own")
	historyTrace = flag.Bool("history.trace", false, "print the seed of each cluster history before it runs")
)

// TestClusterHistories demands that no random history of a pool breaks a promise.
func TestClusterHistories(t *testing.T) {
	first, n := historySeeds(12, 60, 5000)
	sum := runHistories(t, first, n, false)
	if n >= 50 && *historyMode == "" && (sum.RemoteHits == 0 || sum.Misses == 0 || sum.Lates == 0 || sum.Missing == 0 || sum.Crashes == 0 || sum.Drops == 0) {
		t.Errorf("the histories are too tame: %+v", sum)
	}
}

// TestClusterHistoriesRDMA demands the same where blocks come by RDMA: from and into memory
// that is registered, and not.
func TestClusterHistoriesRDMA(t *testing.T) {
	first, n := historySeeds(6, 30, 2000)
	sum := runHistories(t, first, n, true)
	if sum.RDMABlocks == 0 || n >= 25 && *historyMode == "" && (sum.RDMAFences == 0 || sum.RDMAFailures == 0 || sum.Lates == 0 || sum.Crashes == 0) {
		t.Errorf("the histories are too tame: %+v", sum)
	}
}

// historySeeds are which histories run.
func historySeeds(short, usual, long int) (first uint64, n int) {
	first, n = *historyFrom, *historyCount
	switch {
	case *historySeed > 0:
		return *historySeed, 1
	case n > 0:
		return first, n
	case os.Getenv("SPILLWAY_LONG") != "":
		return 1_000_000, long
	case testing.Short():
		return first, short
	}
	return first, usual
}

// runHistories runs n histories from a seed on, some at once.
func runHistories(t *testing.T, first uint64, n int, overRDMA bool) (sum historytest.Figures) {
	var mu sync.Mutex
	began := time.Now()
	shards := min(runtime.GOMAXPROCS(0), n)
	t.Run("all", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for seed := first + uint64(shard); seed < first+uint64(n); seed += uint64(shards) {
					h := historytest.Generate(seed, historytest.Mode(*historyMode))
					h.RDMA = overRDMA
					if *historyTrace {
						fmt.Fprintf(os.Stderr, "cluster history %d (%s)\n", seed, h.Mode)
					}
					res := historytest.Run(t, h, startForHistory)
					if res.Err != nil {
						t.Fatalf("cluster history %d (%s) broke a promise; -history.seed %d repeats it: %v", seed, h.Mode, seed, res.Err)
					}
					mu.Lock()
					sum.Add(res.Figures)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d cluster histories from seed %d in %v: %+v", n, first, time.Since(began).Round(time.Second), sum)
	return sum
}

// historyNode is a node of a history.
type historyNode struct {
	*Node
	conns atomic.Uint64
}

func startForHistory(s historytest.Setup) (historytest.Process, error) {
	p, err := pool.New(s.Pool)
	if err != nil {
		return nil, err
	}
	n, err := New(Options{Stores: []*engine.Store{s.Store}, Pool: p, PeerFrameBytes: 1 << 20, Logger: s.Pool.Logger})
	if err != nil {
		return nil, err
	}
	return &historyNode{Node: n}, nil
}

func (n *historyNode) Pool() *pool.Pool { return n.pool }

func (n *historyNode) Open(d engine.Descriptor) (historytest.Space, error) {
	s, err := n.openSpace(d, "")
	if err != nil {
		return nil, err
	}
	return &historySpace{poolSpace{s, n.Node}, &conn{node: n.Node, number: n.conns.Add(1), options: n.options.Load()}}, nil
}

// historySpace is a namespace of a client without a socket.
type historySpace struct {
	poolSpace
	c *conn
}

// transfer is one of the node's. At its end its late blocks are watched.
func (s *historySpace) transfer(class class, keys []engine.Key, memory [][]byte, o historytest.Call) (t *transfer, deadline time.Time, stop func()) {
	q := &request{c: s.c, came: time.Now(), over: make(chan struct{}), done: make(chan struct{})}
	t = &transfer{q: q}
	t.batch = batch{node: s.n, space: s.s, class: class, keys: keys, pieces: make([][][]byte, len(keys)), statuses: make([]byte, len(keys)),
		over: q.over, freed: t.released, note: s.n.note}
	for i, b := range memory {
		half := len(b) / 2
		t.pieces[i] = [][]byte{b[:half], b[half:]}
	}
	us := uint32(0)
	if !o.Deadline.IsZero() {
		us = uint32(max(time.Until(o.Deadline).Microseconds(), 1))
	}
	deadline, stop = q.patience(us)
	return t, deadline, stop
}

// answers are the statuses of a transfer; what is late is released when it may be.
func (s *historySpace) answers(t *transfer, released func(i int)) []engine.Status {
	late := 0
	out := make([]engine.Status, len(t.statuses))
	for i, status := range t.statuses {
		if out[i] = engineStatus(status); out[i] == engine.Late {
			late++
		}
	}
	told := 0
	tell := func() bool {
		t.mu.Lock()
		early := t.early[told:]
		t.mu.Unlock()
		for _, i := range early {
			released(int(i))
		}
		told += len(early)
		return told < late
	}
	if tell() {
		go func() {
			for tell() {
				time.Sleep(time.Millisecond)
			}
		}()
	}
	return out
}

func (s *historySpace) Get(keys []engine.Key, dst [][]byte, o historytest.Call, released func(i int)) []engine.Status {
	t, deadline, stop := s.transfer(loads, keys, dst, o)
	defer stop()
	flags := uint32(0)
	if o.Bounce {
		flags |= wire.GetBounce
	}
	t.read(flags, deadline)
	return s.answers(t, released)
}

func (s *historySpace) Put(keys []engine.Key, src [][]byte, o historytest.Call, released func(i int)) []engine.Status {
	t, deadline, stop := s.transfer(stores, keys, src, o)
	defer stop()
	m := &wire.Put{Depth: uint32(o.Depth)}
	if o.Durable {
		m.Flags |= wire.PutDurable
	}
	t.put(t.putting(m, deadline))
	return s.answers(t, released)
}

func (s *historySpace) Match(keys []engine.Key) []bool {
	found := s.Here(keys)
	a := s.n.awayOf(s.s, keys, found, nil)
	if a == nil {
		return found
	}
	for j, at := range a.pool.Match(a.of, a.ids, pool.MatchOptions{}).At {
		found[a.index[j]] = at.Known()
	}
	return found
}

func (s *historySpace) Here(keys []engine.Key) []bool {
	here, _, _, err := s.s.present(keys, engine.MatchOptions{})
	if err != nil {
		return make([]bool, len(keys))
	}
	return here
}

func (s *historySpace) Delete(keys []engine.Key) (missing int, err error) {
	_, missing, err = s.deleteAll(keys)
	return missing, err
}

func (s *historySpace) Drop() (missing int, err error) {
	return s.n.pool.Drop(context.Background(), s.poolSpace)
}

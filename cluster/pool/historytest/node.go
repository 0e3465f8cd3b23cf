package historytest

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/member/membertest"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// node is a node over all its lives: its drive, and what it keeps beside.
type node struct {
	r       *runner
	number  int
	id      member.ID
	name    string
	address string
	disk    *sim.Disk
	index   *vfs.MemFS
	state   *vfs.MemFS
	device  atomic.Bool // it has an RDMA device

	turn chan struct{} // a token: who starts or ends a life
	mu   sync.Mutex
	now  *life
}

// life is a node's process; nil: it is down.
type life struct {
	n         *node
	process   Process
	store     *engine.Store
	transport transport.Transport
	view      *membertest.View
	spaces    []Space
	dead      chan struct{} // closed when it has died: what it answers now reaches nobody
}

func (r *runner) newNode(i int) *node {
	c := &r.h.Config
	n := &node{r: r, number: i, id: member.ID{byte(i + 1)}, name: fmt.Sprint("n", i), address: fmt.Sprint("n", i, ":1"),
		index: vfs.NewCrashableMem(), state: vfs.NewCrashableMem(), turn: make(chan struct{}, 1)}
	n.disk = sim.NewDisk(sim.Config{Seed: r.h.Seed + uint64(i), MinLatency: c.DriveMax / 5, MaxLatency: c.DriveMax})
	return n
}

// life is the node's life now, nil if it is down.
func (n *node) life() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

func (n *node) setLife(l *life) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = l
}

func (l *life) joined() <-chan struct{} { return l.process.Pool().Joined() }

// isDead reports whether the process has died.
func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// capacityBytes is room for far more blocks than a history has.
const capacityBytes = 8 << 20

// begin starts a life.
func (n *node) begin() error {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	if n.life() != nil {
		return nil
	}
	c := &n.r.h.Config
	n.r.log.printf("node %d starts", n.number)
	dev, err := n.disk.Open()
	if err != nil {
		return err
	}
	l := &life{n: n, dead: make(chan struct{})}
	l.store, err = engine.Open(engine.Options{Device: dev, IndexFS: n.index, CapacityBytes: capacityBytes, SegmentBytes: 128 << 10, IndexMemoryMaxBytes: 1 << 20,
		FrameBytes: 1 << 20, SyncInterval: c.SyncInterval, Logger: n.logger("store")})
	if err != nil {
		return fmt.Errorf("node %d: open the store: %w", n.number, err)
	}
	control, err := n.r.net.Node(n.address)
	if err != nil {
		return err
	}
	if l.transport, err = n.r.rdma.start(n, control, n.logger("rdma")); err != nil {
		return fmt.Errorf("node %d: RDMA: %w", n.number, err)
	}
	l.view = n.r.world.Join(member.Member{ID: n.id, Name: n.name, Address: n.address, State: member.Joining,
		CapacityBytes: capacityBytes, FreeBytes: capacityBytes, ProtocolLow: peer.VersionLow, ProtocolHigh: peer.VersionHigh})
	st := l.store.Stat()
	var id [16]byte
	if _, err := hex.Decode(id[:], []byte(st.StoreID)); err != nil {
		return err
	}
	l.process, err = n.r.start(Setup{Store: l.store, Pool: pool.Options{PoolID: "history", Node: n.id, Name: n.name, Dir: "/pool", Members: l.view, Transport: l.transport,
		Logger: n.logger("pool"), Copies: c.Copies, LocalPlacement: c.LocalPlacement, Hints: c.Hints,
		Erase: pool.EraseOptions{FS: n.state, Tombstones: c.Tombstones, Stores: []pool.StoreFact{{ID: id, Empty: st.Blocks == 0}}}}})
	if err != nil {
		return fmt.Errorf("node %d: start: %w", n.number, err)
	}
	for i := range c.Spaces {
		s, err := l.process.Open(descriptor(i))
		if err != nil {
			return fmt.Errorf("node %d: open a namespace: %w", n.number, err)
		}
		l.spaces = append(l.spaces, s)
	}
	n.setLife(l)
	n.r.log.printf("node %d is up: %d blocks, erasures %+v", n.number, l.store.Stat().Blocks, l.process.Pool().Stat().Erase)
	return nil
}

func descriptor(space int) engine.Descriptor {
	return engine.Descriptor{Name: fmt.Sprint("model", space), BlockBytes: blockBytes}
}

// stop ends a life in order.
func (n *node) stop() error {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	l := n.life()
	if l == nil {
		return nil
	}
	n.setLife(nil)
	n.r.log.printf("node %d stops", n.number)
	l.count()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := l.process.Close(ctx)
	close(l.dead)
	n.r.rdma.kill(n) // another process may start
	n.r.world.Part(n.id)
	if err == nil {
		err = l.store.Close()
	}
	if err != nil {
		return fmt.Errorf("node %d: stop: %w", n.number, err)
	}
	return nil
}

// die ends a life without a word. What is left of it is buried beside, before the next
// life begins.
func (n *node) die(powerCut bool) (was bool) {
	n.turn <- struct{}{}
	l := n.life()
	if l == nil {
		<-n.turn
		return false
	}
	n.setLife(nil)
	n.r.log.printf("node %d dies: %d blocks, erasures %+v", n.number, l.store.Stat().Blocks, l.process.Pool().Stat().Erase)
	close(l.dead)
	l.count()
	n.r.model.note(func(f *Figures) { f.Crashes++ })
	n.r.rdma.kill(n)
	keep := 100
	rng := rand.New(rand.NewPCG(n.r.h.Seed, uint64(n.r.model.moment())))
	if powerCut {
		n.r.net.Vanish(n.address)
		n.disk.PowerCut()
		keep = []int{0, 50, 100}[rng.IntN(3)]
	} else {
		n.r.net.Kill(n.address)
		n.disk.Kill()
	}
	n.index = n.index.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
	n.state = n.state.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_ = l.process.Close(ctx)
	_ = l.store.Close()
	<-n.turn
	return true
}

// logger writes a node's lines into the log book.
func (n *node) logger(what string) *slog.Logger {
	return slog.New(lines{n.r.log, fmt.Sprintf("  node %d %s: ", n.number, what)})
}

type lines struct {
	book   *logBook
	before string
}

func (l lines) Enabled(context.Context, slog.Level) bool { return true }

func (l lines) Handle(_ context.Context, rec slog.Record) error {
	text := l.before + rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.book.printf("%s", text)
	return nil
}

func (l lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l lines) WithGroup(string) slog.Handler      { return l }

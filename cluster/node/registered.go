package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/tiering/arena"
)

// Uses of memory, as the node has them: blocks leave from its own, and come into that of
// clients. What clients put goes to peers by a Push, which no transport is quicker with.
const (
	sources      = transport.Source
	destinations = transport.Destination
)

// registered is what the pool's transport knows of this node's memory, and its clients'.
// Blocks of memory that it does not know are copied once more on their way.
type registered struct {
	with  transport.Registrar // nil: no pool, or its transport does not ask
	log   *slog.Logger
	bytes atomic.Int64 // known now
	// missing are pieces of the node's own memory that could not be made known.
	missing atomic.Int64

	mu     sync.Mutex
	cause  string          // of the latest refusal
	warned map[string]bool // causes of which the log tells
}

func newRegistered(p *pool.Pool, log *slog.Logger) *registered {
	g := &registered{log: log, warned: map[string]bool{}}
	if p != nil {
		g.with = p.Registrar()
	}
	return g
}

// wanted reports whether the transport is quicker with memory that it knows.
func (g *registered) wanted() bool { return g.with != nil }

// memoryOf is what an arena, or a region of one, has: see arena.Arena.Register.
type memoryOf interface {
	Register(r arena.Registrar, pieceBytes int64) (release func(), err error)
}

// register makes memory known, if that is wanted: all of it or nothing. It stays so until
// release, or until it is given back.
func (g *registered) register(m memoryOf, use transport.Use) (release func(), err error) {
	if !g.wanted() {
		return func() {}, nil
	}
	return m.Register(arena.RegistrarFunc(func(mem []byte) (func(), error) {
		release, err := g.with.RegisterMemory(mem, use)
		if err != nil {
			return nil, err
		}
		g.bytes.Add(int64(len(mem)))
		return func() {
			release()
			g.bytes.Add(-int64(len(mem)))
		}, nil
	}), transport.RegisterBytesMax)
}

// refuse takes in that memory could not be made known. The log tells of each cause once.
func (g *registered) refuse(what string, wantedBytes int64, err error) {
	root := rootOf(err).Error()
	g.mu.Lock()
	again := g.warned[root]
	g.warned[root], g.cause = true, err.Error()
	g.mu.Unlock()
	level := slog.LevelWarn
	if again {
		level = slog.LevelDebug
	}
	attrs := []any{"memory", what, "bytes", wantedBytes, "registered_bytes", g.bytes.Load(), "cause", err}
	if limit := lockedMemoryMax(); limit >= 0 {
		attrs = append(attrs, "locked_memory_limit", limit,
			"remedy", "if it is the limit of locked memory: LimitMEMLOCK=infinity for a service, ulimit -l unlimited, --ulimit memlock=-1 for a container")
	}
	g.log.Log(context.Background(), level, "memory is not registered with the pool's transport: its blocks are copied once more on their way", attrs...)
}

// rootOf is the innermost of the errors that make up err, the first of several.
func rootOf(err error) error {
	for {
		next := errors.Unwrap(err)
		if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
			next = several.Unwrap()[0]
		}
		if next == nil {
			return err
		}
		err = next
	}
}

func (g *registered) lastCause() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// LockNeed is what a node locks of its memory, by registering it: the kernel counts that
// against RLIMIT_MEMLOCK, for each drive and each port anew, unless the process has
// CAP_IPC_LOCK.
type LockNeed struct {
	Drives         int   // stores whose drives know memory (io_uring)
	Ports          int   // that the pool's transport uses
	TierBytes      int64 // of Options.Memory
	FrameBytes     int64 // Options.PeerFrameBytes
	RegionBytes    int64 // of all clients together
	TransportBytes int64 // of the transport itself, on each port
}

// Bytes is how many bytes are counted.
func (l LockNeed) Bytes() int64 {
	return int64(l.Drives+l.Ports)*(l.TierBytes+l.FrameBytes+l.RegionBytes) + int64(l.Ports)*l.TransportBytes
}

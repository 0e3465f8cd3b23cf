// Package engine is one store: fixed-size KV blocks on one drive, put in chain
// order, found by prefix, read with a deadline, and never answered wrong. See
// docs/architecture.md for how it works and docs/format for its bytes.
package engine

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/frame"
	"github.com/spillway-kv/spillway/engine/table"
	"github.com/spillway-kv/spillway/wal"
)

// Store is one directory on one drive: segments, index and log. All methods
// may be called from many goroutines.
//
// How it works. A put takes a free slot under mu, writes the block there
// without the lock, and then, under mu again, appends a record to the log and
// publishes the block in the table. A get finds the block under mu, pins its
// slot, reads without the lock, and proves the bytes by the checksum in the
// table. Freed slots wait (slotFreeing) until the log durably says that their
// block is gone; only then are they written again, so an old entry never
// points at a new block after a crash.
//
// Invariants.
//  1. A block in the table is present (published, in the log) or writing
//     (claimed by exactly one put). Only present blocks are read.
//  2. The order of log positions is the order of publication, because both
//     happen under mu.
//  3. A slot with a transfer in flight is never given to another block.
//  4. The memory of a caller is touched only between its call and its answer,
//     or, after LATE, its release.
//
// One lock is enough: it is held for memory work only, a batch at a time
// (about 50 ns a key), never across a system call. Work whose size is not a
// caller's goes in pieces (turn.go). Sharded locks were left out
// because the eviction order, the log order and the slot maps would each have
// needed a lock of their own. Lock order: mu before any lock of wal.
type Store struct {
	opts       Options
	log        *slog.Logger
	dev        device.Device
	devWaiting device.Waiting // dev, if it lets one goroutine see a transfer through; nil if not
	facts      device.Facts
	frames     *frame.Pool
	index      *index
	wal        *wal.Log
	id         [16]byte
	layout     layout
	policies   evict.Factory // of all namespaces; guarded by mu after Open
	agesSaved  uint64        // useClock when ages were saved last; guarded by mu
	agesAt     time.Time     // when; the keeper's
	started    time.Time
	// transfersMax leaves room in the device's queue for what is no block transfer.
	transfersMax int
	// segmentsMax keeps the open files within the process's limit.
	segmentsMax int
	// watcher is who wants events; nil for nobody.
	watcher atomic.Pointer[func([]Event)]
	// loaded: Open is through, and transfers of blocks may begin.
	loaded atomic.Bool
	// resized: this open changes the capacity. Used by Open alone.
	resized        bool
	capacityBefore int64 // with resized

	mu          sync.Mutex
	closing     bool
	calls       sync.WaitGroup // calls and transfers in flight; Add under mu while !closing
	health      error          // nil, or why the store is read-only
	file        storeFile      // what the store file says
	namespaces  []*Namespace   // by number-1
	segments    map[uint32]*segment
	nextNumber  uint32 // of the next segment
	useClock    uint64
	waiting     int       // batches that wait for transfers, frames or slots
	transfers   int       // block transfers queued or in flight; at most transfersMax
	coming      int       // segments being made, of all namespaces
	costBytes   int64     // budget taken by segments, the leaving ones included
	growthStop  time.Time // no new segment before this: the file system was full
	growthError error     // why growth stopped
	table       *table.Table
	zombiePins  map[Place]int // reads in flight on slots whose block is gone
	mismatches  map[Place]uint64
	inflight    map[table.Ref]*readOp // framed reads that others may join
	leases      leaseBook
	freeQueue   []freeBatch     // free records appended, not yet durable; by position
	suspects    []suspectRange  // unsynced at an unclean stop
	proven      map[uint64]bool // positions among them whose bytes a put has found sound
	synced      uint64          // positions whose data and record are on stable media
	logSynced   uint64          // positions whose record is on stable media
	progress    chan struct{}   // closed and replaced when a slot, a sync or a put ends
	counters    Counters
	monitor     monitor
	removals    []*segment // detached, to be unlinked by the keeper
	recent      recentKeys

	commit committer
	keep   keeper
	turns  turns
	apply  applier
	scrub  scrubber
	dirs   directoryWriter

	deletions deletions
}

// freeBatch is one free record on its way to stable media.
type freeBatch struct {
	position uint64
	places   []Place
}

// suspectRange holds the positions (from, to] that an unclean stop may have lost.
type suspectRange struct{ from, to uint64 }

// useLocked is the logical clock of uses: it orders segments by their newest
// put or touch. After Open it continues from the log position.
func (s *Store) useLocked() uint64 { s.useClock++; return s.useClock }

// begin registers a call; every begin that returns nil is paired with end.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) end() { s.calls.Done() }

// wakeLocked tells every waiter that something moved.
func (s *Store) wakeLocked() {
	close(s.progress)
	s.progress = make(chan struct{})
}

// wakeWaitingLocked wakes only if a batch waits for transfers or frames.
func (s *Store) wakeWaitingLocked() {
	if s.waiting > 0 {
		s.wakeLocked()
	}
}

// fail makes the store read-only. The first cause stays.
func (s *Store) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(cause)
}

func (s *Store) failLocked(cause error) {
	if s.health != nil {
		return
	}
	s.health = cause
	s.log.Error("store is read-only from now on; puts are dropped, gets go on", "cause", cause)
	s.wakeLocked()
}

package engine

import "time"

// Key names a block within a namespace. Group is the offload layer's cache
// group (0 where it has none); the same bytes in two groups are two blocks.
type Key struct {
	Group uint32
	Bytes []byte // 1..1024 bytes; not kept after the call
}

// GetItem is one block to read. Key and Dst are the caller's input, the rest
// is the answer.
type GetItem struct {
	Key Key
	// Dst are the pieces to fill, in order; together exactly the namespace's
	// block bytes. From the call until the item is answered (or, after Late,
	// released) the memory is the store's; the list itself is not kept after the
	// call. The memory of two items must not overlap. Where every piece satisfies
	// the device's alignment the drive writes straight into it.
	Dst    [][]byte
	Status Status // Hit, Miss, Late or Busy
	// Err is the cause of a Miss that was not a plain absence (damage, I/O
	// error, memory of Dst that is gone), for logs; it needs no handling.
	Err error
	// StartedAt is when the system call of the transfer began; zero if there was
	// none for this item.
	StartedAt time.Time
	// Version names the put that a Hit is of, and Checksum is what the store keeps
	// beside its bytes: Checksum(Version.ID, Dst).
	Version  Version
	Checksum uint64
}

// GetOptions govern one Get or MatchGet.
type GetOptions struct {
	// Deadline ends the answer, not the transfer: at that time every item still
	// unanswered becomes Late. Zero means none.
	Deadline time.Time
	// Done does the same when it is closed, as by the end of a context. With Done,
	// Deadline only tells the drive which reads it need not begin any more: let
	// Done end at the deadline too. A read that is alone in the store may not
	// notice Done before its Deadline.
	Done <-chan struct{}
	// Bounce reads into a private frame and copies only while the answer is
	// still wanted: a Late item is then released when the call returns.
	Bounce bool
	// NoTouch leaves the age of the blocks as it is.
	NoTouch bool
	// Released is called exactly once for every Late item, after the store's
	// last access to its Dst, from any goroutine, possibly before Get returns. It
	// must be quick and must not call the store: on the goroutine that ends
	// transfers, a call that waits for one would wait for ever.
	// Required when Deadline or Done is set and Bounce is not.
	Released func(index int)
}

// PutItem is one block to store.
type PutItem struct {
	Key Key
	// Src are the pieces, in order; together exactly the block bytes. The
	// memory must not change until the item is answered (or, after Late,
	// released); if it does, later gets miss. The list itself is not kept after
	// the call.
	Src [][]byte
	// Depth is the block's position in its chain, root = 0.
	Depth uint32
	// Importance outranks age when room is needed; 0 is ordinary.
	Importance uint8
	// Span joins items that follow each other in the chain and have the same span,
	// not 0, into one stretch: once its last block has been evicted, the others are
	// the next to go, tail first. It is not kept over a restart.
	Span   uint32
	Status Status // Stored, Present, Dropped, Busy or Late
	Err    error  // cause of Dropped
	// StartedAt is when the system call of the transfer began; zero if there was
	// none for this item, or Late came first.
	StartedAt time.Time
}

// Durability says what an acknowledged put survives.
type Durability uint8

const (
	// Relaxed: written and queued in the log; synced at least every
	// Options.SyncInterval. A power cut may lose the newest.
	Relaxed Durability = iota
	// Durable: data and log are on stable media.
	Durable
)

// PutOptions govern one Put.
type PutOptions struct {
	Durability Durability
	// Incarnation, if not 0, is the only one under which the blocks may be stored:
	// where the namespace has another at the moment when a block gets its slot, the
	// block is Dropped with ErrGone. So what was read before a drop elsewhere cannot
	// come back by a put after it.
	Incarnation uint32
	// Deadline and Done as in GetOptions; a late put may still be stored.
	Deadline time.Time
	Done     <-chan struct{}
	// Partial says that the last item is not full: the prompt ends within it, so
	// that nothing but the very same prompt finds it.
	Partial bool
	// After, if it has bytes, names the block before the first item in its chain, put
	// by an earlier call.
	After Key
	// EndDepth and Before tell that the items are a part of a chain that is put in
	// several calls, tail first. EndDepth, if not 0, is the depth of its last block;
	// Before, if it has bytes, names the block behind the last item. SpanOn says that
	// it is of the last item's stretch (PutItem.Span).
	EndDepth uint32
	Before   Key
	SpanOn   bool
	// DropIfBusy refuses (Dropped) instead of waiting for a free slot.
	DropIfBusy bool
	// Released as in GetOptions, for Late items and their Src.
	Released func(index int)
	// Shared says that others may write Src meanwhile, as in memory shared with
	// another process. What they do to the bytes between checksum and drive makes
	// later gets miss; it is then no sign that the slot is bad.
	Shared bool
}

// LeaseID names a lease; 0 is none.
type LeaseID uint64

// MatchOptions govern one Match.
type MatchOptions struct {
	// Lease keeps the blocks found from eviction for that long (capped by
	// Options.LeaseMax and by the share Options.LeaseShare of the namespace's
	// slots, and by two million blocks over all leases of the store, each counted
	// once a lease: past them the answer stands without a lease for the rest).
	Lease time.Duration
	// TrailingN, when positive, also asks for the longest run of keys at the
	// end of the list, up to N (sliding-window groups).
	TrailingN int
}

// MatchResult is what is present at the moment of the call; of a long list, every
// 1,024 keys at a moment of their own. Only what is under the lease stays.
type MatchResult struct {
	Present  []bool  // per key
	Prefix   int     // number of keys present from the first on without a gap
	Trailing int     // number of keys present at the end without a gap, at most TrailingN
	Lease    LeaseID // to Release early; 0 if none was granted
	Leased   int     // how many of the blocks found are under the lease
}

// Entry is one block in a listing.
type Entry struct {
	ID         BlockID
	Key        Key // without bytes: a rebuild of the index could not name the block; gets find it
	Depth      uint32
	Importance uint8
	Uses       uint8         // since its put, as far as the eviction policy counts; 0: it does not
	Idle       time.Duration // since its latest use, as far as the policy knows; 0: it does not
	Position   uint64        // log position of its put
	Place      Place
	BlockBytes int
}

// Stat is a snapshot of one store. Counters count from Open.
type Stat struct {
	StoreID       string          `json:"store_id"`               // 32 hex digits
	Dir           string          `json:"dir"`                    // as it was given
	Health        string          `json:"health"`                 // "ok", "sick" (until it is well) or "read-only" (until reopened)
	HealthCause   string          `json:"health_cause,omitempty"` // why it is not ok
	Device        string          `json:"device"`                 // how transfers are made: uring, psync, ...
	FileSystem    string          `json:"file_system"`            // as statfs names it
	DirectIO      bool            `json:"direct_io"`              // past the page cache
	CapacityBytes int64           `json:"capacity_bytes"`         // bound of everything on disk
	UsedBytes     int64           `json:"used_bytes"`             // on the file system: segments, index, log
	SegmentBytes  int64           `json:"segment_bytes"`          // target size of a segment
	Segments      int             `json:"segments"`               // segment files
	Blocks        int             `json:"blocks"`                 // blocks present
	Slots         int             `json:"slots"`                  // blocks that fit, over all namespaces
	IndexBytes    int64           `json:"index_memory_bytes"`     // memory of the index table
	LogBytes      int64           `json:"log_bytes"`              // log files on disk
	FramesInUse   int             `json:"frames_in_use"`          // frames lent to transfers now
	Leases        int             `json:"leases"`                 // leases that have not ended
	LeasedBlocks  int             `json:"leased_blocks"`          // blocks under a lease
	Counters      Counters        `json:"counters"`               // what happened since the store was opened
	Namespaces    []NamespaceStat `json:"namespaces"`             // in the order in which they were made
}

// Counters of one store, from Open.
type Counters struct {
	Hits        uint64 `json:"hits"`      // blocks found and read
	Misses      uint64 `json:"misses"`    // blocks asked for and not here
	LateReads   uint64 `json:"late"`      // reads answered LATE
	BusyReads   uint64 `json:"busy"`      // reads refused because a queue or the frames were full
	Stored      uint64 `json:"stored"`    // puts that stored a block
	Present     uint64 `json:"present"`   // puts of a block that was here
	DroppedPuts uint64 `json:"dropped"`   // puts refused or failed
	Evicted     uint64 `json:"evicted"`   // blocks that made room for others
	Deleted     uint64 `json:"deleted"`   // blocks deleted by callers
	Coalesced   uint64 `json:"coalesced"` // reads that shared the transfer of another
	// TornBlocks: bytes that fail their checksum though they were synced: damage.
	TornBlocks uint64 `json:"torn"`
	// StaleReads: the block was replaced while it was read; retried, harmless.
	StaleReads uint64 `json:"stale"`
	// LostBlocks: bytes newer than the last sync before an unclean stop.
	LostBlocks       uint64 `json:"lost"`
	ReadErrors       uint64 `json:"read_errors"`       // I/O errors of reads
	WriteErrors      uint64 `json:"write_errors"`      // I/O errors of data writes
	QuarantinedSlots uint64 `json:"quarantined_slots"` // slots that are not used again
	SickPeriods      uint64 `json:"sick_periods"`      // times the drive was found sick
	// DirectoryErrors: directories of segments that could not be written. Only a
	// rebuild of a lost index would miss them.
	DirectoryErrors uint64 `json:"directory_errors"`
	ReadBytes       uint64 `json:"read_bytes"`    // of blocks, from the drive
	WrittenBytes    uint64 `json:"written_bytes"` // of blocks, to the drive
}

// NamespaceStat is a namespace's part of a Stat.
type NamespaceStat struct {
	Name        string `json:"name"`        // the human's handle
	ID          string `json:"id"`          // 64 hex digits: SHA-256 of the canonical descriptor
	Incarnation uint64 `json:"incarnation"` // rises with each drop
	BlockBytes  int    `json:"block_bytes"` // size of every block
	SlotBytes   int    `json:"slot_bytes"`  // from one slot to the next
	Segments    int    `json:"segments"`    // segment files
	// Slots is how many blocks the namespace can hold now without evicting: its
	// own segments and those it may still get, less the slots kept free ahead
	// of need.
	Slots      int   `json:"slots"`
	Blocks     int   `json:"blocks"`      // blocks present
	QuotaBytes int64 `json:"quota_bytes"` // 0: none
}

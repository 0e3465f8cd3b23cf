// Package device is the bottom of Spillway: it opens, preallocates, reads,
// writes, syncs, punches and closes the files of one store directory, past the
// page cache where the file system allows it. It knows nothing of blocks,
// logs or keys.
//
// Implementations: uring and psync (this package; io_uring, and pread and pwrite
// on a bounded set of workers) and sim (package sim; in memory, seeded, with
// faults). All of them pass the suite in package devicetest. A null device
// (NewNull) moves nothing and measures what we cost ourselves.
package device

import (
	"errors"
	"time"
)

// Kind says what an Op does.
type Kind uint8

const (
	Read  Kind = iota + 1 // fill Bufs from File at Offset
	Write                 // store Bufs into File at Offset
	Sync                  // fdatasync of File: every write of it that completed before Submit is durable
	Punch                 // deallocate LengthBytes at Offset; the range reads as zeros
)

// Op is one transfer. The caller fills the first group of fields and hands the
// Op to Submit; from then until Done is called both the Op and the memory
// behind Bufs belong to the device, whatever happens to any context, deadline
// or waiter. The device calls Done exactly once, after its last access to that
// memory, with the second group filled in.
type Op struct {
	Kind Kind
	File File
	// Offset is in bytes from the start of File, a multiple of
	// Facts.OffsetAlignBytes for Read and Write.
	Offset int64
	// Bufs are the pieces of memory in order, each a multiple of
	// Facts.OffsetAlignBytes long and at an address that is a multiple of
	// Facts.MemAlignBytes, on the heap or mapped: the device keeps it reachable, and
	// Go moves only what lies on a stack, which nothing reachable from a submitted
	// Op does. The total may exceed 2 GiB. Unaligned pieces end in
	// ErrUnaligned, never in a copy behind the caller's back.
	Bufs [][]byte
	// Until, if not zero, is when a Read is no longer worth its while: one that has not
	// begun by then ends in ErrLate, without I/O. A device may do without this.
	Until time.Time
	// First lets the op begin before those that are waiting for their turn, as a Sync
	// does: the log, for which many wait. A device may do without this.
	First bool
	// LengthBytes is the extent of a Punch; other kinds ignore it.
	LengthBytes int64
	// Done is called exactly once, on a goroutine of the device (or of the caller
	// who waits in SubmitWaiting). It may compute
	// (hash, copy) and may call Submit, but must not wait for another Op: other
	// completions may be waiting behind it.
	Done func(*Op)

	// N is how many bytes moved, counted from the start of Bufs. N is short
	// only with an error: short and interrupted transfers are continued.
	N int
	// Err is nil, or says why N is short. Reading past the end of the file ends
	// in io.ErrUnexpectedEOF. The errno stays reachable with errors.Is.
	Err error
	// StartedAt is when the system call began, DoneAt when it ended.
	StartedAt, DoneAt time.Time

	next *Op // link of the device's queue
}

// late reports whether it is too late to begin op.
func (op *Op) late(now time.Time) bool {
	return op.Kind == Read && !op.Until.IsZero() && now.After(op.Until)
}

// GoesFirst reports whether op begins before others that wait for their turn.
func (op *Op) GoesFirst() bool { return op.First || op.Kind == Sync }

// Facts are what a device found out about its directory.
type Facts struct {
	Device           string // "uring", "psync", "sim", "null"
	FileSystem       string // "ext4", "xfs", ...; as statfs names it
	Direct           bool   // I/O bypasses the page cache
	MemAlignBytes    int    // alignment of buffer addresses
	OffsetAlignBytes int    // alignment of file offsets and of buffer lengths
	Xattrs           bool   // File.SetAttr works
	Preallocate      bool   // fallocate works; otherwise Create writes zeros
	QueueOps         int    // Ops that may be queued or in flight
	Notes            []string
}

// Space is the room on the file system, in bytes.
type Space struct{ TotalBytes, FreeBytes int64 }

// Device gives access to the files of one directory, by flat names without a
// slash. All methods may be called from many goroutines.
type Device interface {
	Facts() Facts
	// Create makes a new file of exactly sizeBytes, with its space reserved
	// (the whole of it, or the call fails with ENOSPC and leaves nothing), and
	// opens it. The file's name is durable only after SyncDir. A name that
	// exists is an error matching fs.ErrExist.
	Create(name string, sizeBytes int64) (File, error)
	// Open opens an existing file for reading and writing; fs.ErrNotExist if
	// there is none.
	Open(name string) (File, error)
	// Remove unlinks name. A file still open stays usable until closed.
	Remove(name string) error
	// Rename replaces newName atomically.
	Rename(oldName, newName string) error
	// List returns the names of the regular files, sorted.
	List() ([]string, error)
	// ReadFile returns the whole of a small file.
	ReadFile(name string) ([]byte, error)
	// WriteFile replaces name by data so that after a crash either the old or
	// the new content is there, whole; durable when it returns.
	WriteFile(name string, data []byte) error
	// SyncDir makes creations, removals and renames durable.
	SyncDir() error
	Space() (Space, error)
	// Submit queues ops and returns at once. It never fails: an op that finds
	// the queue full ends with ErrQueueFull, one on a closed device with
	// ErrClosed, one with bad arguments with ErrUnaligned; their Done is then
	// called before Submit returns.
	Submit(ops []*Op)
	// Close waits for every op in flight, then releases the directory and its
	// lock. Files must have been closed before.
	Close() error
}

// File is one open file of a Device.
type File interface {
	Name() string
	SizeBytes() int64
	// SetAttr and Attr keep a small value beside the content
	// (user.spillway.NAME). Attr of a missing one matches fs.ErrNotExist;
	// without support both match errors.ErrUnsupported.
	SetAttr(name string, value []byte) error
	Attr(name string) ([]byte, error)
	// Close closes the descriptor after the ops in flight on it have ended.
	Close() error
}

// Errors that do not come from the operating system.
var (
	ErrUnaligned = errors.New("device: buffer, offset or length is not aligned for this device")
	ErrQueueFull = errors.New("device: queue is full")
	ErrClosed    = errors.New("device: closed")
	ErrLate      = errors.New("device: the read was no longer wanted when its turn came")
)

// Do submits op and waits for its end. It is for set-up, recovery and logs,
// not for the block path. op.Done is overwritten.
func Do(d Device, op *Op) error {
	ended := make(chan struct{})
	op.Done = func(*Op) { close(ended) }
	d.Submit([]*Op{op})
	<-ended
	return op.Err
}

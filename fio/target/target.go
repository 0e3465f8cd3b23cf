// Package target holds what a benchmark can drive: the engines of a job, behind
// one table with what each can do.
//
// A Set opens the targets of a run's jobs; a Target serves one job; a Lane serves
// one worker of it and belongs to that worker's goroutine. Paths are checked
// before anything is made, and what holds something else than a benchmark's own
// bytes is refused (ErrForeign) unless the user has allowed it.
package target

import (
	"context"
	"errors"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/origin"
	"github.com/spillway-kv/spillway/fio/payload"
)

// Caps are what an engine can do.
type Caps struct {
	// Keys: blocks have names, and none is at an offset. Without, the target is a
	// range of bytes.
	Keys bool
	// Misses: a read may find nothing, a write may be refused.
	Misses bool
	// Moves: bytes move, so that a job can verify them.
	Moves bool
	// Proves: the target itself proves every byte that it answers.
	Proves bool
	// Async: any number in flight costs no goroutine each.
	Async bool
	// Backends: it can be told to use io_uring or psync.
	Backends bool
	// Directory, Filenames, Socket: which of them say where it is.
	Directory, Filenames, Socket bool
}

// Engine is one row of the table.
type Engine struct {
	Kind job.Engine
	Help string // one sentence
	Caps Caps
	open func(ctx context.Context, s *Set, j *job.Job) (Target, error)
}

// Engines is the table of engines.
func Engines() []Engine {
	return []Engine{
		{job.EngineRaw, "files or a block device, past the page cache",
			Caps{Moves: true, Async: true, Backends: true, Directory: true, Filenames: true}, openRaw},
		{job.EngineStore, "a store in this process, in a directory of its own",
			Caps{Keys: true, Misses: true, Moves: true, Proves: true, Backends: true, Directory: true}, openStore},
		{job.EnginePool, "a running daemon, through its socket",
			Caps{Keys: true, Misses: true, Moves: true, Proves: true, Socket: true}, openPool},
		{job.EngineNull, "nothing: every I/O has ended at once",
			Caps{Async: true}, openNull},
	}
}

// EngineOf is the row of a kind.
func EngineOf(kind job.Engine) Engine {
	for _, e := range Engines() {
		if e.Kind == kind {
			return e
		}
	}
	panic("target: engine without a row: " + kind.String())
}

// Errors of opening.
var (
	// ErrForeign: the target holds something else than a benchmark's bytes.
	ErrForeign = errors.New("not a benchmark's")
	// ErrJob: the job asks for what its target cannot give.
	ErrJob = errors.New("cannot be done")
)

// Target is what one job drives.
type Target interface {
	Facts() Facts
	// Lane makes worker n's way in, from 0. Every lane is closed before the target.
	Lane(n int) (Lane, error)
	// Close ends what the target does by itself. What other jobs use too stays
	// until the Set is closed.
	Close() error
}

// Facts say how a target is driven.
type Facts struct {
	Engine     string   // as in the job file
	Path       string   // file, directory or socket; "" for null
	Device     string   // uring, psync, sim, ...; "" where nobody in this process knows
	FileSystem string   // as statfs names it; "" as above
	Direct     bool     // past the page cache
	Notes      []string // what a reader of the result must know
}

// Lane is one worker's way into a target. All methods are for one goroutine.
type Lane interface {
	// DepthMax is how many I/Os may be in flight: the job's iodepth, or less where
	// the target cannot.
	DepthMax() int
	// SpaceBytes is the length of the range that the worker may use.
	SpaceBytes() int64
	// NewIO makes an IO with memory for up to Bytes. The memory is the lane's.
	NewIO(maxBytes int, ended func(*IO)) (*IO, error)
	// Identity is whose bytes an op writes, or must read.
	Identity(op *load.Op) payload.Identity
	// Submit begins all ios, which belong to the target until their ended is
	// called: exactly once each, from any goroutine, perhaps before Submit
	// returns. ended must be quick and must not call the lane. With one I/O in
	// flight at most, Submit may last as long as that takes.
	Submit(ios []*IO)
	// Close waits for what is in flight.
	Close() error
}

// Toucher is a Lane whose target keeps blocks by age. Reads of a chain leave ages as
// they are; Touch then makes the prefix that was loaded young, its blocks root first,
// in one call.
type Toucher interface {
	Touch(namespace uint16, blockBytes int, blocks []uint64)
}

// Counter is a Target that counts where its blocks come from.
type Counter interface {
	Counts(ctx context.Context) (*origin.Counts, error)
}

// IO is one I/O. The runner fills in the op and, for a write, Data; the target the
// rest.
type IO struct {
	load.Op
	// Data is what is written or read, Bytes long. It is cut from memory that is
	// aligned to a page.
	Data []byte

	Outcome load.Outcome
	Err     error // of an outcome that is not OK, for people; may be nil
	// StartedAt is when the system call of the transfer began, as far as this
	// process can see: for pool, and where no transfer was made, it is zero.
	// EndedAt is when the target was done.
	StartedAt, EndedAt time.Time
	// More: others of the same call end right behind this one.
	More bool
	// IssuedAt is the runner's: just before Submit.
	IssuedAt time.Time

	memory []byte
	ended  func(*IO)
	state  any   // the lane's
	call   []*IO // a crew's
}

// SetBytes sets Bytes and cuts Data to it.
func (io *IO) SetBytes(n int) { io.Bytes, io.Data = n, io.memory[:n] }

// end tells that io has ended.
func (io *IO) end(outcome load.Outcome, err error) {
	io.Outcome, io.Err, io.EndedAt = outcome, err, time.Now()
	io.ended(io)
}

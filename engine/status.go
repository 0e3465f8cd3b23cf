package engine

import "errors"

// Status is the answer for one key of a batch.
type Status uint8

const (
	// Unanswered is the zero value: no answer yet.
	Unanswered Status = iota
	// Hit: the destination holds the complete, verified bytes of one put of this key.
	Hit
	// Miss: the block is not here. The content of the destination is undefined.
	Miss
	// Late: the deadline passed. The destination stays the store's until the
	// call's Released function has been called for this item.
	Late
	// Busy: refused at once because a queue or the frame pool is full; try later.
	Busy
	// Stored: the block is in the store (and on stable media, if durable was asked for).
	Stored
	// Present: another put of this key was published before; its bytes stay.
	Present
	// Dropped: the put was refused or failed; GetItem.Err or PutItem.Err says why.
	Dropped
)

var statusNames = [...]string{"UNANSWERED", "HIT", "MISS", "LATE", "BUSY", "STORED", "PRESENT", "DROPPED"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "INVALID"
}

// Errors of whole calls (bad arguments, state of the store) and causes of a
// DROPPED item. All are matched with errors.Is.
var (
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("store is closed")
	// ErrKey: a key is empty or longer than 1024 bytes.
	ErrKey = errors.New("a key must have 1 to 1024 bytes")
	// ErrSize: the pieces do not add up to the namespace's block size.
	ErrSize = errors.New("pieces do not add up to the block size")
	// ErrNoSpace: no slot could be had: everything is leased, the quota or the
	// capacity holds no slot of this size, or the file system is full.
	ErrNoSpace = errors.New("no slot could be had")
	// ErrReadOnly: the store stopped accepting writes after a failed sync or log write.
	ErrReadOnly = errors.New("store is read-only")
	// ErrSick: the drive fails or is far slower than usual; gets miss and puts are
	// dropped until probes show that it is well.
	ErrSick = errors.New("drive is sick")
	// ErrNotFound: no namespace has this name or descriptor.
	ErrNotFound = errors.New("namespace not found")
	// ErrGone: the namespace was dropped while the call ran.
	ErrGone = errors.New("namespace was dropped")
	// ErrInUse: another process holds the directory; the message names it.
	ErrInUse = errors.New("directory is in use")
	// ErrNotAStore: the directory holds something else.
	ErrNotAStore = errors.New("not a spillway store")
	// ErrVersion: the directory was written by another format version.
	ErrVersion = errors.New("unsupported format version")
	// ErrCorrupt: bytes on disk fail their checksum. Blocks never return it
	// (they become misses); the store file and the log do.
	ErrCorrupt = errors.New("damaged")
	// ErrLost: a block was newer than the last sync before an unclean stop, and its
	// bytes did not survive that. Not damage.
	ErrLost = errors.New("lost by an unclean stop")
	// ErrIndexLost: segments are there without an index. Only with
	// Options.RefuseLostIndex; Check with Rebuild makes a new one.
	ErrIndexLost = errors.New("index is lost")
	// ErrConfig: an option is out of range or contradicts another; the message
	// quotes the values.
	ErrConfig = errors.New("bad configuration")
)

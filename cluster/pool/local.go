package pool

import (
	"context"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// ID names a block in the whole pool: derived from namespace, incarnation, group and
// key, and the same on every node (docs/format/index.md).
type ID = [16]byte

// Local is a node's own part of the pool: what peers are answered from. The node
// implements it. All methods may be called from many goroutines.
type Local interface {
	// Space is the namespace of this ID if the node has it open, or else opens it from
	// what its stores know; nil if they have none.
	Space(id [32]byte) Space
	// Holds reports whether a store has the namespace, even if it cannot be opened.
	Holds(id [32]byte) bool
	// OpenSpace opens a namespace, as a client's OpenNamespace would, but without a token.
	OpenSpace(d engine.Descriptor) (Space, error)
	// Spaces are all namespaces that the node's stores have, in use or not.
	Spaces() []Space
	// Room is what the stores can hold, and what of it they can take without evicting.
	Room() (capacityBytes, freeBytes int64)
}

// Space is a namespace over all stores of this node.
type Space interface {
	ID() [32]byte
	Descriptor() engine.Descriptor
	// Incarnation is the one that all stores have, or are being raised to.
	Incarnation() uint32
	// Raise erases, durably, everything of incarnations below this one, and goes on
	// under it. A lower or equal one changes nothing.
	Raise(incarnation uint32) error
	// IDs derives the IDs of keys, and says under which incarnation.
	IDs(keys []engine.Key) (ids []ID, incarnation uint32)
	// Present says which blocks are here.
	Present(ids []ID) []bool
	// Lease is Present with a promise that leased of the blocks found stay for a while;
	// it ends with release, at the latest after o.Lease. release is nil where nothing
	// is leased.
	Lease(ids []ID, o engine.MatchOptions) (present []bool, leased int, release func())
	// Read loads blocks into frames of the node, as its drives have time for peers,
	// and calls ready for each, from any goroutine, before it returns; pieces stay until
	// done is called. A block that is not there, or not in time, is not ready. Their ages
	// stay as they are.
	Read(ctx context.Context, ids []ID, ready func(i int, pieces [][]byte, checksum uint64, done func()))
	// Copy is Read for what the pool does of its own accord: it gives way to all others.
	Copy(ctx context.Context, ids []ID, ready func(i int, pieces [][]byte, checksum uint64, done func()))
	// Touch makes blocks young again, root first.
	Touch(ids []ID)
	// Write stores blocks that came from a peer, see Arrival, as admission, the drives'
	// queues and their turns allow. ctx, or the deadline of the options, ends the wait. No
	// Src is in use when it returns.
	Write(ctx context.Context, a *Arrival)
	// Delete erases blocks durably, puts of them that are under way included. IDs of other
	// incarnations than the namespace's are of no effect.
	Delete(ids []ID) error
	// Clear erases every block durably, those that are evicted but not forgotten by a log
	// included; the incarnation stays. See engine.Namespace.Clear.
	Clear() error
	// Scan calls f for the blocks behind a place, store by store, by rising ID, bytes
	// compared in order, until f returns false. f may take its time.
	Scan(from Cursor, f func(at Cursor, e engine.Entry) bool) error
}

// Cursor is a place among the blocks of a Space. The zero Cursor is before all.
type Cursor struct {
	Store int // of the node, from 0
	ID    ID
}

// Arrival is blocks of a chain on their way into the stores, root first. When Write
// returns, every item has a status and no Src is in use.
type Arrival struct {
	Incarnation uint32 // refused whole where the namespace has another
	Items       []ArrivalItem
	Options     engine.PutOptions // Partial, After, EndDepth, Durability, DropIfBusy, Deadline
	Moved       bool              // admission has judged it before, on another node; the write budget counts
}

// ArrivalItem is one block.
type ArrivalItem struct {
	Key        engine.Key
	Src        [][]byte // proven against the sender's checksum
	Depth      uint32
	Importance uint8
	Span       uint32
	Status     engine.Status // Stored, Present, Late or Dropped
	Reason     admit.Reason  // of Dropped, where admission says no
	Err        error         // of Dropped, where it failed
}

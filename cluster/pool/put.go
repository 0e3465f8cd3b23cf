package pool

import (
	"context"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// Putting is a put of blocks that this node does not have.
type Putting struct {
	Of Of
	// Items are in chain order, root first.
	Items []PutItem
	// Options are those of the client's put: Durability, DropIfBusy, Partial (of the last
	// item), After, EndDepth and SpanOn count; Before, Done, Deadline and Released do not.
	Options engine.PutOptions
	// Here stores the items of these indices, rising, on this node, and sets their Here. It
	// is called on the goroutine of Put, at most twice, and not for one item twice. It
	// reads the client's memory while peers do.
	Here func(items []int)
}

// PutItem is one block of a Putting. Key, Src, ID, Depth, Importance and Span are the
// caller's, the rest is the answer.
type PutItem struct {
	ID         ID
	Key        engine.Key
	Src        [][]byte // pieces, in order; memory that others may write, or that may go
	Depth      uint32
	Importance uint8
	Span       uint32

	Here engine.Status // what came of it on this node, see Putting.Here; Unanswered: nothing was stored here
	// Status is Stored if at least one copy was stored, else Present if a node has one,
	// else Late if time was out, or Dropped. A copy that is Late here makes it Late, for
	// then its memory is in use until it is released.
	Status engine.Status
	Reason admit.Reason // of Dropped, where admission says no
	Err    error        // of Dropped, where it failed
}

// Put finds homes for new blocks, in runs, and stores them there, so many copies as the
// pool's options say. ctx ends with the request; its deadline is the request's. When Put
// returns, no Src is in use but by what Here left Late. Every item has a Status.
func (p *Pool) Put(ctx context.Context, w *Putting) {
}

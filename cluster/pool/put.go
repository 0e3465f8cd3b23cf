package pool

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
	"github.com/spillway-kv/spillway/tiering/place"
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

// PutItem is one block of a Putting. Here is for Putting.Here to set; what is below it is
// the answer; all else is the caller's.
type PutItem struct {
	ID         ID
	Key        engine.Key
	Src        [][]byte // pieces, in order; memory that others may write, or that may go
	Depth      uint32
	Importance uint8
	Span       uint32

	Here engine.Status // what came of it on this node; Unanswered: nothing was stored here

	// Status is Stored if at least one copy was stored, else Present if a node has one,
	// else Late if time was out, or Dropped. A copy that is Late here makes it Late, for
	// then its memory is in use until it is released.
	Status engine.Status
	Reason admit.Reason // of Dropped by others, where admission says no
	Err    error        // of Dropped by others, where it failed

	stored, present int  // copies on other nodes
	over            bool // dropped by another node: it is not tried again
}

var (
	errNotTaken = errors.New("a peer did not take the block")
	errChanged  = errors.New("the block's memory changed on its way to a peer")
	errStopping = errors.New("the pool stops")
)

// homeTries is how many homes of a run may fail before its blocks stay here.
const homeTries = 2

// Put finds homes for new blocks, in runs, and stores them there, so many copies as the
// pool's options say. What a peer is remembered to have is offered to it first. A home that
// cannot be reached is replaced by the next one, and in the end by this node. ctx ends with
// the request; its deadline is the request's. When Put returns, no Src is in use but by what
// Here left Late. Every item has a Status.
func (p *Pool) Put(ctx context.Context, w *Putting) {
	t := &putting{Putting: w, pool: p, copies: p.o.Copies, scope: p.scope(w.Of)}
	p.puts.requests.Add(1)
	p.puts.blocks.Add(uint64(len(w.Items)))
	t.offerKnown(ctx)
	homes, all := p.homes(), make([]int, len(w.Items))
	for i := range all {
		all[i] = i
	}
	for _, items := range place.Runs(t.wanting(all)) {
		order := homes.order(w.Items[items[0]].ID, t.copies)
		t.runs = append(t.runs, &putRun{items: items, order: order, missing: t.copies})
		p.puts.runs.Add(1)
	}
	var later []int // what comes back to this node
	for first := true; ; first = false {
		shares, here := t.assign()
		if !first {
			later, here = append(later, here...), nil
		}
		if len(shares) == 0 && len(here) == 0 {
			break
		}
		var sending sync.WaitGroup
		for r, own := range shares {
			sending.Go(func() { t.send(ctx, r, own) })
		}
		t.storeHere(here)
		sending.Wait()
	}
	p.puts.returned.Add(uint64(len(later)))
	t.storeHere(later)
	t.finish(ctx)
}

// putting is a Putting under way.
type putting struct {
	*Putting
	pool   *Pool
	copies int         // wanted
	scope  *peer.Scope // of the time when the blocks were put
	runs   []*putRun

	mu sync.Mutex // guards the answers in Items, and runs, while peers are asked
}

// putRun is one run and its homes.
type putRun struct {
	items   []int
	order   []*remote // best first; nil stands for this node
	tried   int       // of order
	missing int       // homes to find
	failed  int       // homes that could not be reached
	here    bool      // this node is one of the homes
}

// wanting are those items that need another copy.
func (t *putting) wanting(items []int) []int {
	return slices.DeleteFunc(slices.Clone(items), func(i int) bool { return t.Items[i].over || t.lacks(&t.Items[i]) <= 0 })
}

// lacks is how many copies of an item are missing.
func (t *putting) lacks(item *PutItem) int {
	n := item.stored + item.present
	if item.Here == engine.Stored || item.Here == engine.Present {
		n++
	}
	return t.copies - n
}

// assign finds a home for each one that is missing: what each peer is to get, and what
// stays here. Nothing is under way meanwhile.
func (t *putting) assign() (shares map[*remote][]share, here []int) {
	shares = map[*remote][]share{}
	for _, run := range t.runs {
		if run.missing == 0 {
			continue
		}
		items := t.wanting(run.items)
		for ; run.missing > 0; run.missing-- {
			var r *remote
			if run.failed < homeTries && run.tried < len(run.order) {
				r = run.order[run.tried]
				run.tried++
			} else if run.here {
				continue // no copy more can be had
			}
			if r != nil {
				shares[r] = append(shares[r], share{run, items})
				continue
			}
			run.here = true
			here = append(here, items...)
		}
	}
	return shares, here
}

func (t *putting) storeHere(items []int) {
	if len(items) > 0 {
		slices.Sort(items)
		t.Here(items)
	}
}

// finish gives every item its status.
func (t *putting) finish(ctx context.Context) {
	late := ctx.Err() != nil
	for i := range t.Items {
		item := &t.Items[i]
		switch {
		case item.Here == engine.Late:
			item.Status = engine.Late
		case item.stored > 0 || item.Here == engine.Stored:
			item.Status = engine.Stored
		case item.present > 0 || item.Here == engine.Present:
			item.Status = engine.Present
		case late && !item.over && item.Here == engine.Unanswered:
			item.Status = engine.Late
		default:
			item.Status = engine.Dropped
			if item.Reason == admit.Admitted && item.Err == nil && item.Here == engine.Unanswered {
				item.Err = errNotTaken
			}
		}
		t.count(item)
	}
}

func (t *putting) count(item *PutItem) {
	c := &t.pool.puts
	switch item.Status {
	case engine.Stored:
		c.stored.Add(1)
	case engine.Present:
		c.present.Add(1)
	case engine.Late:
		c.late.Add(1)
	default:
		c.dropped.Add(1)
	}
	if item.Status == engine.Stored {
		c.copiesMissing.Add(uint64(max(t.lacks(item), 0)))
	}
}

package client

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// Status is the answer for one key.
type Status = wire.Status

// The statuses, see docs/format/wire.md.
const (
	Hit     = wire.Hit
	Miss    = wire.Miss
	Late    = wire.Late
	Busy    = wire.Busy
	Stored  = wire.Stored
	Present = wire.Present
	Dropped = wire.Dropped
)

// Reason says why a block of a Put is Dropped, see docs/format/wire.md.
type Reason = wire.Reason

// The reasons that a daemon gives.
const (
	ReasonPartial    = wire.ReasonPartial
	ReasonFirstSight = wire.ReasonFirstSight
	ReasonBudget     = wire.ReasonBudget
	ReasonQueue      = wire.ReasonQueue
)

// Block is one block of a Get or Put: its key and the places of its pieces, which
// together are the namespace's block bytes. All blocks of a call have the same
// number of pieces.
type Block struct {
	Key    []byte
	Places []Place
}

// GetOptions govern one Get.
type GetOptions struct {
	Group   uint32
	Timeout time.Duration // from the daemon's receipt; 0: the daemon's patience
	Bounce  bool          // LATE blocks are released at once
	NoTouch bool          // blocks keep their age
	Prefix  bool          // only the longest prefix that is here
	Worth   bool          // late once computing the blocks would be done, as the daemon knows of the model
}

// PutOptions govern one Put.
type PutOptions struct {
	Group      uint32
	Timeout    time.Duration
	Durable    bool
	DropIfBusy bool
	Depth      uint32 // of the first block in its chain; the others follow
	Importance uint8
	Partial    bool // the last block is not full: the prompt ends within it
	// After, if it has bytes, is the key before the first block in its chain, put by an
	// earlier call: a chain that grows from call to call.
	After []byte
	// Span says that the blocks are one stretch of a long sequence, which is of little
	// use in part: once its last block has gone, the others go next.
	Span bool
}

// Job is a Get or Put under way.
type Job struct {
	ns    *Namespace
	n     int
	other Status // what is answered without a daemon
	link  *link
	call  *call
}

// Result is what a Get or Put came to.
type Result struct {
	Statuses []Status
	Prefix   int           // leading blocks that are Hit, or Stored or Present
	Time     time.Duration // within the daemon
	Reasons  []Reason      // why blocks of a Put are Dropped; nil where the daemon says nothing
}

// Get starts reading blocks.
func (ns *Namespace) Get(blocks []Block, o GetOptions) *Job {
	flags := flag(o.Bounce, wire.GetBounce) | flag(o.NoTouch, wire.GetNoTouch) | flag(o.Prefix, wire.GetPrefix) | flag(o.Worth, wire.GetWorth)
	return ns.transfer(wire.TypeGet, blocks, Miss, func(number uint32, keys wire.Keys, places wire.Places) wire.Message {
		return &wire.Get{Namespace: number, Group: o.Group, Flags: flags, DeadlineUS: microseconds(o.Timeout), Keys: keys, Places: places}
	})
}

// Put starts storing blocks, given root first.
func (ns *Namespace) Put(blocks []Block, o PutOptions) *Job {
	flags := flag(o.Durable, wire.PutDurable) | flag(o.DropIfBusy, wire.PutDropIfBusy) | flag(o.Partial, wire.PutPartial) | flag(o.Span, wire.PutSpan)
	return ns.transfer(wire.TypePut, blocks, Dropped, func(number uint32, keys wire.Keys, places wire.Places) wire.Message {
		return &wire.Put{Namespace: number, Group: o.Group, Flags: flags, DeadlineUS: microseconds(o.Timeout), Depth: o.Depth,
			Importance: o.Importance, After: o.After, Keys: keys, Places: places}
	})
}

func flag(set bool, bit uint32) uint32 {
	if set {
		return bit
	}
	return 0
}

func microseconds(d time.Duration) uint32 {
	return uint32(min(max((d+time.Microsecond-1).Microseconds(), 0), math.MaxUint32))
}

// transfer packs the blocks and sends the request.
func (ns *Namespace) transfer(t wire.Type, blocks []Block, other Status, request func(uint32, wire.Keys, wire.Places) wire.Message) *Job {
	keys := make([][]byte, len(blocks))
	each := 0
	if len(blocks) > 0 {
		each = len(blocks[0].Places)
	}
	for i := range blocks {
		keys[i] = blocks[i].Key
		ns.checkPlaces(i, &blocks[i], each)
	}
	checkKeys(keys)
	j := &Job{ns: ns, n: len(blocks), other: other}
	l, number, ok := ns.space()
	if !ok || len(blocks) == 0 {
		return j
	}
	pieces := make([]wire.Piece, 0, len(blocks)*each)
	l.mu.Lock()
	for i := range blocks {
		for _, p := range blocks[i].Places {
			region, known := l.regions[p.Region]
			ok = ok && known
			pieces = append(pieces, wire.Piece{Region: region, LengthBytes: uint32(p.LengthBytes), Offset: uint64(p.OffsetBytes)})
		}
	}
	l.mu.Unlock()
	if ok {
		j.link, j.call = l, l.start(t, request(number, wire.MakeKeys(keys), wire.MakePlaces(each, pieces)), nil)
	}
	return j
}

// checkPlaces panics on a block that does not fit.
func (ns *Namespace) checkPlaces(i int, b *Block, each int) {
	total := 0
	for _, p := range b.Places {
		p.check()
		total += p.LengthBytes
	}
	if total != ns.blockBytes || len(b.Places) != each {
		panic(fmt.Sprintf("client: block %d has %d bytes in %d places, want %d in %d", i, total, len(b.Places), ns.blockBytes, each))
	}
}

// Done is closed when the job has its result.
func (j *Job) Done() <-chan struct{} {
	if j.call == nil {
		return closed
	}
	return j.call.answered
}

// Released is closed when the memory of all blocks is the caller's again, those
// LATE included. If the connection is lost, that is when the client is connected
// again, or closed.
func (j *Job) Released() <-chan struct{} {
	if j.call == nil {
		return closed
	}
	return j.call.free
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Wait waits for the result. Blocks whose connection was lost are Miss or Dropped.
func (j *Job) Wait() Result {
	if j.call != nil {
		<-j.call.answered
		if j.call.err == nil {
			if r, err := wire.ParseResults(j.call.body); err == nil && len(r.Statuses) == j.n {
				return resultOf(&r)
			}
			j.link.end(fmt.Errorf("%w: the answer to a transfer of %d blocks", wire.ErrMalformed, j.n))
		} else {
			j.ns.note("transfer", j.call.err)
		}
	}
	r := Result{Statuses: make([]Status, j.n)}
	for i := range r.Statuses {
		r.Statuses[i] = j.other
	}
	return r
}

func resultOf(m *wire.Results) Result {
	r := Result{Statuses: make([]Status, len(m.Statuses)), Prefix: int(m.Prefix), Time: time.Duration(m.TimeUS) * time.Microsecond}
	for i, s := range m.Statuses {
		r.Statuses[i] = Status(s)
	}
	for _, why := range m.Reasons {
		r.Reasons = append(r.Reasons, Reason(why))
	}
	return r
}

// Cancel gives the job up: what is unanswered becomes LATE soon.
func (j *Job) Cancel() {
	if j.call == nil {
		return
	}
	if j.link.waits(j.call) {
		_, _ = j.link.ask(context.Background(), wire.TypeCancel, wire.Wide(j.call.number), nil)
	}
}

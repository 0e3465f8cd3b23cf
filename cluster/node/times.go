package node

import (
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine/histogram"
)

// operations are the requests whose time is measured: from their arrival to their
// answer. Others wait for something of the client's, or come once a connection.
var operations = [...]struct {
	kind wire.Type
	name string
}{
	{wire.TypeGet, "get"}, {wire.TypePut, "put"}, {wire.TypeMatch, "match"}, {wire.TypeTouch, "touch"},
	{wire.TypeLocate, "locate"}, {wire.TypeDelete, "delete"}, {wire.TypeOpenNamespace, "open_namespace"}, {wire.TypeRegisterRegion, "register_region"},
}

// times are the latencies of a node. The zero value is empty.
type times struct {
	requests [len(operations)]histogram.Histogram
	reads    histogram.Histogram // one for each block that was hit
	recent   [recentParts]atomic.Pointer[recentPart]
}

const (
	// RecentTime is how far Recent looks back: at least this long without its
	// last part, at most this long.
	RecentTime  = time.Minute
	recentParts = 6 + 1 // the one being filled, too
	recentStep  = RecentTime / (recentParts - 1)
)

// recentPart is what happened within one step of time.
type recentPart struct {
	step         int64 // since 1970
	reads        histogram.Histogram
	kept, denied atomic.Uint64 // blocks of puts: stored or present, dropped
}

// request counts the time of a request.
func (t *times) request(kind wire.Type, took time.Duration) {
	for i := range operations {
		if operations[i].kind == kind {
			t.requests[i].Record(took.Nanoseconds())
			return
		}
	}
}

// read counts so many blocks that were read together.
func (t *times) read(now time.Time, took time.Duration, blocks int) {
	if blocks == 0 {
		return
	}
	part := t.part(now)
	for range blocks {
		t.reads.Record(took.Nanoseconds())
		part.reads.Record(took.Nanoseconds())
	}
}

// put counts the blocks of a put.
func (t *times) put(now time.Time, kept, denied uint64) {
	part := t.part(now)
	part.kept.Add(kept)
	part.denied.Add(denied)
}

// part is that of now; the oldest makes room for it.
func (t *times) part(now time.Time) *recentPart {
	step := now.UnixNano() / int64(recentStep)
	place := &t.recent[step%recentParts]
	for {
		old := place.Load()
		if old != nil && old.step >= step {
			return old
		}
		fresh := &recentPart{step: step}
		if place.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// Recent is what the last minute brought.
type Recent struct {
	Reads  histogram.Snapshot // of block reads: from the request's arrival to the block's answer
	Kept   uint64             // blocks of puts that were stored, or here already
	Denied uint64             // blocks of puts that were dropped
}

// StoringNothing says that puts came and not one block of them was kept.
func (r *Recent) StoringNothing() bool { return r.Denied > 0 && r.Kept == 0 }

// Recent sums up the last minute before now.
func (n *Node) Recent(now time.Time) Recent {
	step := now.UnixNano() / int64(recentStep)
	var reads histogram.Histogram
	var r Recent
	for i := range n.times.recent {
		if part := n.times.recent[i].Load(); part != nil && part.step > step-recentParts && part.step <= step {
			reads.Merge(&part.reads)
			r.Kept += part.kept.Load()
			r.Denied += part.denied.Load()
		}
	}
	r.Reads = reads.Snapshot()
	return r
}

// Operation is the latencies of one kind of request since the node was made.
type Operation struct {
	Name  string
	Times histogram.Snapshot
}

// Operations are the latencies of all requests that are measured, always the same
// kinds in the same order.
func (n *Node) Operations() []Operation {
	all := make([]Operation, len(operations))
	for i := range operations {
		all[i] = Operation{operations[i].name, n.times.requests[i].Snapshot()}
	}
	return all
}

// BlockReads are the latencies of blocks that were hit: from the arrival of the
// request to the answer of the drive that had the block, its neighbours in the same
// transfer included.
func (n *Node) BlockReads() histogram.Snapshot { return n.times.reads.Snapshot() }

package pool

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/engine"
)

const (
	// HotReadsMax bounds MoveOptions.HotReads: what the counts can hold.
	HotReadsMax = 15
	// hotCounts is how many counters there are. After hotAge reads for each all are halved:
	// only what is read often lately is hot.
	hotCounts = 1 << 16
	hotAge    = 4
	// hotWaitMax bounds the blocks that wait for their copy here.
	hotWaitMax = 4096
	// hotCopyMax is how many are copied at once, and hotCopyBytes how much, or one.
	hotCopyMax   = 64
	hotCopyBytes = pushBytes
)

// HotStat counts copies here of blocks that others have and this node reads often.
type HotStat struct {
	Seen    uint64 `json:"seen"`    // blocks read from others
	Hot     uint64 `json:"hot"`     // of those, found hot, and not waiting already
	Copied  uint64 `json:"copied"`  // of the hot, stored here
	Refused uint64 `json:"refused"` // of the hot, not: too many wait, or they could not be read or stored
	Waiting int    `json:"waiting"` // for their copy
}

// HotRead is a block that was read from another node.
type HotRead struct {
	ID         ID
	Key        engine.Key // a copy is kept
	Depth      uint32
	Importance uint8
}

// hotReads counts reads from others in a small sketch, and keeps what is read often until
// it has been copied.
type hotReads struct {
	most atomic.Uint32 // reads that make a block hot; 0: none does

	mu      sync.Mutex
	counts  [hotCounts]uint8
	reads   int
	queue   []hotBlock
	waiting map[ID]bool
	stats   HotStat
}

type hotBlock struct {
	of Of
	HotRead
}

// saw counts reads, and reports whether something waits to be copied.
func (h *hotReads) saw(of Of, reads []HotRead) bool {
	most := h.most.Load()
	if most == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = map[ID]bool{}
	}
	for i := range reads {
		h.stats.Seen++
		if !h.countLocked(&reads[i].ID, most) || h.waiting[reads[i].ID] {
			continue
		}
		h.stats.Hot++
		if len(h.waiting) >= hotWaitMax {
			h.stats.Refused++
			continue
		}
		b := hotBlock{of, reads[i]}
		b.Key.Bytes = append([]byte(nil), b.Key.Bytes...)
		h.waiting[b.ID] = true
		h.queue = append(h.queue, b)
	}
	return len(h.queue) > 0
}

// countLocked counts one read in two counters, the lower of which is believed, and reports
// whether it makes the block hot.
func (h *hotReads) countLocked(id *ID, most uint32) bool {
	a, b := &h.counts[binary.LittleEndian.Uint32(id[:])%hotCounts], &h.counts[binary.LittleEndian.Uint32(id[8:])%hotCounts]
	n := min(*a, *b)
	for _, c := range []*uint8{a, b} {
		if *c == n && *c < HotReadsMax {
			*c++
		}
	}
	if h.reads++; h.reads >= hotAge*hotCounts {
		h.reads = 0
		for i := range h.counts {
			h.counts[i] /= 2
		}
	}
	return uint32(n)+1 >= most
}

// take is the next blocks of one namespace; none are left: nil.
func (h *hotReads) take() (some []hotBlock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(some) < len(h.queue) && h.queue[len(some)].of == h.queue[0].of {
		if n := len(some); n > 0 && (n == hotCopyMax || (n+1)*h.queue[0].of.BlockBytes > hotCopyBytes) {
			break
		}
		some = h.queue[:len(some)+1]
	}
	if h.queue = h.queue[len(some):]; len(h.queue) == 0 {
		h.queue = nil // and with it the memory
	}
	return some
}

// end says what came of blocks.
func (h *hotReads) end(some []hotBlock, copied int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range some {
		delete(h.waiting, some[i].ID)
		a, b := binary.LittleEndian.Uint32(some[i].ID[:])%hotCounts, binary.LittleEndian.Uint32(some[i].ID[8:])%hotCounts
		h.counts[a], h.counts[b] = 0, 0 // should it be evicted here, it has to become hot again
	}
	h.stats.Copied += uint64(copied)
	h.stats.Refused += uint64(len(some) - copied)
}

func (h *hotReads) stat() (st HotStat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st = h.stats
	st.Waiting = len(h.waiting)
	return st
}

// CopiesHot says whether ReadFar is of any use.
func (p *Pool) CopiesHot() bool { return p.move.hot.most.Load() > 0 }

// ReadFar tells of blocks that were loaded from other nodes for a client. What is read
// often gets a copy here, if the options say so. It keeps nothing of reads.
func (p *Pool) ReadFar(of Of, reads []HotRead) {
	if p.move.hot.saw(of, reads) {
		p.move.nudge()
	}
}

// copyHot makes the copies that wait.
func (m *mover) copyHot(ctx context.Context) {
	for ctx.Err() == nil {
		some := m.hot.take()
		if len(some) == 0 {
			return
		}
		m.hot.end(some, m.copyHere(ctx, some))
	}
}

// copyHere loads blocks once more, into memory that no client has, and stores them.
func (m *mover) copyHere(ctx context.Context, some []hotBlock) (copied int) {
	of := some[0].of
	space := m.p.local.Space(of.Namespace)
	if space == nil || !m.pace(ctx, int64(len(some))*int64(of.BlockBytes)) {
		return 0
	}
	scope := m.p.scope(of)
	memory, free := putMemory(len(some) * of.BlockBytes)
	defer free()
	items, ids := make([]GetItem, len(some)), make([]ID, len(some))
	for i := range some {
		ids[i] = some[i].ID
		items[i] = GetItem{ID: ids[i], Dst: [][]byte{memory[i*of.BlockBytes : (i+1)*of.BlockBytes]}}
	}
	full, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	m.p.Get(of, items, GetOptions{Done: full.Done(), Bounce: true, NoTouch: true})
	return m.storeHere(full, space, scope, some, ids, items)
}

func (m *mover) storeHere(ctx context.Context, space Space, scope *peer.Scope, some []hotBlock, ids []ID, items []GetItem) (copied int) {
	fresh, leave := m.p.arrive(scope, ids)
	defer leave()
	a := &Arrival{Incarnation: scope.Incarnation, Moved: true}
	for i := range items {
		if b := &some[i]; items[i].Status == engine.Hit && fresh[i] {
			a.Items = append(a.Items, ArrivalItem{Key: b.Key, Src: items[i].Dst, Depth: b.Depth, Importance: b.Importance})
		}
	}
	if len(a.Items) == 0 {
		return 0
	}
	space.Write(ctx, a)
	for i := range a.Items {
		if s := a.Items[i].Status; s == engine.Stored || s == engine.Present {
			copied++
		}
	}
	return copied
}

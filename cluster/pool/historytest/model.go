package historytest

import (
	"fmt"
	"sync"
	"time"
)

// block names a block: a key in a namespace.
type block struct{ space, key int }

func (b block) String() string { return fmt.Sprintf("s%d/k%d", b.space, b.key) }

// forever is the end of what has none.
const forever = int64(1) << 62

// put is one put of one block.
type put struct {
	block      block
	node       int
	begin, end int64 // moments; forever: it may still have its effect
	stored     bool  // acknowledged as stored
}

// erasure is one delete of a block, or a drop of a namespace.
type erasure struct {
	block      block // key -1: the whole namespace
	node       int
	begin, end int64
	acked      bool
	told       []bool // by node: it has known of it from end on
}

// knownTo reports whether a node knows for certain of an erasure whose end has come.
func (e *erasure) knownTo(node int, healed bool) bool { return e.told[node] || healed && e.acked }

func (e *erasure) covers(b block) bool {
	return e.block == b || e.block.key < 0 && e.block.space == b.space
}

// Figures say what a history has seen.
type Figures struct {
	Ops, Puts, Stored, Hits, RemoteHits, Misses, Lates, Deletes, Drops, Missing int
	Crashes, Troubles, Passed                                                   int
	RDMABlocks, RDMAFences, RDMAFailures                                        int // of sessions
}

// model remembers what was done, and judges answers.
type model struct {
	mu       sync.Mutex
	clock    int64 // counts moments: every begin and end is one of its own
	puts     []put // by number - 1
	erasures []*erasure
	floors   map[[2]int]uint32 // node, space
	healed   bool
	figures  Figures
}

func newModel() *model { return &model{floors: map[[2]int]uint32{}} }

func (m *model) momentLocked() int64 { m.clock++; return m.clock }

// moment is now.
func (m *model) moment() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.momentLocked()
}

// note counts.
func (m *model) note(add func(f *Figures)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	add(&m.figures)
}

// beginPuts numbers puts of blocks by a client of a node, from the first on.
func (m *model) beginPuts(blocks []block, node int) (first uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = uint64(len(m.puts)) + 1
	now := m.momentLocked()
	for _, b := range blocks {
		m.puts = append(m.puts, put{block: b, node: node, begin: now, end: forever})
	}
	return first
}

// endPut ends a put: it has its effect by now, or never.
func (m *model) endPut(number uint64, stored bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.puts[number-1]
	p.end, p.stored = m.momentLocked(), stored
	if stored {
		m.figures.Stored++
	}
}

// beginErase begins an erasure of each block.
func (m *model) beginErase(blocks []block, node, nodes int) (begun []*erasure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.momentLocked()
	for _, b := range blocks {
		e := &erasure{block: b, node: node, begin: now, end: forever, told: make([]bool, nodes)}
		m.erasures, begun = append(m.erasures, e), append(begun, e)
	}
	return begun
}

// endErase acknowledges erasures: these nodes know them from now on.
func (m *model) endErase(begun []*erasure, told []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.momentLocked()
	for _, e := range begun {
		e.end, e.acked = now, true
		for _, node := range told {
			e.told[node] = true
		}
	}
}

// heal says that from now on every node knows every acknowledged erasure.
func (m *model) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.healed = true
}

// hit judges bytes that a node has answered to a get that began at this moment.
func (m *model) hit(b block, node int, began int64, bytes []byte) error {
	number, err := putOf(bytes)
	if err != nil {
		return fmt.Errorf("%v at node %d: %w", b, node, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if number == 0 || number > uint64(len(m.puts)) {
		return fmt.Errorf("WRONG BYTES: %v at node %d is of put %d, which there was not", b, node, number)
	}
	p := &m.puts[number-1]
	if p.block != b {
		return fmt.Errorf("WRONG BYTES: %v at node %d is put %d, of %v", b, node, number, p.block)
	}
	m.figures.Hits++
	if p.node != node {
		m.figures.RemoteHits++
	}
	for _, e := range m.erasures {
		if e.covers(b) && p.end < e.begin && e.end < began && e.knownTo(node, m.healed) {
			return fmt.Errorf("ERASED BYTES: %v at node %d is put %d of node %d (moments %d to %d), erased by node %d (moments %d to %d); the get began at %d",
				b, node, number, p.node, p.begin, p.end, e.node, e.begin, e.end, began)
		}
	}
	return nil
}

// floor judges the incarnation that a node has.
func (m *model) floor(node, space int, incarnation uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := [2]int{node, space}
	if was := m.floors[at]; incarnation < was {
		return fmt.Errorf("FLOOR: namespace %d has incarnation %d at node %d, and had %d", space, incarnation, node, was)
	}
	m.floors[at] = incarnation
	return nil
}

// lasting are the blocks that were acknowledged as stored, and that nothing has erased since,
// or could have. An erasure of which the node of a put has learned after the put may take
// that with it.
func (m *model) lasting() (blocks []block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[block]bool{}
	for i := range m.puts {
		p := &m.puts[i]
		if !p.stored || seen[p.block] {
			continue
		}
		gone := false
		for _, e := range m.erasures {
			gone = gone || e.covers(p.block) && !(e.end < p.begin && e.told[p.node])
		}
		if !gone {
			seen[p.block] = true
			blocks = append(blocks, p.block)
		}
	}
	return blocks
}

// logBook keeps what has happened.
type logBook struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

const logLines = 600

func newLogBook() *logBook { return &logBook{start: time.Now()} }

func (b *logBook) printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) >= 2*logLines {
		b.lines = append(b.lines[:0], b.lines[logLines:]...)
	}
	b.lines = append(b.lines, fmt.Sprintf("%-12v ", time.Since(b.start))+fmt.Sprintf(format, args...))
}

// Add adds other figures.
func (f *Figures) Add(o Figures) {
	f.Ops, f.Puts, f.Stored, f.Hits = f.Ops+o.Ops, f.Puts+o.Puts, f.Stored+o.Stored, f.Hits+o.Hits
	f.RemoteHits, f.Misses, f.Lates, f.Deletes = f.RemoteHits+o.RemoteHits, f.Misses+o.Misses, f.Lates+o.Lates, f.Deletes+o.Deletes
	f.Drops, f.Missing, f.Crashes = f.Drops+o.Drops, f.Missing+o.Missing, f.Crashes+o.Crashes
	f.Troubles, f.Passed = f.Troubles+o.Troubles, f.Passed+o.Passed
	f.RDMABlocks, f.RDMAFences, f.RDMAFailures = f.RDMABlocks+o.RDMABlocks, f.RDMAFences+o.RDMAFences, f.RDMAFailures+o.RDMAFailures
}

package history

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// block names a block for the model.
type block struct {
	space int
	group uint32
	key   int
}

func (b block) String() string {
	return fmt.Sprintf("space %d group %d key %d", b.space, b.group, b.key)
}

// never is the end of what has not ended.
const never = uint64(math.MaxUint64)

// put is one put of one block. begin and end are ticks of the model.
type put struct {
	number     uint64
	of         block
	begin, end uint64
	mem        *region // nil unless the client meddled
}

// erasure is a delete of a block or a drop of a namespace.
type erasure struct {
	begin, end uint64
	ok         bool // acknowledged
}

// ack says that the block was in the store at some moment between begin and end.
type ack struct {
	begin   uint64
	end     uint64
	at      time.Time
	durable bool
}

// lease is a promise about all blocks that a match found.
type lease struct {
	id       engine.LeaseID
	blocks   []block
	from     uint64 // end of the match
	begin    uint64 // of the match
	until    time.Time
	released uint64 // begin of the release
}

// blockState is what the model knows of one block.
type blockState struct {
	puts   []*put
	erased []erasure
	acks   []ack
}

// model is the oracle. Its mutex is never held across a call of the store.
type model struct {
	excuse excuses

	mu        sync.Mutex
	tick      uint64
	puts      []*put // by number-1
	blocks    map[block]*blockState
	drops     map[int][]erasure // by namespace
	leases    []*lease          // of this life
	lifeBegan uint64
	lost      int    // acknowledged blocks that were missing
	readOnly  uint64 // when a client was told so in this life
	checked   Figures
}

// Figures count what a history has done.
type Figures struct {
	Ops, Puts, Hits, Misses, Lates, Lost, Evicted int
	Lives, Crashes                                int
	Injected                                      uint64
}

func newModel(h *History) *model {
	return &model{excuse: h.excuses(), blocks: map[block]*blockState{}, drops: map[int][]erasure{}}
}

func (m *model) now() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	return m.tick
}

func (m *model) stateLocked(b block) *blockState {
	s := m.blocks[b]
	if s == nil {
		s = &blockState{}
		m.blocks[b] = s
	}
	return s
}

// beginPut gives a put its number.
func (m *model) beginPut(b block) *put {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	p := &put{number: uint64(len(m.puts) + 1), of: b, begin: m.tick, end: never}
	m.puts = append(m.puts, p)
	s := m.stateLocked(b)
	s.puts = append(s.puts, p)
	m.checked.Puts++
	return p
}

// endPut says that the store publishes the put from now on no more.
func (m *model) endPut(p *put) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	p.end = m.tick
}

// beginErase registers a delete (or, with all, a drop) before it begins.
func (m *model) beginErase(blocks []block, space int, all bool) (end func(ok bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	e := erasure{begin: m.tick, end: never}
	type entry struct {
		list *[]erasure
		at   int
	}
	var entries []entry
	if all {
		list := m.drops[space]
		m.drops[space] = append(list, e)
		return func(ok bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.tick++
			m.drops[space][len(list)].end, m.drops[space][len(list)].ok = m.tick, ok
		}
	}
	for _, b := range blocks {
		s := m.stateLocked(b)
		entries = append(entries, entry{&s.erased, len(s.erased)})
		s.erased = append(s.erased, e)
	}
	return func(ok bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.tick++
		for _, en := range entries {
			(*en.list)[en.at].end, (*en.list)[en.at].ok = m.tick, ok
		}
	}
}

// goneLocked says why a put may not be answered by a call that began at tick
// begin; "" if it may.
func (m *model) goneLocked(p *put, begin uint64) string {
	gone := func(list []erasure, what string) string {
		for _, e := range list {
			if e.ok && p.end < e.begin && e.end < begin {
				return fmt.Sprintf("put %d (ticks %d to %d) was gone by an acknowledged %s (%d to %d) before %d",
					p.number, p.begin, p.end, what, e.begin, e.end, begin)
			}
		}
		return ""
	}
	if why := gone(m.drops[p.of.space], "drop"); why != "" {
		return why
	}
	return gone(m.stateLocked(p.of).erased, "delete")
}

// present checks the claim that some put of b was in the store.
func (m *model) present(b block, begin uint64, but *put) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	why := "it was never put"
	for _, p := range m.stateLocked(b).puts {
		if p == but {
			continue
		}
		if why = m.goneLocked(p, begin); why == "" {
			return nil
		}
	}
	return fmt.Errorf("%v is said to be present: %s", b, why)
}

// hit checks the bytes of a hit.
func (m *model) hit(b block, got []byte, begin uint64, scribbled change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked.Hits++
	nameOf := func(n uint64) string { return fmt.Sprintf("put %d of %v", n, m.puts[n-1].of) }
	n := putOf(got)
	if n == 0 || n > uint64(len(m.puts)) {
		return fmt.Errorf("WRONG BYTES: hit of %v names no put:%s", b, describe(got, uint64(len(m.puts)), nameOf))
	}
	p := m.puts[n-1]
	want := content(n, len(got))
	if p.of != b {
		return fmt.Errorf("WRONG BYTES: hit of %v has those of %s", b, nameOf(n))
	}
	if !sameBut(got, want, scribbled) {
		same := false
		if p.mem != nil {
			p.mem.mu.Lock()
			p.mem.meddled.apply(want)
			p.mem.mu.Unlock()
			same = sameBut(got, want, scribbled)
		}
		if !same {
			return fmt.Errorf("WRONG BYTES: hit of %v is a mix:%s", b, describe(got, uint64(len(m.puts)), nameOf))
		}
	}
	if why := m.goneLocked(p, begin); why != "" {
		return fmt.Errorf("ERASED BYTES: hit of %v: %s", b, why)
	}
	return nil
}

// stored registers the acknowledgement of a put, unless it reaches nobody.
func (m *model) stored(b block, begin uint64, durable bool, isDead func() bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if isDead() { // asked under the lock: endLife comes later
		return nil
	}
	if m.readOnly != 0 && begin > m.readOnly {
		return fmt.Errorf("a put of %v was acknowledged after the store had said that it is read-only", b)
	}
	m.tick++
	s := m.stateLocked(b)
	s.acks = append(s.acks, ack{begin: begin, end: m.tick, at: time.Now(), durable: durable})
	return nil
}

// sayReadOnly registers that the store has told a client that it is read-only.
func (m *model) sayReadOnly() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	if m.readOnly == 0 {
		m.readOnly = m.tick
	}
}

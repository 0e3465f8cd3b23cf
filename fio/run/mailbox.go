package run

import (
	"sync"

	"github.com/spillway-kv/spillway/fio/target"
)

// mailbox is where targets put ended I/Os for their worker.
type mailbox struct {
	mu   sync.Mutex
	list []*target.IO  // room for all I/Os of the worker
	wake chan struct{} // holds a token when the list is not empty, perhaps also later
	told bool          // a token was put since the last take
}

func newMailbox(depth int) *mailbox {
	return &mailbox{list: make([]*target.IO, 0, depth), wake: make(chan struct{}, 1)}
}

// put may be called from any goroutine. I/Os of one call wake the worker once.
func (m *mailbox) put(io *target.IO) {
	m.mu.Lock()
	m.list = append(m.list, io)
	tell := !io.More && !m.told
	m.told = m.told || tell
	m.mu.Unlock()
	if !tell {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take moves everything to the end of into.
func (m *mailbox) take(into []*target.IO) []*target.IO {
	m.mu.Lock()
	defer m.mu.Unlock()
	into = append(into, m.list...)
	m.list, m.told = m.list[:0], false
	return into
}

func (m *mailbox) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.list) == 0
}

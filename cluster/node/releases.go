package node

import (
	"sync"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// releases are late items of one connection that are released and not told yet. They
// come from goroutines that end transfers, which must not wait for a client; a
// goroutine that lives as long as there are some tells them.
type releases struct {
	mu      sync.Mutex
	items   map[*transfer]wire.Released
	telling bool
}

func (r *releases) add(t *transfer, item uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.items == nil {
		r.items = map[*transfer]wire.Released{}
	}
	r.items[t] = append(r.items[t], item)
	if !r.telling {
		r.telling = true
		go r.tell()
	}
}

// tell ends when nothing is left. The transfers it tells of are requests in flight, so
// the connection's end waits for it.
func (r *releases) tell() {
	for {
		r.mu.Lock()
		items := r.items
		r.items = nil
		r.telling = len(items) > 0
		r.mu.Unlock()
		if len(items) == 0 {
			return
		}
		for t, released := range items {
			t.tell(released, 0)
		}
	}
}

package device

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// bufferPlaces is the size of a ring's table of buffers: 1 TiB of memory.
const bufferPlaces = 1024

// memory is what is registered with all rings of a device.
type memory struct {
	rings []*iouring.Ring

	mu     sync.Mutex
	free   []int // places, the lowest last
	closed bool

	regions atomic.Pointer[[]region] // sorted by start; replaced as a whole
}

// region is one registered piece of memory.
type region struct {
	start, end uintptr
	place      int
}

// newMemory makes the tables; an error means that the kernel has none to fill
// later (before 5.19).
func newMemory(rings []*iouring.Ring) (*memory, error) {
	m := &memory{rings: rings}
	for i, k := range rings {
		if err := k.RegisterBuffers(bufferPlaces); err != nil {
			for _, done := range rings[:i] {
				_ = done.UnregisterBuffers() // empty
			}
			return nil, err
		}
	}
	for place := bufferPlaces - 1; place >= 0; place-- {
		m.free = append(m.free, place)
	}
	m.regions.Store(new([]region))
	return m, nil
}

// close unpins everything.
func (m *memory) close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, k := range m.rings {
		_ = k.UnregisterBuffers() // closing the ring does the same, later
	}
}

// find returns the place of a region that holds all of the n bytes at address.
func (m *memory) find(address uintptr, n int) (place uint16, ok bool) {
	if m == nil {
		return 0, false
	}
	regions := *m.regions.Load()
	if len(regions) == 0 {
		return 0, false
	}
	i, exact := slices.BinarySearchFunc(regions, address, func(g region, a uintptr) int {
		switch {
		case g.start < a:
			return -1
		case g.start > a:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	if i < 0 || address+uintptr(n) > regions[i].end {
		return 0, false
	}
	return uint16(regions[i].place), true
}

// errOverlap: memory is registered already.
var errOverlap = errors.New("device: this memory, or part of it, is registered already")

// register pins mem in pieces and makes them known. All or nothing.
func (m *memory) register(mem []byte) (added []region, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	defer func() {
		if err != nil {
			m.emptyLocked(added)
			added = nil
		}
	}()
	regions := *m.regions.Load()
	first := addressOf(mem)
	for _, g := range regions {
		if first < g.end && g.start < first+uintptr(len(mem)) {
			return nil, errOverlap
		}
	}
	for piece := range slices.Chunk(mem, iouring.BufferBytesMax) {
		if len(m.free) == 0 {
			return added, fmt.Errorf("device: more than %d pieces of registered memory: %w", bufferPlaces, unix.ENOSPC)
		}
		place := m.free[len(m.free)-1]
		m.free = m.free[:len(m.free)-1]
		start := addressOf(piece)
		added = append(added, region{start, start + uintptr(len(piece)), place})
		for _, k := range m.rings {
			if err := k.SetBuffer(place, piece); err != nil {
				return added, err
			}
		}
	}
	all := slices.Concat(regions, added)
	slices.SortFunc(all, func(a, b region) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	m.regions.Store(&all)
	return added, nil
}

// release takes regions back; on a closed device they are back already.
func (m *memory) release(gone []region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	left := slices.DeleteFunc(slices.Clone(*m.regions.Load()), func(g region) bool { return slices.Contains(gone, g) })
	m.regions.Store(&left)
	m.emptyLocked(gone)
}

// emptyLocked unpins regions. A place that cannot be emptied is not used again.
func (m *memory) emptyLocked(gone []region) {
	for _, g := range gone {
		emptied := true
		for _, k := range m.rings {
			emptied = k.SetBuffer(g.place, nil) == nil && emptied
		}
		if emptied {
			m.free = append(m.free, g.place)
		}
	}
}

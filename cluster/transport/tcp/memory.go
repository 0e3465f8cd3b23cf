package tcp

import (
	"errors"
	"sync"

	"github.com/spillway-kv/spillway/engine/fault"
)

// errWithdrawn says that a memory is closed.
var errWithdrawn = errors.New("the memory is not to be used any more")

// memory is a block's place in memory that is not the transport's own. System calls and
// copies touch it between use and leave, and those never wait; close ends that.
type memory struct {
	pieces [][]byte
	index  int
	freed  func(index int) // called once: closed, and nobody uses it. Not under mu

	mu     sync.Mutex
	using  int
	closed bool
}

// use lets the caller touch the memory until leave; false: not any more.
func (m *memory) use() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.using++
	return true
}

func (m *memory) leave() {
	m.mu.Lock()
	m.using--
	free := m.closed && m.using == 0
	m.mu.Unlock()
	if free {
		m.freed(m.index)
	}
}

// close lets nobody use the memory any more. It does not wait: freed tells.
func (m *memory) close() {
	m.mu.Lock()
	free := !m.closed && m.using == 0
	m.closed = true
	m.mu.Unlock()
	if free {
		m.freed(m.index)
	}
}

// window appends to iov the parts of the memory that hold n bytes at offset, at most
// most of them, and says how many bytes they have.
func (m *memory) window(iov [][]byte, offset, n, most int) ([][]byte, int) {
	got := 0
	for _, p := range m.pieces {
		if offset >= len(p) {
			offset -= len(p)
			continue
		}
		if got == n || most == 0 {
			break
		}
		p = p[offset:min(len(p), offset+n-got)]
		offset = 0
		iov = append(iov, p)
		got += len(p)
		most--
	}
	return iov, got
}

// put copies b to offset. The error is errWithdrawn, or matches syscall.EFAULT.
func (m *memory) put(offset int, b []byte) error {
	return m.touch(offset, b, func(piece, ours []byte) { copy(piece, ours) })
}

// get copies from offset to b; errors as those of put.
func (m *memory) get(offset int, b []byte) error {
	return m.touch(offset, b, func(piece, ours []byte) { copy(ours, piece) })
}

func (m *memory) touch(offset int, b []byte, move func(piece, ours []byte)) error {
	if !m.use() {
		return errWithdrawn
	}
	defer m.leave()
	return fault.Guard(func() {
		for _, p := range m.pieces {
			if offset >= len(p) {
				offset -= len(p)
				continue
			}
			n := min(len(p)-offset, len(b))
			move(p[offset:offset+n], b[:n])
			offset, b = 0, b[n:]
			if len(b) == 0 {
				return
			}
		}
	})
}

// sizeOf is the length of pieces together.
func sizeOf(pieces [][]byte) int {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

package arena

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Sizes of the pieces in which memory is registered.
const (
	UringPieceBytes = 1 << 30  // the kernel's bound on one registered buffer
	CUDAPieceBytes  = 64 << 30 // far enough below the driver's 512 GiB
)

// Registrar makes memory known to something that moves data, which pins it.
// After release has returned the memory may be unmapped; release is called when
// nothing is in flight there.
type Registrar interface {
	Register(mem []byte) (release func(), err error)
}

// RegistrarFunc is a Registrar made of one function, such as the RegisterMemory
// of an engine.Store.
type RegistrarFunc func(mem []byte) (release func(), err error)

// Register calls f.
func (f RegistrarFunc) Register(mem []byte) (release func(), err error) { return f(mem) }

// registrations are what some memory is registered with.
type registrations struct {
	mu     sync.Mutex
	live   []*registration
	closed bool
}

type registration struct {
	once     sync.Once
	releases []func()
}

func (g *registration) release() {
	g.once.Do(func() {
		for _, release := range slices.Backward(g.releases) {
			release()
		}
	})
}

// add registers mem in pieces of at most pieceBytes: all of them or none.
func (s *registrations) add(mem []byte, r Registrar, pieceBytes int64) (release func(), err error) {
	if pieceBytes < borderBytes || pieceBytes%borderBytes != 0 {
		return nil, fmt.Errorf("%w: pieces of %d bytes are no multiple of %d", ErrSize, pieceBytes, int64(borderBytes))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	g := &registration{}
	for piece := range slices.Chunk(mem, int(pieceBytes)) {
		release, err := r.Register(piece)
		if err != nil {
			g.release()
			return nil, err
		}
		if release == nil {
			return nil, errors.New("arena: a registrar gave no release")
		}
		g.releases = append(g.releases, release)
	}
	s.live = append(s.live, g)
	return func() { s.remove(g) }, nil
}

func (s *registrations) remove(g *registration) {
	g.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = slices.DeleteFunc(s.live, func(other *registration) bool { return other == g })
}

// close releases what is still registered, the newest first, and lets nothing
// be added. It waits for a release that is under way.
func (s *registrations) close() {
	s.mu.Lock()
	live := s.live
	s.live, s.closed = nil, true
	s.mu.Unlock()
	for _, g := range slices.Backward(live) {
		g.release()
	}
}

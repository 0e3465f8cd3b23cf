package node

import (
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/engine/frame"
	"github.com/spillway-kv/spillway/tiering/arena"
)

// peerFrames is the bounded memory through which blocks go from the stores to peers. Its
// methods may be called from many goroutines; who has to wait does so as with a frame.Pool.
type peerFrames interface {
	// tryGet lends a frame, nil when there is no room now. Nil while none is lent means that
	// the system has no memory. nBytes are at most mostBytes.
	tryGet(nBytes int) peerFrame
	// mostBytes is the largest frame.
	mostBytes() int64
	// Notify gives a channel that is closed at the next return of a frame.
	Notify() <-chan struct{}
	// InUse is how many are lent.
	InUse() int
	// Free gives the memory back; no frame is lent.
	Free()
}

// peerFrame is memory of a block on its way. Release gives it back.
type peerFrame interface {
	Bytes() []byte
	Release()
}

// newPeerFrames takes memory that the pool's transport knows, if it is quicker with such;
// otherwise, or if it cannot be had, memory that comes as it is needed.
func (n *Node) newPeerFrames(nBytes int64) (peerFrames, error) {
	if n.registered.wanted() {
		known, err := n.newKnownFrames(nBytes)
		if err == nil {
			return known, nil
		}
		n.registered.refuse("memory for blocks that go to peers", nBytes, err)
		n.registered.missing.Add(1)
	}
	mapped, err := frame.NewPool(nBytes)
	if err != nil {
		return nil, fmt.Errorf("memory for blocks that go to peers: %w", err)
	}
	return mappedFrames{mapped}, nil
}

// mappedFrames are mapped one by one, and kept.
type mappedFrames struct{ *frame.Pool }

func (f mappedFrames) mostBytes() int64 { return f.TotalBytes() }

func (f mappedFrames) tryGet(nBytes int) peerFrame {
	if got := f.TryGet(nBytes); got != nil {
		return got
	}
	return nil
}

// knownFrames are cut from one mapping, which is there from the start and registered.
type knownFrames struct {
	arena *arena.Arena

	mu       sync.Mutex
	returned chan struct{} // closed at the next return; nil if nobody asked
}

func (n *Node) newKnownFrames(nBytes int64) (*knownFrames, error) {
	a, err := arena.New(arena.Options{Bytes: max(nBytes, arena.MinBytes)})
	if err != nil {
		return nil, err
	}
	if _, err := n.registered.register(a, sources); err != nil {
		_ = a.Close() // nothing is lent
		return nil, err
	}
	for _, s := range n.stores {
		if _, err := a.Register(arena.RegistrarFunc(s.RegisterMemory), pinBytes); err != nil {
			n.log.Debug("memory for blocks that go to peers is not registered with a drive", "store", s.Stat().Dir, "cause", err)
		}
	}
	n.log.Info("memory for blocks that go to peers is registered with the pool's transport", "memory", a.Facts().String())
	return &knownFrames{arena: a}, nil
}

func (f *knownFrames) mostBytes() int64 { return int64(f.arena.FrameBytesMax()) }

func (f *knownFrames) tryGet(nBytes int) peerFrame {
	got, err := f.arena.Get(nBytes)
	if err != nil {
		return nil
	}
	return &knownFrame{Frame: got, of: f}
}

// Notify implements peerFrames.
func (f *knownFrames) Notify() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.returned == nil {
		f.returned = make(chan struct{})
	}
	return f.returned
}

// InUse implements peerFrames.
func (f *knownFrames) InUse() int { return f.arena.Usage().Frames }

// Free implements peerFrames.
func (f *knownFrames) Free() {
	if err := f.arena.Close(); err != nil {
		panic(fmt.Sprintf("node: frames for peers: %v", err)) // as frame.Pool does
	}
}

// knownFrame tells those who wait of its return.
type knownFrame struct {
	arena.Frame
	of *knownFrames
}

// Release implements peerFrame.
func (k *knownFrame) Release() {
	k.Frame.Release()
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	if k.of.returned != nil {
		close(k.of.returned)
		k.of.returned = nil
	}
}

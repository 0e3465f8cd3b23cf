// Package evict decides which block of a namespace goes when its room is
// needed. The store asks one Policy per namespace.
//
// Three policies are here: LRU, S3FIFO and Hazard, the default. Each keeps what
// grows with the number of blocks in flat arrays outside the Go heap, which all
// policies of a factory share.
package evict

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Handle is the store's dense number of a block, at most the maximum given to
// the factory's constructor. One policy of a factory holds it at a time; after
// Forget or Evicted any may be given it again. 0 stands for none.
type Handle uint32

// Access tells the policy what is known about one put or touch. What is not
// known is zero; a policy then works with less.
type Access struct {
	// ID names the block across evictions (ghosts).
	ID [16]byte
	// NowNS is the store's monotonic clock in nanoseconds. It may be negative for
	// what happened before the store was opened, but never goes back.
	NowNS int64
	// Depth is the block's position in its chain, root = 0.
	Depth uint32
	// Next is the block that comes behind this one in its chain, if this policy
	// holds it; chains are applied tail first, so it was admitted or touched before.
	Next Handle
	// Previous is the block before this one in its chain, if this policy holds it
	// already and it is not going to be admitted or touched next: a chain that
	// grows from call to call.
	Previous Handle
	// Behind is how many more blocks of the same request come behind this one.
	Behind uint32
	// Importance outranks age; 0 is ordinary, higher stays longer.
	Importance uint8
	// References is, for Admit after a restart, how often the block was used before
	// (Past.References), at last at NowNS; 0: this is a use of its own.
	References uint8
	// Joined says that the block and Next are of one stretch: when Next has been
	// evicted, this one is the next to go, unless it is used before.
	Joined bool
	// Partial says that the block is not full: only the very same prompt finds it.
	Partial bool
	// Moved says that nobody used the block: the store gives it another
	// importance for a while, or back the one it had.
	Moved bool
}

// Past is what a policy knows of a held block that is worth keeping over a
// restart: Admit takes it back as References and NowNS.
type Past struct {
	UsedNS     int64 // latest use
	References uint8 // number of uses, as far as the policy counts; 0: it keeps nothing
	Last       bool  // Access.Behind was 0 when the block was first seen
	Partial    bool
}

// Access is what to admit the block with after a restart: a, which knows the block,
// and its past.
func (p Past) Access(a Access) Access {
	a.NowNS, a.References, a.Partial, a.Behind = p.UsedNS, p.References, p.Partial, math.MaxUint32
	if p.Last {
		a.Behind = 0
	}
	return a
}

// Factory makes the policies of one store. It owns all memory that grows with the
// number of blocks, so that many namespaces need no more of it than one. The
// caller serialises all calls of a factory and of its policies.
type Factory interface {
	// New makes a policy that holds nothing. It costs little, and its end
	// nothing: a policy that holds no block is simply left to the garbage collector.
	New() Policy
	// Learned is what the policies have learned from the traffic, a few KiB for
	// Learn of a later factory of the same policy; nil if they learn nothing.
	Learned() []byte
	// Learn takes over what was learned earlier. Text that is not understood is
	// refused and changes nothing; the policies then learn anew.
	Learn([]byte) error
	// Free gives the memory back; the factory and its policies are dead.
	Free()
}

// Policy orders the blocks of one namespace. The caller applies chains tail
// first: a leaf is admitted or touched before its parent, so that it ages before
// it. No call allocates per block.
//
// Importance comes first: a block goes only when its policy holds none of less
// importance. Among equals a policy that reorders keeps a block that has a child
// of at most its importance: a child without its parent is of no use.
type Policy interface {
	Name() string
	// Admit adds a block that was not held.
	Admit(Handle, Access)
	// Touch refreshes a held block.
	Touch(Handle, Access)
	// Victim names the block to evict next, false when none is held. To the caller
	// it changes nothing: he answers with Evicted, or with Touch if he may not
	// evict that one now (a lease), and asks again.
	Victim() (Handle, bool)
	// Evicted removes a block for want of room; ghosts may remember its ID.
	Evicted(Handle, [16]byte)
	// Forget removes a block that was deleted or lost; no memory of it stays.
	Forget(Handle)
	// Past is what a held block should be admitted with after a restart.
	Past(Handle) Past
	// Len is the number of blocks held.
	Len() int
}

// The names of the policies, for people.
const (
	LRU    = "lru"
	S3FIFO = "s3fifo"
	Hazard = "hazard"
)

// Default is the policy of a store that is told no other.
const Default = Hazard

// Names are the policies there are, the default first.
func Names() []string { return []string{Hazard, LRU, S3FIFO} }

// Named is the constructor of a policy's factories; for "" of the default's.
func Named(name string) (func(max int) (Factory, error), error) {
	switch name {
	case LRU:
		return NewLRU, nil
	case S3FIFO:
		return NewS3FIFO, nil
	case Hazard, "":
		return NewHazard, nil
	}
	return nil, fmt.Errorf("no eviction policy %q; there are %s", name, strings.Join(slices.Sorted(slices.Values(Names())), ", "))
}

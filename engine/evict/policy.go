// Package evict decides which block of a namespace goes when its room is
// needed. The store asks one Policy per namespace; package tiering adds more
// of them behind the same interface.
package evict

// Handle is the store's dense number of a block, at most the maximum given to
// the factory's constructor. One policy of a factory holds it at a time; after
// Forget or Evicted any may be given it again.
type Handle uint32

// Access tells the policy what it may know about one put or touch.
type Access struct {
	// ID names the block across evictions (ghosts).
	ID [16]byte
	// Depth is the block's position in its chain, root = 0.
	Depth uint32
	// Importance outranks age; 0 is ordinary, higher stays longer.
	Importance uint8
	// NowNS is the store's monotonic clock in nanoseconds.
	NowNS int64
}

// Factory makes the policies of one store. It owns all memory that grows with the
// number of blocks, so that many namespaces need no more of it than one. The
// caller serialises all calls of a factory and of its policies.
type Factory interface {
	// New makes a policy that holds nothing. It costs little, and its end
	// nothing: a policy that holds no block is simply left to the garbage collector.
	New() Policy
	// Free gives the memory back; the factory and its policies are dead.
	Free()
}

// Policy orders the blocks of one namespace. The caller applies chains tail
// first: a leaf is admitted or touched before its parent, so that it ages before
// it. No call allocates per block.
type Policy interface {
	Name() string
	// Admit adds a block that was not held.
	Admit(Handle, Access)
	// Touch refreshes a held block.
	Touch(Handle, Access)
	// Victim names the block to evict next, false when none is held. It changes
	// nothing: the caller answers with Evicted, or with Touch if it may not
	// evict that one now (a lease), and asks again.
	Victim() (Handle, bool)
	// Evicted removes a block for want of room; ghosts may remember it.
	Evicted(Handle)
	// Forget removes a block that was deleted or lost; no memory of it stays.
	Forget(Handle)
	// Len is the number of blocks held.
	Len() int
}

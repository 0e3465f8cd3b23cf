package rdma

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// room is registered memory of our own, given out in units: what cannot be registered goes
// through it, and is copied.
type room struct {
	regions *regions
	region  *region
	array   *offheap.Array[byte]
	mem     []byte
	tickets *semaphore.Weighted // units

	some context.Context // ends when all units are lost
	none context.CancelFunc

	mu     sync.Mutex
	free   []int32 // units; the last one is given first, so that few pages are touched
	lost   int     // units that may never come back
	closed bool    // no device knows it any more
}

// berth is a part of a room: some of its units, in the order in which they are filled.
type berth struct {
	room  *room
	units []int32
	lost  bool // a device may write to it for ever: it is never given back
}

func newRoom(s *regions, nBytes int64, use transport.Use) (*room, error) {
	units := int(nBytes / landingUnitBytes)
	array, err := offheap.Make[byte](units * landingUnitBytes)
	if err != nil {
		return nil, err
	}
	r := &room{regions: s, array: array, mem: array.Slice(), tickets: semaphore.NewWeighted(int64(units))}
	if r.region, err = s.add(r.mem, use); err != nil {
		array.Free()
		return nil, err
	}
	for i := range units {
		r.free = append(r.free, int32(units-1-i))
	}
	r.some, r.none = context.WithCancel(context.Background())
	return r, nil
}

// units is how many hold so many bytes.
func unitsOf(nBytes int) int64 { return (int64(nBytes) + landingUnitBytes - 1) / landingUnitBytes }

// holds reports whether a room without anything in it has so many bytes.
func (r *room) holds(nBytes int) bool { return unitsOf(nBytes)*landingUnitBytes <= int64(len(r.mem)) }

// take gives room for so many bytes; nil: there is none now, or others wait for it.
func (r *room) take(nBytes int) *berth {
	if !r.tickets.TryAcquire(unitsOf(nBytes)) {
		return nil
	}
	return r.give(nBytes)
}

// wait is take that waits for its turn; an error when ctx ends, or when there is nothing to
// wait for.
func (r *room) wait(ctx context.Context, nBytes int) (*berth, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.some, cancel)()
	if err := r.tickets.Acquire(ctx, unitsOf(nBytes)); err != nil {
		return nil, err
	}
	return r.give(nBytes), nil
}

func (r *room) give(nBytes int) *berth {
	b := &berth{room: r, units: make([]int32, unitsOf(nBytes))}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := len(r.free) - len(b.units)
	for i := range b.units {
		b.units[i] = r.free[len(r.free)-1-i]
	}
	r.free = r.free[:left]
	return b
}

// free gives the room back: nobody has any of it any more. It is called once.
func (b *berth) free() {
	if b.lost {
		return
	}
	r := b.room
	r.mu.Lock()
	for i := range b.units {
		r.free = append(r.free, b.units[len(b.units)-1-i])
	}
	r.unmapLocked()
	r.mu.Unlock()
	r.tickets.Release(int64(len(b.units)))
	b.units = nil
}

// lose says that so many units may never come back.
func (r *room) lose(units int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost += units; r.lost*landingUnitBytes >= len(r.mem) {
		r.none()
	}
}

// pieces are the n bytes at offset of the berth, cut where its units end.
func (b *berth) pieces(offset, n int) [][]byte {
	if n == 0 {
		return nil
	}
	pieces := make([][]byte, 0, unitsOf(offset%landingUnitBytes+n))
	for n > 0 {
		at, within := int(b.units[offset/landingUnitBytes]), offset%landingUnitBytes
		p := b.room.mem[at*landingUnitBytes:][:landingUnitBytes:landingUnitBytes][within:min(landingUnitBytes, within+n)]
		pieces = append(pieces, p)
		offset, n = offset+len(p), n-len(p)
	}
	return pieces
}

// close gives the memory back to the system, unless a device may still write there; what a
// Fetch still has, which is about to return, when it has.
func (r *room) close() error {
	r.none()
	err := r.regions.remove(r.region)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = err == nil
	r.unmapLocked()
	return err
}

func (r *room) unmapLocked() {
	if r.closed && len(r.free)*landingUnitBytes == len(r.mem) {
		r.array.Free()
	}
}

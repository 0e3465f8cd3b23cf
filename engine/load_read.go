package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/engine/offheap"
	"github.com/spillway-kv/spillway/engine/table"
)

const (
	// readersMax bounds the goroutines that read the index at Open.
	readersMax = 8
	// readerRanges is into how many ranges the keys are cut, at least.
	readerRanges = 32
	// readerChunk is how many blocks a reader keeps in one piece of memory: 6 MiB,
	// three huge pages.
	readerChunk = 1 << 17
	// digitBits is what one pass of a sort by position looks at.
	digitBits = 11
)

// foundBlock is a living entry of the index on its way into the table.
type foundBlock struct {
	id         table.ID
	position   uint64
	checksum   uint64
	place      Place
	depth      uint32
	importance uint8
}

// indexReaders read all blocks' entries at Open, on several goroutines. What they
// find lies outside the Go heap, 80 bytes a block at most, until free.
type indexReaders struct {
	readers []*indexReader
	errs    []error
	running sync.WaitGroup
}

// indexReader is one of the goroutines.
type indexReader struct {
	s      *Store
	mem    []*offheap.Array[foundBlock]
	chunks [][]foundBlock
	dead   [][]byte // keys of entries that own nothing any more
	torn   uint64   // entries that could not be decoded
	sorted *offheap.Array[foundAt]
	rest   []foundAt // of sorted: what is still to come
}

// foundAt is where a reader keeps the block of a position.
type foundAt struct {
	position uint64
	chunk    uint32
	index    uint32
}

func (s *Store) startReaders() *indexReaders {
	bounds, next := s.blockBounds(), &atomic.Int64{}
	n := min(runtime.GOMAXPROCS(0), readersMax)
	rs := &indexReaders{readers: make([]*indexReader, n), errs: make([]error, n)}
	for i := range n {
		r := &indexReader{s: s}
		rs.readers[i], rs.errs[i] = r, errIndexFailed // Pebble may end the goroutine
		rs.running.Go(func() { rs.errs[i] = r.read(bounds, next) })
	}
	return rs
}

// wait returns when all is read, or could not be.
func (rs *indexReaders) wait() error {
	rs.running.Wait()
	return errors.Join(rs.errs...)
}

// free gives the memory back, once nobody reads any more.
func (rs *indexReaders) free() {
	rs.running.Wait()
	for _, r := range rs.readers {
		for _, mem := range r.mem {
			mem.Free()
		}
		if r.sorted != nil {
			r.sorted.Free()
		}
	}
}

// blocks is how many were found.
func (rs *indexReaders) blocks() (n int) {
	for _, r := range rs.readers {
		n += len(r.rest)
	}
	return n
}

// next copies the oldest blocks that are still to come, in the order of their
// positions, and returns how many.
func (rs *indexReaders) next(blocks []foundBlock) int {
	for n := range blocks {
		var oldest *indexReader
		for _, r := range rs.readers {
			if len(r.rest) > 0 && (oldest == nil || r.rest[0].position < oldest.rest[0].position) {
				oldest = r
			}
		}
		if oldest == nil {
			return n
		}
		at := oldest.rest[0]
		blocks[n] = oldest.chunks[at.chunk][at.index]
		oldest.rest = oldest.rest[1:]
	}
	return len(blocks)
}

// blockBounds cuts the keys of all blocks into ranges, each from one bound to the
// next. IDs are hashes, so the ranges of a namespace hold about equally many.
func (s *Store) blockBounds() [][]byte {
	bounds := [][]byte{{prefixBlock}}
	shares := max(readerRanges/max(len(s.namespaces), 1), 1)
	for _, ns := range s.namespaces {
		for i := range shares {
			bounds = append(bounds, append(dropPrefix(ns.number, ns.incarnation), byte(i*256/shares)))
		}
	}
	return append(bounds, prefixEnd(bounds[0]))
}

// read takes one range after the other, and sorts what it has found.
func (r *indexReader) read(bounds [][]byte, next *atomic.Int64) error {
	for {
		n := next.Add(1)
		if n >= int64(len(bounds)) {
			return r.sort()
		}
		if err := r.s.index.scanRange(bounds[n-1], bounds[n], r.add); err != nil {
			next.Store(int64(len(bounds))) // the others need not go on
			return err
		}
	}
}

// add takes one entry. One that cannot be decoded is damage of the index: it is
// dropped, a miss.
func (r *indexReader) add(key, value []byte) error {
	alive := false
	e, err := decodeIndexEntry(key, value)
	if err != nil {
		r.s.log.Error("an index entry is damaged; its block is a miss", "cause", err)
		r.torn++
	}
	if err == nil {
		g := r.s.segments[e.place.Segment()]
		alive = g != nil && g.header.mayHold(&e)
	}
	if !alive {
		r.dead = append(r.dead, append([]byte(nil), key...))
		return nil
	}
	last := len(r.chunks) - 1
	if last < 0 || len(r.chunks[last]) == readerChunk {
		mem, err := offheap.Make[foundBlock](readerChunk)
		if err != nil {
			return fmt.Errorf("memory to read the index: %w", err)
		}
		r.mem = append(r.mem, mem)
		r.chunks = append(r.chunks, mem.Slice()[:0])
		last++
	}
	r.chunks[last] = append(r.chunks[last], foundBlock{id: e.id, position: e.position, checksum: e.checksum,
		place: e.place, depth: e.depth, importance: e.importance})
	return nil
}

// sort orders what was found by position: a radix sort, lowest digit first.
func (r *indexReader) sort() (err error) {
	n, newest := 0, uint64(0)
	for _, chunk := range r.chunks {
		n += len(chunk)
	}
	if r.sorted, err = offheap.Make[foundAt](n); err != nil {
		return fmt.Errorf("memory to read the index: %w", err)
	}
	spare, err := offheap.Make[foundAt](n)
	if err != nil {
		return fmt.Errorf("memory to read the index: %w", err)
	}
	order := r.sorted.Slice()[:0]
	for c, chunk := range r.chunks {
		for i := range chunk {
			order = append(order, foundAt{chunk[i].position, uint32(c), uint32(i)})
			newest = max(newest, chunk[i].position)
		}
	}
	for shift := 0; newest>>shift > 0; shift += digitBits {
		radixPass(spare.Slice(), r.sorted.Slice(), shift)
		r.sorted, spare = spare, r.sorted
	}
	spare.Free()
	r.rest = r.sorted.Slice()
	return nil
}

// radixPass sorts by the digit that begins at a bit, and keeps the order of equals.
func radixPass(to, from []foundAt, shift int) {
	var starts [1 << digitBits]int
	for i := range from {
		starts[from[i].position>>shift%(1<<digitBits)]++
	}
	sum := 0
	for digit, count := range starts {
		starts[digit] = sum
		sum += count
	}
	for i := range from {
		start := &starts[from[i].position>>shift%(1<<digitBits)]
		to[*start] = from[i]
		*start++
	}
}

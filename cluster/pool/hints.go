package pool

import (
	"encoding/binary"
	"sync"
)

// hints remember where blocks are, as far as they go: of a full bucket the oldest goes.
// They have no pointers, so that they cost the garbage collector nothing, and are made
// shard by shard as they are used. A hint may be wrong at any time.
type hints struct {
	buckets int // of each shard
	shards  [hintShards]hintShard
}

const (
	hintShards = 64
	hintWays   = 8
)

type hintShard struct {
	mu      sync.Mutex
	buckets [][hintWays]hint // nil until something is remembered
}

// hint is where one block is; of a bucket the newest comes first. at is zero where there
// is none.
type hint struct {
	id ID
	at Place
}

func newHints(most int) *hints {
	return &hints{buckets: max(1, most/(hintShards*hintWays))}
}

// of finds the shard and the bucket of an ID, which is a hash already.
func (h *hints) of(id *ID) (*hintShard, int) {
	n := binary.LittleEndian.Uint64(id[:8])
	return &h.shards[n%hintShards], int(n / hintShards % uint64(h.buckets))
}

// find says where a block is.
func (h *hints) find(id *ID) Place {
	s, b := h.of(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets == nil {
		return Place{}
	}
	for i := range s.buckets[b] {
		if e := &s.buckets[b][i]; e.at.Known() && e.id == *id {
			return e.at
		}
	}
	return Place{}
}

// add remembers a copy.
func (h *hints) add(id *ID, number uint16) {
	if number == 0 {
		return
	}
	s, b := h.of(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets == nil {
		s.buckets = make([][hintWays]hint, h.buckets)
	}
	bucket := &s.buckets[b]
	e, at := hint{id: *id}, hintWays-1 // takes the place of the oldest
	for i := range bucket {
		if !bucket[i].at.Known() || bucket[i].id == *id {
			if bucket[i].id == *id {
				e = bucket[i]
			}
			at = i
			break
		}
	}
	e.at.add(number)
	copy(bucket[1:at+1], bucket[:at])
	bucket[0] = e
}

// remove forgets a copy, and reports whether it was remembered.
func (h *hints) remove(id *ID, number uint16) bool {
	s, b := h.of(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets == nil {
		return false
	}
	bucket := &s.buckets[b]
	for i := range bucket {
		if bucket[i].at.Known() && bucket[i].id == *id {
			if !bucket[i].at.remove(number) {
				return false
			}
			if !bucket[i].at.Known() { // close the gap
				copy(bucket[i:], bucket[i+1:])
				bucket[hintWays-1] = hint{}
			}
			return true
		}
	}
	return false
}

// len is how many blocks are remembered.
func (h *hints) len() (n int) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for b := range s.buckets {
			for w := range s.buckets[b] {
				if s.buckets[b][w].at.Known() {
					n++
				}
			}
		}
		s.mu.Unlock()
	}
	return n
}

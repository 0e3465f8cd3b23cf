package admit

import (
	"math/bits"
	"sync"

	"github.com/zeebo/xxh3"
)

const (
	// sightBits and sightHashes make a Bloom filter that is wrong for
	// (1 - e^(-8/12))^8 = 0.31 % of the keys it never saw, when it is full.
	sightBits   = 12
	sightHashes = 8
	// SightsFalseRate bounds the share of new keys that Sights takes for seen: two
	// filters are asked.
	SightsFalseRate = 0.0065
)

// Sights remembers which keys it was shown: the last capacity of them at least, twice
// as many at most, in 3 bytes each. It never forgets one sooner; of keys that it was
// never shown it takes SightsFalseRate for seen, at most. A fresh one knows nothing:
// it lives as long as the process.
type Sights struct {
	capacity int

	mu         sync.Mutex
	young, old []uint64 // Bloom filters; young becomes old when it is full
	added      int      // to young
}

// NewSights remembers capacity keys, at least 64.
func NewSights(capacity int) *Sights {
	capacity = max(capacity, 64)
	words := (capacity*sightBits + 63) / 64
	return &Sights{capacity: capacity, young: make([]uint64, words), old: make([]uint64, words)}
}

// MemoryBytes is what the filters take.
func (s *Sights) MemoryBytes() int64 { return int64(len(s.young)+len(s.old)) * 8 }

// Saw reports whether the key was shown before, and remembers it. seed tells the
// keys of namespaces and groups apart.
func (s *Sights) Saw(seed uint64, key []byte) bool {
	h := xxh3.Hash128Seed(key, seed)
	s.mu.Lock()
	defer s.mu.Unlock()
	inYoung, inOld := true, true
	at := h.Lo
	for range sightHashes {
		place, _ := bits.Mul64(at, uint64(len(s.young))*64) // uniform below the number of bits
		word, bit := place/64, uint64(1)<<(place%64)
		inYoung = inYoung && s.young[word]&bit != 0
		inOld = inOld && s.old[word]&bit != 0
		s.young[word] |= bit
		at += h.Hi | 1
	}
	if inYoung {
		return true
	}
	if s.added++; s.added == s.capacity {
		s.young, s.old = s.old, s.young
		clear(s.young)
		s.added = 0
	}
	return inOld
}

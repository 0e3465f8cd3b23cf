package load

import (
	"math/bits"
	"math/rand/v2"
)

// The streams of random numbers of one seed. Each decision has its own, so
// that other block sizes, say, leave the order of the offsets as it was.
const (
	streamKind = iota + 1
	streamOffset
	streamLength
	streamZone
	streamArrival
	streamMix
	streamScatter
	streamChat
)

func newRand(seed uint64, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix64(seed), mix64(stream)))
}

// mix64 is the finalizer of SplitMix64: a bijection on 64 bits in which every
// bit of x touches every bit of the answer.
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const shuffleRounds = 4

// shuffle is a random order of the numbers below n, without memory for it: a
// Feistel network over the next even power of two, walked until it answers a
// number below n, which takes fewer than four steps on average.
type shuffle struct {
	n        uint64
	halfBits int
	keys     [shuffleRounds]uint64
}

// newShuffle draws an order from rng. n is at least 1 and at most 2^62.
func newShuffle(n uint64, rng *rand.Rand) shuffle {
	s := shuffle{n: n, halfBits: max(1, (bits.Len64(n-1)+1)/2)}
	for i := range s.keys {
		s.keys[i] = rng.Uint64()
	}
	return s
}

// at is the i-th number of the order; i < n.
func (s *shuffle) at(i uint64) uint64 {
	mask := uint64(1)<<s.halfBits - 1
	for {
		left, right := i>>s.halfBits, i&mask
		for _, key := range s.keys {
			left, right = right, left^mix64(right^key)&mask
		}
		if i = left<<s.halfBits | right; i < s.n {
			return i
		}
	}
}

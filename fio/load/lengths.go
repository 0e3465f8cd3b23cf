package load

import (
	"math/rand/v2"

	"github.com/spillway-kv/spillway/fio/job"
)

// lengths draws block sizes of one direction.
type lengths struct {
	job.Blocks
	rng   *rand.Rand
	split []splitShare
}

// splitShare is a size that a draw below until gets.
type splitShare struct {
	until float64
	bytes int64
}

func newLengths(b job.Blocks, seed, direction uint64) *lengths {
	l := &lengths{Blocks: b, rng: newRand(seed, streamLength<<8|direction)}
	sum := 0.0
	for _, s := range b.Split {
		if s.Percent > 0 {
			sum += s.Percent
			l.split = append(l.split, splitShare{until: sum, bytes: s.Bytes})
		}
	}
	for i := range l.split {
		l.split[i].until /= sum
	}
	return l
}

func (l *lengths) fixed() bool { return l.MinBytes == l.MaxBytes }

// next draws a length of at most room bytes; 0 if none fits.
func (l *lengths) next(room int64) int64 {
	if room < l.MinBytes {
		return 0
	}
	if l.fixed() {
		return l.MinBytes
	}
	const attempts = 64
	for range attempts {
		if n := l.draw(); n <= room {
			return n
		}
	}
	return l.MinBytes
}

// draw follows fio: without a split sizes are uniform and rounded down to a
// multiple of the smallest.
func (l *lengths) draw() int64 {
	u := l.rng.Float64()
	if len(l.split) == 0 {
		n := l.MinBytes + int64(u*float64(l.MaxBytes))
		return min(n-n%l.MinBytes, l.MaxBytes)
	}
	for _, s := range l.split {
		if u < s.until {
			return s.bytes
		}
	}
	return l.split[len(l.split)-1].bytes
}

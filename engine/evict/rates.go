package evict

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

const (
	stages       = 4 // of depth: 0, 1..7, 8..31, 32 and more
	countClasses = 4 * stages
	lastClass    = countClasses
	partialClass = countClasses + 1
	classes      = countClasses + 2

	// ageBuckets are the ages told apart: the first a second wide, each later one
	// 1.4 times as wide, the last without an end, from 1,490 seconds on.
	ageBuckets  = 20
	bucketGrows = 1.4
	// ageTicksMax is an age within the last bucket, after which ticks are not told
	// apart any more.
	ageTicksMax = 8192
	// priorWeight is how many block seconds of experience the prior counts for.
	priorWeight = 4000
	// halfLifeTicks is after how long experience counts half: 73 minutes.
	halfLifeTicks = 1 << 14
	tickSeconds   = float64(1<<tickShift) / 1e9
)

// rates learn how likely a block of a class is to be used within the next second,
// by its age: the uses seen (events) over the seconds that blocks have spent at
// that age without a use (exposure), both with a prior. They know of every block
// from its first use until it is used again or neither block nor ghost is left.
//
// One rates serves all policies of a factory: what is learned is the store's.
type rates struct {
	now      uint32 // tick
	events   [classes][ageBuckets]float64
	exposure [classes][ageBuckets]float64
	rate     [classes][ageBuckets]float64 // of this tick
	at       [classes][ageBuckets]uint32  // blocks of that age now
	born     [classes][ageTicksMax]uint32
	bucketOf [ageTicksMax + 1]uint8
	bounds   [ageBuckets]uint32 // the age at which a bucket begins
	prior    [classes][ageBuckets]float64
}

// stageOf is how far down a chain a block lies.
func stageOf(depth uint32) word {
	switch {
	case depth == 0:
		return 0
	case depth < 8:
		return 1
	case depth < 32:
		return 2
	}
	return 3
}

func newRates() *rates {
	r := &rates{now: tickZero}
	low, width := 0.0, 1.0
	for b := range ageBuckets {
		r.bounds[b] = uint32(math.Ceil(low / tickSeconds))
		middle := low + width/2
		for c := range classes {
			uses := float64(c&int(referencesMask) + 1)
			r.prior[c][b] = 0.3 * uses / (middle + 30)
		}
		r.prior[lastClass][b] = 0.3 / (middle + 30)
		r.prior[partialClass][b] = 0.3 * 4 / (middle + 30) / 20
		low += width
		width *= bucketGrows
	}
	b := 0
	for age := range r.bucketOf {
		for b+1 < ageBuckets && age >= int(r.bounds[b+1]) {
			b++
		}
		r.bucketOf[age] = uint8(b)
	}
	r.estimate()
	return r
}

func (r *rates) bucket(age uint32) uint8 { return r.bucketOf[min(age, ageTicksMax)] }

// advance lets time pass up to a tick; the clock never goes back.
func (r *rates) advance(tick uint32) {
	if tick <= r.now {
		return
	}
	for steps := 0; r.now < tick && steps < ageTicksMax+1; steps++ {
		r.step()
	}
	if rest := tick - r.now; rest > 0 { // by now all are in the last bucket
		const last = ageBuckets - 1
		for c := range classes {
			r.exposure[c][last] += tickSeconds * float64(rest) * float64(r.at[c][last])
		}
		r.now = tick
	}
	r.estimate()
}

// step is one now: blocks have been exposed for it, and some grow into the next
// bucket.
func (r *rates) step() {
	for c := range classes {
		for b := range ageBuckets {
			r.exposure[c][b] += tickSeconds * float64(r.at[c][b])
		}
	}
	r.now++
	for c := range classes {
		for b := ageBuckets - 1; b > 0; b-- {
			n := r.born[c][(r.now-r.bounds[b])%ageTicksMax]
			r.at[c][b-1] -= n
			r.at[c][b] += n
		}
		r.born[c][r.now%ageTicksMax] = 0 // those of ageTicksMax ticks ago
	}
	if r.now%halfLifeTicks == 0 {
		for c := range classes {
			for b := range ageBuckets {
				r.events[c][b] /= 2
				r.exposure[c][b] /= 2
			}
		}
	}
}

func (r *rates) estimate() {
	for c := range classes {
		for b := range ageBuckets {
			r.rate[c][b] = (r.events[c][b] + priorWeight*r.prior[c][b]) / (r.exposure[c][b] + priorWeight)
		}
	}
}

// add begins to watch a block used at a tick that is not after now.
func (r *rates) add(class int, tick uint32) {
	age := r.now - tick
	r.at[class][r.bucket(age)]++
	if age < ageTicksMax {
		r.born[class][tick%ageTicksMax]++
	}
}

// drop ends to watch a block.
func (r *rates) drop(class int, tick uint32) {
	age := r.now - tick
	r.at[class][r.bucket(age)]--
	if age < ageTicksMax {
		r.born[class][tick%ageTicksMax]--
	}
}

// use is drop of a block that is used now.
func (r *rates) use(class int, tick uint32) {
	r.drop(class, tick)
	r.events[class][r.bucket(r.now-tick)]++
}

// What is learned, as bytes (docs/format/index.md, ages): magic 8, CRC-32C 4 of what
// follows, classes 1, buckets 1, zero 2, then per class and bucket events and
// exposure, each a float64, all little endian.
const (
	learnedMagic = "SPWYHAZ1"
	learnedBytes = 8 + 4 + 4 + classes*ageBuckets*16
)

var errLearned = errors.New("evict: what a hazard policy learned earlier is damaged or of another version")

func (r *rates) save() []byte {
	b := append(make([]byte, 0, learnedBytes), learnedMagic...)
	b = append(b, 0, 0, 0, 0, classes, ageBuckets, 0, 0)
	for c := range classes {
		for k := range ageBuckets {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.events[c][k]))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.exposure[c][k]))
		}
	}
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

func (r *rates) load(b []byte) error {
	if len(b) != learnedBytes || string(b[:8]) != learnedMagic || b[12] != classes || b[13] != ageBuckets ||
		binary.LittleEndian.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return errLearned
	}
	for i, at := 0, 16; i < classes*ageBuckets; i, at = i+1, at+16 {
		r.events[i/ageBuckets][i%ageBuckets] = math.Float64frombits(binary.LittleEndian.Uint64(b[at:]))
		r.exposure[i/ageBuckets][i%ageBuckets] = math.Float64frombits(binary.LittleEndian.Uint64(b[at+8:]))
	}
	r.estimate()
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

package load

import (
	"fmt"
	"math/rand/v2"

	"github.com/spillway-kv/spillway/fio/job"
)

// Endless, as an amount, has no end.
const Endless int64 = -1

// Pattern is fio's load on one range: sequential or random, reads, writes or
// both. Its ops have a place as well as a block: block b of a length lies at b
// times the alignment. They are due at once; Rated gives them times.
//
// All is decided by the seed: equal jobs, spaces and seeds give equal ops.
type Pattern struct {
	space       int64
	random      bool
	readPercent int
	kinds       *rand.Rand
	lengths     [2]*lengths
	align       [2]int64
	places      [2]places
	position    [2]int64 // the end of the newest op of a direction
	runOps      int      // operations from one random place on
	runLeft     int
	skip        int64
	bytesLeft   int64 // may fall below 0 with the last op
	opsLeft     int64
}

// NewPattern makes the pattern of a job on a range of spaceBytes, until
// totalBytes have been asked for, or Endless; a job's NumberIOs ends it too.
func NewPattern(j *job.Job, spaceBytes, totalBytes int64, seed uint64) (*Pattern, error) {
	p := &Pattern{
		space:       spaceBytes,
		random:      j.Random,
		readPercent: j.ReadPercent,
		kinds:       newRand(seed, streamKind),
		runOps:      max(1, j.SequentialRun),
		skip:        j.SequentialSkip,
		bytesLeft:   totalBytes,
		opsLeft:     j.NumberIOs,
	}
	switch {
	case !j.Writes:
		p.readPercent = 100
	case !j.Reads:
		p.readPercent = 0
	}
	if p.opsLeft <= 0 {
		p.opsLeft = Endless
	}
	for kind := range Kind(Kinds) {
		if !p.has(kind) {
			continue
		}
		b := j.Blocks[kind]
		if b.MinBytes <= 0 || b.MinBytes > spaceBytes {
			return nil, fmt.Errorf("%v of %d bytes do not fit a range of %d bytes: lower bs or raise size", kind, b.MinBytes, spaceBytes)
		}
		p.lengths[kind] = newLengths(b, seed, uint64(kind))
		p.align[kind] = b.MinBytes
		if p.random && b.AlignBytes > 0 {
			p.align[kind] = b.AlignBytes
		}
	}
	if p.random {
		p.setPlaces(j, seed)
	}
	return p, nil
}

// has tells whether ops of a kind come.
func (p *Pattern) has(kind Kind) bool {
	return kind == Read && p.readPercent > 0 || kind == Write && p.readPercent < 100
}

// setPlaces gives each direction its places. Directions with equal sizes share
// them, so that a pass visits each block once, be it read or written.
func (p *Pattern) setPlaces(j *job.Job, seed uint64) {
	for kind := range Kind(Kinds) {
		if !p.has(kind) {
			continue
		}
		l := p.lengths[kind]
		if kind == Write && p.has(Read) && sameSizes(l, p.lengths[Read]) {
			p.places[Write] = p.places[Read]
			continue
		}
		seed := seed + uint64(kind)<<32
		if j.Distribution.Shape == job.Uniform && !j.NoRandomMap && p.align[kind] == l.MinBytes {
			p.places[kind] = newEachOnce(p.space, l, seed)
			continue
		}
		n := uint64((p.space-l.MinBytes)/p.align[kind]) + 1
		p.places[kind] = &anyPlaces{space: p.space, align: p.align[kind], from: newDistribution(j.Distribution, n, seed)}
	}
}

func sameSizes(a, b *lengths) bool {
	return a.MinBytes == b.MinBytes && a.MaxBytes == b.MaxBytes && a.AlignBytes == b.AlignBytes && len(a.split) == len(b.split)
}

// Next answers an op that is due at once, or End.
func (p *Pattern) Next(_ int64, op *Op) Answer {
	if p.over() {
		return End
	}
	p.fill(op, p.drawKind())
	return Ready
}

// Done does nothing.
func (p *Pattern) Done(*Op, Outcome, int64) {}

func (p *Pattern) over() bool {
	return p.opsLeft == 0 || p.bytesLeft != Endless && p.bytesLeft <= 0
}

func (p *Pattern) drawKind() Kind {
	switch p.readPercent {
	case 0:
		return Write
	case 100:
		return Read
	}
	if p.kinds.IntN(100) < p.readPercent {
		return Read
	}
	return Write
}

// fill makes the next op of a kind.
func (p *Pattern) fill(op *Op, kind Kind) {
	offset, bytes := p.next(kind)
	p.position[kind] = offset + bytes
	if p.opsLeft > 0 {
		p.opsLeft--
	}
	if p.bytesLeft != Endless {
		p.bytesLeft = max(p.bytesLeft-bytes, 0)
	}
	*op = Op{Kind: kind, Bytes: int(bytes), Offset: offset, Block: uint64(offset / p.align[kind]), IntendedNS: AtOnce}
}

func (p *Pattern) next(kind Kind) (offset, bytes int64) {
	l := p.lengths[kind]
	if p.random {
		if p.runLeft--; p.runLeft > 0 {
			if bytes = l.next(p.space - p.position[kind]); bytes > 0 {
				return p.position[kind], bytes
			}
		}
		p.runLeft = p.runOps
		return p.places[kind].next(l)
	}
	offset = p.position[kind]
	if offset > 0 {
		offset += p.skip
	}
	if offset >= 0 {
		bytes = l.next(p.space - offset)
	}
	if bytes == 0 { // from the start again
		offset = 0
		bytes = l.next(p.space)
	}
	return offset, bytes
}

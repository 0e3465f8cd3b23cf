package load

import "math/rand/v2"

// places gives the places of random I/O.
type places interface {
	// next answers a place and a length that fits there.
	next(l *lengths) (offset, bytes int64)
}

// anyPlaces draws places that may come again.
type anyPlaces struct {
	space, align int64
	from         *distribution
}

func (p *anyPlaces) next(l *lengths) (offset, bytes int64) {
	offset = int64(p.from.next()) * p.align
	return offset, l.next(p.space - offset)
}

// eachOnce visits every unit of the space once, in random order, then starts a
// new order: fio's random map. If lengths are mixed a bit for each unit says
// what has been visited, and a length is cut where it would reach a visited unit.
type eachOnce struct {
	space, unit int64
	rng         *rand.Rand
	order       shuffle
	index       uint64
	visited     []uint64 // one bit a unit; nil if every length is one unit
}

func newEachOnce(space int64, l *lengths, seed uint64) *eachOnce {
	p := &eachOnce{space: space, unit: l.MinBytes, rng: newRand(seed, streamOffset)}
	units := uint64(space / p.unit)
	p.order = newShuffle(units, p.rng)
	if !l.fixed() {
		p.visited = make([]uint64, (units+63)/64)
	}
	return p
}

func (p *eachOnce) next(l *lengths) (offset, bytes int64) {
	for {
		if p.index == p.order.n {
			p.order, p.index = newShuffle(p.order.n, p.rng), 0
			clear(p.visited)
		}
		at := p.order.at(p.index)
		p.index++
		if p.visited == nil {
			return int64(at) * p.unit, p.unit
		}
		if !p.isVisited(at) {
			offset = int64(at) * p.unit
			return offset, p.visit(at, l.next(p.space-offset))
		}
	}
}

func (p *eachOnce) isVisited(unit uint64) bool { return p.visited[unit/64]>>(unit%64)&1 == 1 }

// visit marks the units of a length and answers how much of it was free.
func (p *eachOnce) visit(unit uint64, bytes int64) int64 {
	units := uint64((bytes + p.unit - 1) / p.unit)
	for i := range units {
		if unit+i >= p.order.n || p.isVisited(unit+i) {
			return min(bytes, int64(i)*p.unit)
		}
		p.visited[(unit+i)/64] |= 1 << ((unit + i) % 64)
	}
	return bytes
}

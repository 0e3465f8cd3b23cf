package load

import (
	"math"
	"math/rand/v2"

	"github.com/spillway-kv/spillway/fio/job"
)

// distribution draws places below n, as fio's random_distribution does. The
// hot places of zipf, pareto and normal are scattered over the space, as in
// fio; unlike fio, which scatters by a hash, no two ranks share a place.
type distribution struct {
	n       uint64
	shape   job.Shape
	rng     *rand.Rand
	scatter shuffle
	shift   uint64 // added to a scattered rank, modulo n

	zeta2, zetan, alpha, eta float64 // of zipf
	power                    float64 // of pareto
	spread                   uint64  // of normal
	zones                    []zone
}

// zone is a part of the space that gets accesses with a draw below until.
type zone struct {
	until      float64
	from, size uint64
}

func newDistribution(d job.Distribution, n, seed uint64) *distribution {
	g := &distribution{n: n, shape: d.Shape, rng: newRand(seed, streamOffset)}
	g.scatter = newShuffle(n, newRand(seed, streamScatter))
	if d.Center >= 0 { // rank 0 lies there
		center := min(uint64(d.Center*float64(n)), n-1)
		g.shift = (center + n - g.scatter.at(0)) % n
	}
	switch d.Shape {
	case job.Zipf:
		g.setZipf(d.Parameter)
	case job.Pareto:
		g.power = math.Log(d.Parameter) / math.Log(1-d.Parameter)
	case job.Normal:
		g.spread = min(uint64(math.Ceil(float64(n)*d.Parameter/100)), n/2)
	case job.Zoned:
		g.setZones(d.Zones)
	}
	return g
}

// setZipf prepares the generator of Gray et al., "Quickly Generating
// Billion-Record Synthetic Databases" (1994), which fio uses too.
func (g *distribution) setZipf(theta float64) {
	g.zeta2, g.alpha = 1+math.Pow(0.5, theta), 1/(1-theta)
	g.zetan = zeta(g.n, theta)
	g.eta = (1 - math.Pow(2/float64(g.n), 1-theta)) / (1 - g.zeta2/g.zetan)
}

// zeta is the sum of i^-theta for i from 1 to n: the first terms one by one,
// the others by the Euler-Maclaurin formula, whose error here is below 1e-9.
// fio stops at ten million terms.
func zeta(n uint64, theta float64) float64 {
	const direct = 1000
	sum := 0.0
	for i := uint64(1); i <= min(n, direct); i++ {
		sum += math.Pow(float64(i), -theta)
	}
	if n <= direct {
		return sum
	}
	a, b := float64(direct), float64(n)
	integral := (math.Pow(b, 1-theta) - math.Pow(a, 1-theta)) / (1 - theta)
	ends := (math.Pow(b, -theta) - math.Pow(a, -theta)) / 2
	slope := theta * (math.Pow(a, -theta-1) - math.Pow(b, -theta-1)) / 12
	return sum + integral + ends + slope
}

// setZones lays the zones one behind the other. What their shares of the space
// leave over at the end is never drawn.
func (g *distribution) setZones(zones []job.Zone) {
	accesses, space := 0.0, 0.0
	for _, z := range zones {
		from := uint64(float64(g.n) * space / 100)
		accesses, space = accesses+z.AccessPercent, space+z.SpacePercent
		to := min(uint64(float64(g.n)*space/100), g.n)
		if to > from && z.AccessPercent > 0 {
			g.zones = append(g.zones, zone{until: accesses / 100, from: from, size: to - from})
		}
	}
}

// next is the next place, below n.
func (g *distribution) next() uint64 {
	switch g.shape {
	case job.Zipf:
		return g.scattered(g.zipfRank())
	case job.Pareto:
		return g.scattered(uint64(float64(g.n-1) * math.Pow(g.rng.Float64(), g.power)))
	case job.Normal:
		return g.scattered(g.normalRank())
	case job.Zoned:
		return g.zoned()
	}
	return g.rng.Uint64N(g.n)
}

func (g *distribution) scattered(rank uint64) uint64 {
	return (g.scatter.at(rank) + g.shift) % g.n
}

func (g *distribution) zipfRank() uint64 {
	u := g.rng.Float64()
	z := u * g.zetan
	switch {
	case z < 1 || g.n == 1:
		return 0
	case z < g.zeta2 || g.n == 2:
		return 1
	}
	return min(uint64(float64(g.n)*math.Pow(g.eta*u-g.eta+1, g.alpha)), g.n-1)
}

// normalRank is the mean of twelve uniform draws, a normal distribution around
// n/2 with a deviation of n/12, plus a uniform one as wide as the parameter says:
// fio's meaning.
func (g *distribution) normalRank() uint64 {
	const draws = 12
	sum := uint64(0)
	for range draws {
		sum += g.rng.Uint64N(g.n)
	}
	rank := int64(sum / draws)
	if g.spread > 0 {
		rank += g.rng.Int64N(int64(g.spread)) - int64(g.spread/2)
	}
	return uint64(min(max(rank, 0), int64(g.n-1)))
}

func (g *distribution) zoned() uint64 {
	draw := g.rng.Float64()
	for _, z := range g.zones {
		if draw < z.until {
			return z.from + g.rng.Uint64N(z.size)
		}
	}
	return g.rng.Uint64N(g.n) // shares below 100 %: the rest goes anywhere
}

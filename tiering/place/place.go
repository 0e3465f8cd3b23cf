// Package place says where new blocks of a pool go: it cuts the new blocks of a put into
// runs, and finds the nodes that are a run's homes. It is pure: it knows no node's state
// but what it is given, keeps none, and does no I/O.
//
// Homes are found by weighted rendezvous: each node draws a number from the run's first ID,
// and the highest is its home, the next ones come in its place. So a node that comes or
// goes moves only what it wins or had won, and all who know the same nodes agree without a
// word. Who does not know the same nodes makes a duplicate at worst: where a block is, nodes
// ask, and do not compute.
package place

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// ID is the 128-bit name of a block, or of a node.
type ID = [16]byte

// CopiesMax bounds the copies of a block.
const CopiesMax = 3

// Node is one that may be a home.
type Node struct {
	ID     ID
	Zone   string  // nodes of one zone may fail together; may be empty
	Weight float64 // as Weight says; blocks come in proportion to it; none if it is 0 or less
}

// weightSteps is how many steps of free space a weight tells apart.
const weightSteps = 4

// Weight is what a node weighs that holds capacityBytes and can take freeBytes of them
// without evicting: in proportion to its capacity, and an empty one five times as much as a
// full one, for a pool that has been in use for a while is full, and one that has just
// joined has room. Free space counts in quarters of the capacity, so that a
// weight changes four times while a node fills up, and not with every put.
func Weight(capacityBytes, freeBytes int64) float64 {
	if capacityBytes <= 0 {
		return 0
	}
	free := math.Ceil(weightSteps * float64(min(max(freeBytes, 0), capacityBytes)) / float64(capacityBytes))
	return float64(capacityBytes) * (1 + free)
}

// Set is nodes among which runs find their homes. It does not change, and is free for any
// number of goroutines.
type Set struct {
	nodes []Node
	seeds []uint64
	equal bool // all weights are the same
}

// NewSet prepares nodes. It keeps the slice.
func NewSet(nodes []Node) *Set {
	s := &Set{nodes: nodes, seeds: make([]uint64, len(nodes)), equal: true}
	for i, n := range nodes {
		s.seeds[i] = mix(binary.LittleEndian.Uint64(n.ID[:8])) ^ binary.LittleEndian.Uint64(n.ID[8:])
		s.equal = s.equal && n.Weight == nodes[0].Weight
	}
	return s
}

// draw is what node i draws for an ID: the higher, the nearer it is to be the home. With u
// uniform in (0, 1), -w / ln u is the highest of all nodes' with a probability in
// proportion to w.
func (s *Set) draw(i int, id ID) float64 {
	w := s.nodes[i].Weight
	if w <= 0 {
		return 0
	}
	h := mix(s.seeds[i] ^ binary.LittleEndian.Uint64(id[:8]))
	h = mix(h ^ binary.LittleEndian.Uint64(id[8:]))
	u := (float64(h>>11) + 0.5) / (1 << 53)
	if s.equal {
		return u // in the same order, and cheaper
	}
	return -w / math.Log(u)
}

// Home is the index of the first home of a run that begins with this ID; -1 if no node
// may be one.
func (s *Set) Home(id ID) int {
	best, most := -1, 0.0
	for i := range s.nodes {
		if d := s.draw(i, id); d > most {
			best, most = i, d
		}
	}
	return best
}

// Order is the indices of all nodes that may be homes of a run that begins with this ID,
// best first. The first so many as there are to be copies are its homes: all on different
// nodes, and in different zones as far as there are so many; who comes behind them stands
// in for one that cannot be reached.
func (s *Set) Order(id ID, copies int) []int {
	order := make([]int, 0, len(s.nodes))
	draws := make([]float64, len(s.nodes))
	for i := range s.nodes {
		if draws[i] = s.draw(i, id); draws[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(draws[b], draws[a]), cmp.Compare(a, b)) })
	for at := 1; at < min(copies, len(order)); at++ {
		for next := at; next < len(order); next++ {
			if !s.zoned(order[:at], order[next]) {
				best := order[next]
				copy(order[at+1:next+1], order[at:next])
				order[at] = best
				break
			}
		}
	}
	return order
}

// zoned says whether one of the homes is in the node's zone.
func (s *Set) zoned(homes []int, node int) bool {
	return slices.ContainsFunc(homes, func(h int) bool { return s.nodes[h].Zone == s.nodes[node].Zone })
}

// mix scatters a number over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

package plan

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/spillway-kv/spillway/tiering/place"
)

// Placement is how the blocks of a pool find their nodes.
type Placement uint8

const (
	// PerBlock: each block by its own key.
	PerBlock Placement = iota
	// PerRun: the new blocks of a request together, in runs, by the first one's key. What
	// a pool does.
	PerRun
	// Local: on the node that the request came to: where its prefix is, if that is
	// more than a first block, else any.
	Local
)

// lostMinutes is how long after the loss hits are compared.
const lostMinutes = 1

// String is the placement's name for people.
func (p Placement) String() string { return [...]string{"per block", "per run", "local"}[p] }

// Placements are all there are.
func Placements() []Placement { return []Placement{PerBlock, PerRun, Local} }

// Lost is what a loss of nodes costs under a placement, in a pool that keeps every
// block otherwise.
type Lost struct {
	Placement   Placement
	Nodes, Lose int
	// Kept is the part of the prefix hits in the first minute after the loss, over the
	// hits without it; the mean over which nodes are lost, and over four times of
	// the trace.
	Kept float64
	// NodesPerRequest is how many nodes hold a request's prefix, on average over
	// requests with a hit.
	NodesPerRequest float64
	// Balance is the blocks of the fullest node over the mean.
	Balance float64
}

// Compare loses nodes of a pool under each placement: every node once, with those
// behind it.
func Compare(ctx context.Context, t *Trace, nodes, lose int) ([]Lost, error) {
	var all []Lost
	for _, p := range Placements() {
		l := Lost{Placement: p, Nodes: nodes, Lose: lose}
		home, hits, spread := homes(t, p, nodes)
		l.NodesPerRequest = ratio(spread, hits)
		counts := make([]int, nodes)
		for _, n := range home {
			counts[n]++
		}
		l.Balance = ratio(slices.Max(counts)*nodes, len(home))
		whole, kept := 0, 0
		for quarter := range int64(4) {
			fromMS := t.SpanMS() * (2*quarter + 1) / 8
			for node := range nodes {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				w, k := t.afterLoss(home, fromMS, node, lose, nodes)
				whole, kept = whole+w, kept+k
			}
		}
		l.Kept = ratio(kept, whole)
		all = append(all, l)
	}
	return all, nil
}

// homes gives each block its node as it first comes, with the code of the pool. hits and
// spread are requests with a hit, and the nodes that hold their prefixes.
func homes(t *Trace, p Placement, nodes int) (home []uint16, hits, spread int) {
	home = make([]uint16, t.Unique)
	known := make([]bool, t.Unique)
	seen := make([]bool, nodes)
	set := place.NewSet(equals(nodes))
	var fresh []int
	for r := range t.Requests() {
		chain := t.chain(r)
		prefix := 0
		for prefix < len(chain) && known[chain[prefix]] {
			prefix++
		}
		if prefix > 0 {
			hits++
			clear(seen)
			for _, b := range chain[:prefix] {
				if n := home[b]; !seen[n] {
					seen[n] = true
					spread++
				}
			}
		}
		fresh = fresh[:0]
		for i, b := range chain {
			if !known[b] {
				fresh = append(fresh, i)
				known[b] = true
			}
		}
		for _, part := range parts(p, fresh) {
			node := set.Home(idOf(chain[part[0]]))
			if p == Local && prefix > 1 { // the request goes where its prefix is; the first block is everybody's
				node = int(home[chain[prefix-1]])
			}
			for _, i := range part {
				home[chain[i]] = uint16(node)
			}
		}
	}
	return home, hits, spread
}

// parts cuts the new blocks of a request into what goes to one node each.
func parts(p Placement, fresh []int) [][]int {
	switch {
	case p == PerRun:
		return place.Runs(fresh)
	case p == Local && len(fresh) > 0:
		return [][]int{fresh}
	}
	each := make([][]int, 0, len(fresh))
	for i := range fresh { // per block, or nothing
		each = append(each, fresh[i:i+1])
	}
	return each
}

// equals are nodes of equal weight.
func equals(n int) []place.Node {
	all := make([]place.Node, n)
	for i := range all {
		binary.LittleEndian.PutUint64(all[i].ID[:], uint64(i+1))
		all[i].Weight = 1
	}
	return all
}

func isLost(node, lost, lose, nodes int) bool {
	return (node-lost+nodes)%nodes < lose
}

// afterLoss counts prefix hits in the first minute after nodes were lost, without and
// with the loss. Blocks put since then, anew or again, are on nodes that are left.
func (t *Trace) afterLoss(home []uint16, fromMS int64, node, lose, nodes int) (whole, kept int) {
	first, _ := slices.BinarySearchFunc(t.timesMS, t.timesMS[0]+fromMS, cmp.Compare[int64])
	known := make(map[uint32]bool)
	end := 0
	if first > 0 {
		end = t.ends[first-1]
	}
	since := map[uint32]bool{}
	for _, b := range t.Blocks[:end] {
		known[b] = true
	}
	for r := first; r < t.Requests() && t.timesMS[r] < t.timesMS[0]+fromMS+lostMinutes*minuteMS; r++ {
		chain := t.chain(r)
		here := true
		for _, b := range chain {
			if !known[b] && !since[b] {
				break
			}
			whole++
			if here = here && (since[b] || !isLost(int(home[b]), node, lose, nodes)); here {
				kept++
			}
		}
		for _, b := range chain {
			since[b] = true
		}
	}
	return whole, kept
}

package node

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/spillway-kv/spillway/engine"
)

// Hottest are the blocks of a namespace, by name or by the beginning of its ID, that
// are worth the most to it, the hottest first, at most so many. It reads the whole
// index of the namespace, beside what the stores do otherwise. engine.ErrNotFound if
// no store has the namespace.
func (n *Node) Hottest(nameOrID string, most int) ([]engine.Entry, error) {
	all, err := n.findNamespaces(nameOrID)
	if err != nil {
		return nil, err
	}
	return Hottest(all, most)
}

// Descriptor is the one a namespace was opened with, by name or by the beginning of its
// ID. engine.ErrNotFound if no store has it.
func (n *Node) Descriptor(nameOrID string) (engine.Descriptor, error) {
	all, err := n.findNamespaces(nameOrID)
	if err != nil {
		return engine.Descriptor{}, err
	}
	return all[0].Descriptor(), nil
}

// Hottest are the hottest blocks of one namespace over several stores. Blocks whose key
// is lost are left out.
func Hottest(all []*engine.Namespace, most int) ([]engine.Entry, error) {
	var kept coldest
	for _, ns := range all {
		err := ns.List(func(e engine.Entry) bool {
			switch {
			case len(e.Key.Bytes) == 0 || most <= 0:
			case len(kept) < most:
				heap.Push(&kept, e)
			case hotter(&e, &kept[0]) < 0:
				kept[0] = e
				heap.Fix(&kept, 0)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(kept, func(a, b engine.Entry) int { return hotter(&a, &b) })
	return kept, nil
}

// hotter compares what blocks are worth: below 0 if a is worth more. A parent is worth
// more than a child that is used as it is.
func hotter(a, b *engine.Entry) int {
	return cmp.Or(cmp.Compare(b.Importance, a.Importance), cmp.Compare(b.Uses, a.Uses), cmp.Compare(a.Idle, b.Idle),
		cmp.Compare(a.Depth, b.Depth), cmp.Compare(b.Position, a.Position))
}

// coldest has the coldest block first.
type coldest []engine.Entry

func (h coldest) Len() int           { return len(h) }
func (h coldest) Less(i, j int) bool { return hotter(&h[i], &h[j]) > 0 }
func (h coldest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *coldest) Push(x any)        { *h = append(*h, x.(engine.Entry)) }
func (h *coldest) Pop() any {
	e := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return e
}

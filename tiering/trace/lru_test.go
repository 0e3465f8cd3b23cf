package trace

import "container/list"

// lruHits is the share of references found by a tail-first LRU of this share
// of the unique ids: the whole chain is looked up before it is inserted.
func lruHits(requests []Request, unique int, share float64) float64 {
	capacity := max(2, int(share*float64(unique)))
	order, at := list.New(), map[uint64]*list.Element{}
	hits, refs := 0, 0
	for _, q := range requests {
		for _, id := range q.HashIDs {
			refs++
			if at[id] != nil {
				hits++
			}
		}
		for i := len(q.HashIDs) - 1; i >= 0; i-- {
			id := q.HashIDs[i]
			if e := at[id]; e != nil {
				order.MoveToFront(e)
				continue
			}
			if order.Len() == capacity {
				delete(at, order.Remove(order.Back()).(uint64))
			}
			at[id] = order.PushFront(id)
		}
	}
	return float64(hits) / float64(refs)
}

package history

import "github.com/spillway-kv/spillway/engine"

// namer makes the calls of one operation, by key or by ID. The model need not know: an
// ID that was taken before a drop is absent after it, as its block is.
type namer struct {
	ns   *engine.Namespace
	byID bool
}

func (c *client) namer(op *Op) namer { return namer{c.space(op), op.ByID} }

// incarnation is what a put by ID is guarded with; 0 by key.
func (n namer) incarnation() uint32 {
	if !n.byID {
		return 0
	}
	return n.ns.Incarnation()
}

func (n namer) match(keys []engine.Key, o engine.MatchOptions) (engine.MatchResult, error) {
	if !n.byID {
		return n.ns.Match(keys, o)
	}
	ids, _ := n.ns.IDs(keys)
	return n.ns.MatchIDs(ids, o)
}

func (n namer) get(items []engine.GetItem, o engine.GetOptions) error {
	if !n.byID {
		return n.ns.Get(items, o)
	}
	keys := make([]engine.Key, len(items))
	for i := range items {
		keys[i], items[i].Key = items[i].Key, engine.Key{}
	}
	ids, _ := n.ns.IDs(keys)
	return n.ns.GetIDs(ids, items, o)
}

func (n namer) touch(keys []engine.Key) (int, error) {
	if !n.byID {
		return n.ns.Touch(keys)
	}
	ids, _ := n.ns.IDs(keys)
	return n.ns.TouchIDs(ids)
}

func (n namer) delete(keys []engine.Key) (int, error) {
	if !n.byID {
		return n.ns.Delete(keys)
	}
	ids, incarnation := n.ns.IDs(keys)
	return n.ns.DeleteIDs(incarnation, ids)
}

func (n namer) drop() error {
	if !n.byID {
		return n.ns.Drop()
	}
	return n.ns.RaiseTo(n.ns.Incarnation() + 3)
}

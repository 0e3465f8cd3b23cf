package prefetch

import (
	"bytes"
	"time"

	"github.com/zeebo/xxh3"
)

// tree remembers keys by their chains.
type tree struct {
	blocksMax int
	nodes     map[nodeID]*node
	ends      chain             // of the list of chains: ends.younger is the oldest
	recent    map[stream]*chain // that a client has used last
}

// nodeID is a hash of namespace, group and key.
type nodeID struct{ hi, lo uint64 }

// stream is what one client does in one group.
type stream struct {
	reader       uint64
	space, group uint32
}

// node is one block.
type node struct {
	id       nodeID
	key      []byte
	depth    int32
	children int32
	parent   *node
	// next is the child that follows most often (by the majority vote of Boyer and
	// Moore); votes is how many more than others.
	next  *node
	votes int32
	chain *chain // that ends here; nil: none
	plan  *Plan  // of what follows; nil: none
}

// chain is one leaf of the tree and the way there.
type chain struct {
	tail         *node
	space, group uint32
	blockBytes   int

	last    time.Duration // it was used
	counted time.Duration // until when its waiting was counted
	turns   int           // how often it came back
	gap     time.Duration // before it came back last; 0: never
	reading bool          // has read something since it came back

	plan    *Plan         // to have it in memory; nil: none
	from    int           // depth of the first block of the plan
	upto    int           // depth of the first that was not asked for yet
	planned time.Duration // when it began

	older, younger *chain
	forgotten      bool
}

func newTree(blocksMax int) *tree {
	t := &tree{blocksMax: max(blocksMax, 1), nodes: map[nodeID]*node{}, recent: map[stream]*chain{}}
	t.ends.older, t.ends.younger = &t.ends, &t.ends
	return t
}

func idOf(space, group uint32, key []byte) nodeID {
	h := xxh3.Hash128Seed(key, uint64(space)<<32|uint64(group))
	return nodeID{h.Hi, h.Lo}
}

// follow finds the way that a request goes, making what is new of it, and the chain it
// belongs to: the one that it ends, or else the likeliest of those that go on from there.
// It answers nil for a request that is longer than what is remembered.
func (t *tree) follow(s *Seen) (first, last *node, c *chain) {
	if len(s.Keys) == 0 || len(s.Keys) > t.blocksMax {
		return nil, nil, nil
	}
	at := t.before(s)
	for i, key := range s.Keys {
		id := idOf(s.Space, s.Group, key)
		n := t.nodes[id]
		if n == nil {
			n = t.grow(s, at, id, key)
		}
		if at != nil && n.parent == at {
			at.vote(n)
		}
		if at = n; i == 0 {
			first = n
		}
	}
	c = at.chain
	for n := at; c == nil && n != nil; n = n.next { // towards a leaf
		c = n.chain
	}
	if c == nil {
		return first, at, nil
	}
	t.use(c)
	t.remember(stream{s.Reader, s.Space, s.Group}, c)
	t.shrink(c)
	return first, at, c
}

// before is the block that the first one of a request follows, if that is to be
// told: a client stores what it has computed behind the chain that it used last.
func (t *tree) before(s *Seen) *node {
	if s.Kind != Stored || s.Depth == 0 {
		return nil
	}
	c := t.recent[stream{s.Reader, s.Space, s.Group}]
	if c != nil && !c.forgotten && int(c.tail.depth) == s.Depth-1 {
		return c.tail
	}
	return nil
}

// grow adds a block behind another; at is nil for the first of a chain.
func (t *tree) grow(s *Seen, at *node, id nodeID, key []byte) *node {
	n := &node{id: id, key: bytes.Clone(key), parent: at} // of its own: the keys of a request may share memory
	if at == nil {
		if s.Kind == Stored {
			n.depth = int32(s.Depth)
		}
	} else {
		n.depth = at.depth + 1
		at.children++
	}
	t.nodes[id] = n
	if at != nil && at.chain != nil { // the chain goes on
		n.chain, at.chain = at.chain, nil
		n.chain.tail = n
		return n
	}
	c := &chain{tail: n, space: s.Space, group: s.Group, blockBytes: s.BlockBytes, last: s.Now, counted: s.Now}
	n.chain = c
	t.link(c)
	return n
}

// vote counts that a child has followed. A plan that expected another ends.
func (n *node) vote(child *node) {
	if n.plan != nil && n.next != child {
		n.plan.end()
		n.plan = nil
	}
	switch {
	case n.next == child:
		n.votes = min(n.votes+1, 1<<20)
	case n.votes > 0:
		n.votes--
	default:
		n.next, n.votes = child, 1
	}
}

// recentMax bounds the clients remembered.
const recentMax = 1 << 12

func (t *tree) remember(s stream, c *chain) {
	if len(t.recent) >= recentMax && t.recent[s] == nil {
		clear(t.recent)
	}
	t.recent[s] = c
}

// use makes a chain the youngest.
func (t *tree) use(c *chain) {
	t.unlink(c)
	t.link(c)
}

func (t *tree) link(c *chain) {
	c.older, c.younger = t.ends.older, &t.ends
	c.older.younger, t.ends.older = c, c
}

func (t *tree) unlink(c *chain) { c.older.younger, c.younger.older = c.younger, c.older }

// shrink forgets the oldest chains, but not one, until what is left is within the bound.
func (t *tree) shrink(but *chain) {
	for len(t.nodes) > t.blocksMax {
		c := t.ends.younger
		if c == but {
			c = c.younger
		}
		if c == &t.ends {
			return
		}
		t.forget(c)
	}
}

// forget drops a chain and the blocks that no other has.
func (t *tree) forget(c *chain) {
	t.unlink(c)
	c.plan.end()
	c.forgotten = true
	n := c.tail
	n.chain = nil
	for n != nil && n.children == 0 && n.chain == nil {
		n.plan.end()
		delete(t.nodes, n.id)
		parent := n.parent
		if parent != nil {
			parent.children--
			if parent.next == n {
				parent.next, parent.votes = nil, 0
			}
		}
		n = parent
	}
}

// keys are those of a chain from depth from on, up to to; the first may be deeper where
// the beginning is not known.
func (c *chain) keys(from, to int) (keys [][]byte, depth int) {
	n := c.tail
	for ; n != nil && int(n.depth) >= to; n = n.parent {
	}
	for ; n != nil && int(n.depth) >= from; n = n.parent {
		keys = append(keys, n.key)
		depth = int(n.depth)
	}
	for i, j := 0, len(keys)-1; i < j; i, j = i+1, j-1 {
		keys[i], keys[j] = keys[j], keys[i]
	}
	return keys, depth
}

// length is how many blocks a chain has from its root.
func (c *chain) length() int { return int(c.tail.depth) + 1 }

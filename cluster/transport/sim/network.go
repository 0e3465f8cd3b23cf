package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Config describes a Network. Zero values mean the defaults named here.
type Config struct {
	// Seed decides every random outcome.
	Seed uint64
	// Shape is that of every node without one of its own; see SetShape.
	Shape Shape
	// SilenceMax is how long a sender's bytes may be held before it gives the link up.
	// Default 10 s.
	SilenceMax time.Duration
	// BytesInFlightMax bounds the blocks of a node's calls; see package transport.
	// Default 64 MiB.
	BytesInFlightMax int64
	// Trace, if not nil, hears what happens to links. It must not call the Network.
	Trace func(format string, args ...any)
}

// Shape is how fast a node's network is, both ways.
type Shape struct {
	DelayMin, DelayMax time.Duration // of every message, one way, uniformly drawn
	BytesPerSecond     int64         // to one peer; 0: without bound
}

// Payload says what befalls the blocks that arrive: each number is a probability per block.
type Payload struct {
	Damaged   float64 // one byte is another
	Truncated float64 // half of it arrives, and the link breaks
}

// Counts are what a Network has carried and done since it was made.
type Counts struct {
	Dials, Refused     uint64 // links made, and links that were not
	Messages           uint64 // that arrived, blocks not counted
	Blocks, BlockBytes uint64 // that arrived whole
	Damaged, Truncated uint64 // of Payload
	Broken             uint64 // ends of links that broke or were closed
}

// Network carries what its nodes send. All methods may be called from many goroutines.
type Network struct {
	c Config

	mu      sync.Mutex
	rng     *rand.Rand
	nodes   map[string]*Node // by address; the latest of each
	shapes  map[string]Shape
	cut     map[[2]string]bool // from, to
	frozen  map[string]bool
	payload Payload
	busy    map[[2]string]time.Time // until then the way carries bytes sent before
	changed chan struct{}           // closed at the next change of what may pass
	counts  Counts
	closed  bool

	ending   chan struct{}  // closed with closed
	tellings sync.WaitGroup // ends of links on their way to peers
}

// New makes a network without nodes.
func New(c Config) *Network {
	if c.SilenceMax == 0 {
		c.SilenceMax = 10 * time.Second
	}
	if c.BytesInFlightMax == 0 {
		c.BytesInFlightMax = 64 << 20
	}
	return &Network{c: c, rng: rand.New(rand.NewPCG(c.Seed, 0x51e7)), nodes: map[string]*Node{}, shapes: map[string]Shape{},
		cut: map[[2]string]bool{}, frozen: map[string]bool{}, busy: map[[2]string]time.Time{},
		changed: make(chan struct{}), ending: make(chan struct{})}
}

// Close ends what is still on its way. Close all nodes before.
func (n *Network) Close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.ending)
	}
	n.mu.Unlock()
	n.tellings.Wait()
}

func (n *Network) trace(format string, args ...any) {
	if n.c.Trace != nil {
		n.c.Trace(format, args...)
	}
}

// change edits what may pass, and wakes who waits for it.
func (n *Network) change(edit func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	edit()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Cut holds what goes from one address to another: a partition of one way. Both ways
// are two Cuts.
func (n *Network) Cut(from, to string) {
	n.change(func() { n.cut[[2]string{from, to}] = true })
	n.trace("cut %s > %s", from, to)
}

// Heal ends a Cut.
func (n *Network) Heal(from, to string) {
	n.change(func() { delete(n.cut, [2]string{from, to}) })
	n.trace("heal %s > %s", from, to)
}

// Freeze holds all that goes from and to a node, as if its process were stopped. The
// node's own goroutines run on, and reach nobody.
func (n *Network) Freeze(address string) {
	n.change(func() { n.frozen[address] = true })
	n.trace("freeze %s", address)
}

// Thaw ends a Freeze.
func (n *Network) Thaw(address string) {
	n.change(func() { delete(n.frozen, address) })
	n.trace("thaw %s", address)
}

// HealAll ends all Cuts and Freezes, and takes Payload's faults and all Shapes away.
func (n *Network) HealAll() {
	n.change(func() {
		clear(n.cut)
		clear(n.frozen)
		clear(n.shapes)
		n.payload = Payload{}
	})
	n.trace("heal all")
}

// SetShape gives a node a speed of its own, for all that it sends and receives from now
// on; of two shapes on a way the slower counts.
func (n *Network) SetShape(address string, s Shape) {
	n.change(func() { n.shapes[address] = s })
	n.trace("shape %s %+v", address, s)
}

// SetPayload replaces the faults of blocks that arrive from now on.
func (n *Network) SetPayload(p Payload) {
	n.change(func() { n.payload = p })
	n.trace("payload %+v", p)
}

// Counts returns what happened so far.
func (n *Network) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

func (n *Network) count(add func(c *Counts)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	add(&n.counts)
}

// chance draws once.
func (n *Network) chance(p float64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.Float64() < p
}

// Kill ends a node as SIGKILL ends a process: its links break, it reaches nobody any
// more, and its address refuses. Close the dead node to wait for its handlers.
func (n *Network) Kill(address string) { n.die(address, killed) }

// Vanish ends a node as a power cut ends a machine: nobody is told, and its address
// answers nothing until another node has it.
func (n *Network) Vanish(address string) { n.die(address, vanished) }

func (n *Network) die(address string, how fate) {
	n.mu.Lock()
	d := n.nodes[address]
	if d == nil || d.fate != alive {
		n.mu.Unlock()
		return
	}
	d.fate = how
	delete(n.frozen, address)
	ends := d.endsLocked()
	n.mu.Unlock()
	n.change(func() {})
	n.trace("%s %s", how, address)
	for _, e := range ends {
		e.close(fmt.Errorf("the node was %s", how))
	}
}

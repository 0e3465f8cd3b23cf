package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Config describes a Network. Zero values mean the defaults named here.
type Config struct {
	// Seed decides every random outcome.
	Seed uint64
	// DelayMin and DelayMax are what packets take, one way, uniformly drawn (0).
	DelayMin, DelayMax time.Duration
	// BytesPerSecond is what each port sends; 0: without bound.
	BytesPerSecond int64
	// SettleMax is how long bytes may take into the receiver's memory after they have been
	// acknowledged (0). Only a receive that completes behind them proves that they are there.
	SettleMax time.Duration
	// DestroyMax is how long QueuePair.Destroy may take, which has its effect at its end (0).
	DestroyMax time.Duration
	// BurstPackets is how many packets land at one moment, at most (16).
	BurstPackets int
	// Trace, if not nil, hears of faults and of queue pairs that come and go. It must not
	// call the Network.
	Trace func(format string, args ...any)
}

// Counts are what a Network has done since it was made.
type Counts struct {
	Bursts, Bytes uint64 // that landed
	Orphans       uint64 // of those: landed when their sender was destroyed, dead or in error
	Immediates    uint64 // delivered
	Lost          uint64 // bursts and acknowledgements that did not arrive
	Refused       uint64 // writes that a receiver did not take
	Failed        uint64 // queue pairs that went into error
	Connected     uint64 // queue pairs
	Destroyed     uint64 // queue pairs, by Destroy
}

// Network connects machines. All methods may be called from many goroutines.
type Network struct {
	c Config

	mu       sync.Mutex
	rng      *rand.Rand
	machines map[string]*Machine
	ports    map[netip.Addr]*port
	cut      map[[2]string]bool // from, to
	breaks   float64
	changed  chan struct{} // closed at the next change of what may pass
	counts   Counts
	closed   bool

	ending  chan struct{} // closed with closed
	running sync.WaitGroup
}

// New makes a network without machines.
func New(c Config) *Network {
	if c.BurstPackets == 0 {
		c.BurstPackets = 16
	}
	return &Network{c: c, rng: rand.New(rand.NewPCG(c.Seed, 0x4d4a)), machines: map[string]*Machine{}, ports: map[netip.Addr]*port{},
		cut: map[[2]string]bool{}, changed: make(chan struct{}), ending: make(chan struct{})}
}

// Close stops what is still on its way, and waits for it. It ends every Wait, those on queue
// pairs that could not be destroyed among them.
func (n *Network) Close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.ending)
	}
	n.mu.Unlock()
	n.running.Wait()
}

// Counts returns what happened so far.
func (n *Network) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

func (n *Network) traceLocked(format string, args ...any) {
	if n.c.Trace != nil {
		n.c.Trace(format, args...)
	}
}

// change edits what may pass, and wakes who waits for it.
func (n *Network) change(edit func(), format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.traceLocked(format, args...)
	edit()
	close(n.changed)
	n.changed = make(chan struct{})
}

// of is a machine that must be there.
func (n *Network) of(name string) *Machine {
	m := n.machines[name]
	if m == nil {
		panic(fmt.Sprintf("no machine %q in this network", name))
	}
	return m
}

// Cut loses what goes from one machine to another. Both ways are two Cuts.
func (n *Network) Cut(from, to string) {
	n.change(func() { n.cut[[2]string{from, to}] = true }, "cut %s > %s", from, to)
}

// Heal ends a Cut.
func (n *Network) Heal(from, to string) {
	n.change(func() { delete(n.cut, [2]string{from, to}) }, "heal %s > %s", from, to)
}

// Stop stops the process on a machine: what it posts waits, and completions do.
// Its device goes on. Destroy and Deregister have their effect all the same.
func (n *Network) Stop(name string) {
	n.change(func() { n.of(name).stopped = true }, "stop %s", name)
}

// Continue ends a Stop.
func (n *Network) Continue(name string) {
	n.change(func() { n.of(name).continueLocked() }, "continue %s", name)
}

// Freeze stops a machine with its devices, and its process.
func (n *Network) Freeze(name string) {
	n.change(func() { m := n.of(name); m.frozen, m.stopped = true, true }, "freeze %s", name)
}

// Thaw ends a Freeze.
func (n *Network) Thaw(name string) {
	n.change(func() { m := n.of(name); m.frozen = false; m.continueLocked() }, "thaw %s", name)
}

// SetPort takes a port down, or up again. What a port that is down was to send fails after
// a while, for good.
func (n *Network) SetPort(machine, name string, up bool) {
	n.change(func() {
		p := n.of(machine).port(name)
		if p == nil {
			panic(fmt.Sprintf("machine %s has no port %s", machine, name))
		}
		p.info.Active, p.info.State = up, "down"
		if up {
			p.info.State = "active"
		}
	}, "port %s of %s: up %v", name, machine, up)
}

// SetBreaks gives every burst a probability of failing its queue pair, though nobody died.
func (n *Network) SetBreaks(p float64) {
	n.change(func() { n.breaks = p }, "breaks %v", p)
}

// FailDevice fails all queue pairs of a machine's device, as a fault of it does. New
// ones work.
func (n *Network) FailDevice(machine, device string) {
	n.change(func() { n.of(machine).failDeviceLocked(device) }, "device %s of %s fails", device, machine)
}

// SetDestroyFails makes Destroy on a machine fail, and be no fence.
func (n *Network) SetDestroyFails(machine string, fails bool) {
	n.change(func() { n.of(machine).destroyFails = fails }, "destroy fails on %s: %v", machine, fails)
}

// HealAll ends all Cuts, Stops and Freezes, brings all ports up, and takes other faults away.
func (n *Network) HealAll() {
	n.change(func() {
		clear(n.cut)
		n.breaks = 0
		for _, m := range n.machines {
			m.frozen, m.destroyFails = false, false
			m.continueLocked()
			for _, p := range m.ports {
				p.info.Active, p.info.State = true, "active"
			}
		}
	}, "heal all")
}

// Kill ends the process on a machine: its queue pairs and regions are gone. Machine starts
// another one there.
func (n *Network) Kill(name string) {
	n.change(func() {
		m := n.of(name)
		m.dead, m.stopped, m.frozen = true, false, false
		for _, p := range m.ports {
			for _, d := range p.devices {
				d.killLocked()
			}
		}
	}, "kill %s", name)
}

// delay draws how long packets take.
func (n *Network) delay(rng *rand.Rand) time.Duration {
	d := n.c.DelayMin
	if n.c.DelayMax > d {
		d += time.Duration(rng.Int64N(int64(n.c.DelayMax - d)))
	}
	return d
}

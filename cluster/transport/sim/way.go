package sim

import (
	"context"
	"errors"
	"time"
)

// errSilent says that a sender's bytes were held for too long.
var errSilent = errors.New("the peer has been silent for too long")

// errReset says that somebody else answers at the peer's address.
var errReset = errors.New("the peer was started again")

// carry takes the time of nBytes from one node to another, holds them while they cannot
// pass, and returns nil when they have arrived. It gives up when a context ends, with its
// cause, or when they were held for too long.
func (n *Network) carry(from, to *Node, nBytes int, give ...context.Context) error {
	if err := sleep(n.delay(from.address, to.address, nBytes), give); err != nil {
		return err
	}
	silence := time.NewTimer(n.c.SilenceMax)
	defer silence.Stop()
	for was := free; ; {
		n.mu.Lock()
		is := n.passageLocked(from, to)
		changed := n.changed
		n.mu.Unlock()
		switch {
		case is == never:
			return errReset
		case is == free && was == free:
			return nil
		case is == free: // what was held does not arrive all at one moment
			was = free
			if err := sleep(n.delay(from.address, to.address, 0), give); err != nil {
				return err
			}
			continue
		case is == asleep || was != stuck: // the kernel of a stopped process takes bytes in
			silence.Reset(n.c.SilenceMax)
		}
		was = is
		if err := n.held(changed, silence.C, is == stuck, give); err != nil {
			return err
		}
	}
}

// held waits for a change of what may pass, or for the end of patience.
func (n *Network) held(changed <-chan struct{}, silent <-chan time.Time, impatient bool, give []context.Context) error {
	one, other := twoOf(give)
	if !impatient {
		silent = nil
	}
	select {
	case <-changed:
		return nil
	case <-silent:
		return errSilent
	case <-n.ending:
		return errSilent
	case <-one.Done():
		return context.Cause(one)
	case <-other.Done():
		return context.Cause(other)
	}
}

// twoOf are the contexts of a wait: two at most.
func twoOf(give []context.Context) (one, other context.Context) {
	one, other = context.Background(), context.Background()
	if len(give) > 0 {
		one = give[0]
	}
	if len(give) > 1 {
		other = give[1]
	}
	return one, other
}

func sleep(d time.Duration, give []context.Context) error {
	one, other := twoOf(give)
	for _, c := range give {
		if c.Err() != nil {
			return context.Cause(c)
		}
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-one.Done():
		return context.Cause(one)
	case <-other.Done():
		return context.Cause(other)
	}
}

// passage says whether bytes can pass.
type passage uint8

const (
	free   passage = iota
	asleep         // they wait for a process that is stopped
	stuck          // nobody takes them in
	never          // the peer is gone, and so is the link
)

func (n *Network) passageLocked(from, to *Node) passage {
	a, b := from.address, to.address
	switch {
	case from.fate == killed || from.fate == vanished:
		return never
	case n.cut[[2]string{a, b}]:
		return stuck
	case n.frozen[a] || n.frozen[b]:
		return asleep
	case to.fate != vanished: // the end of a dead process's links is on its way
		return free
	case n.nodes[b] != to && n.nodes[b].fate == alive:
		return never
	}
	return stuck
}

// delay draws how long nBytes take from one address to another.
func (n *Network) delay(from, to string, nBytes int) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.shapeLocked(from).slower(n.shapeLocked(to))
	d := s.DelayMin
	if s.DelayMax > s.DelayMin {
		d += time.Duration(n.rng.Int64N(int64(s.DelayMax - s.DelayMin)))
	}
	if s.BytesPerSecond == 0 || nBytes == 0 {
		return d
	}
	way, now := [2]string{from, to}, time.Now()
	until := n.busy[way]
	if until.Before(now) {
		until = now
	}
	until = until.Add(time.Duration(float64(nBytes) / float64(s.BytesPerSecond) * float64(time.Second)))
	n.busy[way] = until
	return d + until.Sub(now)
}

func (n *Network) shapeLocked(address string) Shape {
	if s, own := n.shapes[address]; own {
		return s
	}
	return n.c.Shape
}

// slower is what two nodes have in common.
func (s Shape) slower(o Shape) Shape {
	out := Shape{max(s.DelayMin, o.DelayMin), max(s.DelayMax, o.DelayMax), min(s.BytesPerSecond, o.BytesPerSecond)}
	if out.BytesPerSecond == 0 {
		out.BytesPerSecond = max(s.BytesPerSecond, o.BytesPerSecond)
	}
	return out
}

package member

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// Each way on which a member must be reachable is tested after it has joined, and from time
// to time, so that status can name the one that fails: traffic that goes nowhere looks like
// a slow pool otherwise.

// Bounds of tests.
const (
	probesAtOnce = 4 // and begun in one tick: a node that joins many does not flood them
	udpTries     = 3
)

// legRecord is the latest test of a leg.
type legRecord struct {
	at  time.Time
	rtt time.Duration
	err string
}

// schedule says when something is tried next.
type schedule struct {
	next  time.Time // zero: now
	fails int
	busy  bool
}

func (s *schedule) due() bool { return !s.busy && time.Until(s.next) <= 0 }

// again plans the next try: after good, or after first doubled with each failure up to most.
func (s *schedule) again(failed bool, first, most, good time.Duration) {
	s.busy = false
	pause := good
	if failed {
		pause = min(first<<min(s.fails, 16), most)
		s.fails++
	} else {
		s.fails = 0
	}
	s.next = time.Now().Add(pause - pause/4 + rand.N(pause/2+1)) // so that nodes do not go in step
}

// probeLoop has legs tested that are due.
func (g *Gossip) probeLoop() {
	tick := time.NewTicker(max(g.t.legRetry/8, time.Millisecond))
	defer tick.Stop()
	room := make(chan struct{}, probesAtOnce)
	var probes sync.WaitGroup
	defer probes.Wait()
	for {
		select {
		case <-tick.C:
		case <-g.ctx.Done():
			return
		}
		for _, r := range g.dueProbes(cap(room) - len(room)) {
			room <- struct{}{}
			probes.Go(func() {
				g.probe(r.m, r.at)
				<-room
			})
		}
	}
}

// dueProbes are copies of at most n members whose legs are to be tested now.
func (g *Gossip) dueProbes(n int) (due []record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused != nil {
		return nil
	}
	for _, r := range g.live {
		if len(due) < n && !r.over && r.probe.due() {
			r.probe.busy = true
			due = append(due, record{m: r.m, at: r.at})
		}
	}
	return due
}

// probe tests all legs of a member.
func (g *Gossip) probe(m Member, at netip.AddrPort) {
	tests := map[Leg]func() (time.Duration, error){
		LegUDP:  func() (time.Duration, error) { return g.probeUDP(m.Name, at) },
		LegTCP:  func() (time.Duration, error) { return g.probeTCP(m, at) },
		LegData: func() (time.Duration, error) { return probeData(g.ctx, m.Address, g.t.answerTimeout) },
	}
	failed := map[Leg]bool{}
	var mu sync.Mutex
	var done sync.WaitGroup
	for leg, test := range tests {
		done.Go(func() {
			rtt, err := test()
			if g.ctx.Err() != nil {
				return
			}
			if err == nil {
				g.tellLeg(m.Name, leg, "")
				g.answered(m.Name, leg, rtt)
				return
			}
			mu.Lock()
			failed[leg] = true
			mu.Unlock()
			target := at.String()
			if leg == LegData {
				target = m.Address
			}
			g.failedLeg(m, leg, fmt.Sprintf("%s probe failing to %s (%s): %s", leg, m.Name, target, plain(err)))
		})
	}
	done.Wait()
	if failed[LegUDP] && !failed[LegTCP] && g.ctx.Err() == nil {
		_ = g.join(at) // news do not come by gossip: exchange them over TCP; the next test tries again
	}
	g.mu.Lock()
	if r := g.live[m.Name]; r != nil && r.m.ID == m.ID {
		most := g.t.legInterval
		if r.health == Suspect {
			most = g.t.legRetry
		}
		r.probe.again(len(failed) > 0, g.t.legRetry, most, g.t.legInterval)
	}
	g.mu.Unlock()
	poke(g.hurry) // somebody may have been reached for the first time
}

func (g *Gossip) failedLeg(m Member, leg Leg, text string) {
	g.tellLeg(m.Name, leg, text)
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.live[m.Name]; r != nil && r.m.ID == m.ID && r.legs != nil {
		r.legs[leg] = &legRecord{at: time.Now(), err: text}
	}
}

// tellLeg writes into the journal that a leg has begun to fail, or to work again.
func (g *Gossip) tellLeg(name string, leg Leg, text string) {
	g.mu.Lock()
	was := ""
	r := g.live[name]
	if r != nil && r.legs[leg] != nil {
		was = r.legs[leg].err
	}
	g.mu.Unlock()
	switch {
	case r == nil || (was == "") == (text == ""):
	case text != "":
		g.o.Journal.Add(journal.Leg, name, "%s", text)
	default:
		g.o.Journal.Add(journal.Mended, name, "%s probe works again", leg)
	}
}

// probeUDP sends a probe of the library's; the answer comes over UDP to this node's
// advertised address.
func (g *Gossip) probeUDP(name string, at netip.AddrPort) (rtt time.Duration, err error) {
	for range udpTries {
		if rtt, err = g.list.Ping(name, net.UDPAddrFromAddrPort(at)); err == nil || g.ctx.Err() != nil {
			return rtt, err
		}
	}
	return 0, errNoAnswer
}

// probeTCP asks the node who it is.
func (g *Gossip) probeTCP(m Member, at netip.AddrPort) (time.Duration, error) {
	start := time.Now()
	answer, sent, err := g.ask(g.ctx, at)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case errors.Is(err, errNoAnswer) && sent:
		if g.sentOnly.IsZero() {
			g.sentOnly = time.Now()
		}
		return 0, fmt.Errorf("it takes questions, but no answer comes back to this node at %s", g.advertise)
	case err != nil:
		return 0, err
	}
	g.reached, g.sentOnly = true, time.Time{}
	if answer.life.id != m.ID {
		return 0, fmt.Errorf("another node, %s, answers there", answer.life.id)
	}
	return time.Since(start), nil
}

// probeData connects to where data connections are taken, and says nothing.
func probeData(ctx context.Context, address string, timeout time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	return time.Since(start), c.Close()
}

// plain is what went wrong without the addresses around it, which stand beside it.
func plain(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Timeout() {
			return errNoAnswer.Error()
		}
		return op.Err.Error()
	}
	return strings.TrimSpace(err.Error())
}

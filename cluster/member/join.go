package member

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// Seeds and lost members are tried for ever, each with its own pause, so that a node finds
// the pool whenever both are there, and two halves of a pool each other after whatever kept
// them apart: the gossip library itself forgets the dead.

// Bounds of joining.
const (
	joinsAtOnce = 8
	searchOnce  = 4  // lost members tried in one round
	agreeOnce   = 16 // members asked again while this node's name is contested
)

// seed is one that was configured.
type seed struct {
	text    string
	address Address

	// Guarded by Gossip.mu.
	schedule  schedule
	addresses []netip.AddrPort
	member    bool
	attempts  int64
	err       string
}

// joinLoop is the only one that joins.
func (g *Gossip) joinLoop() {
	tick := time.NewTicker(max(g.t.joinRetry/2, time.Millisecond))
	defer tick.Stop()
	for {
		g.joinRound()
		select {
		case <-tick.C:
		case <-g.hurry:
		case <-g.ctx.Done():
			return
		}
	}
}

// joinRound begins what is due. A seed that hangs holds up nobody else.
func (g *Gossip) joinRound() {
	g.removeDoomed()
	g.mu.Lock()
	g.expireLocked()
	seeds, lost := g.dueLocked()
	over := g.refused != nil
	g.mu.Unlock()
	if over {
		return
	}
	for _, s := range seeds {
		g.spawn(func() { g.trySeed(s) })
	}
	for _, r := range lost {
		g.spawn(func() { g.tryLost(r) })
	}
	g.agree()
	g.establish()
}

// dueLocked are the seeds and copies of the lost members to try now.
func (g *Gossip) dueLocked() (seeds []*seed, lost []record) {
	for _, s := range g.seeds {
		if s.schedule.due() {
			s.schedule.busy = true
			seeds = append(seeds, s)
		}
	}
	for _, r := range g.gone {
		if r.health == Failed && r.search.due() {
			lost = append(lost, *r)
		}
	}
	slices.SortFunc(lost, func(a, b record) int {
		return cmp.Or(a.search.next.Compare(b.search.next), slices.Compare(a.m.ID[:], b.m.ID[:]))
	})
	lost = lost[:min(len(lost), searchOnce)]
	for _, r := range lost {
		g.gone[r.m.ID].search.busy = true
	}
	return seeds, lost
}

// isMember reports whether a live, answering member or this node gossips at the address.
func (g *Gossip) isMember(at netip.AddrPort) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at == g.advertise {
		return true
	}
	for _, r := range g.live {
		if r.at == at && r.health == Alive {
			return true
		}
	}
	return false
}

// join exchanges everything with whoever is at the address.
func (g *Gossip) join(at netip.AddrPort) error {
	g.room <- struct{}{}
	defer func() { <-g.room }()
	g.mu.Lock()
	if g.leaving || g.ctx.Err() != nil {
		g.mu.Unlock()
		return context.Canceled
	}
	g.joins.Add(1)
	g.mu.Unlock()
	defer g.joins.Done()
	_, err := g.list.Join([]string{at.String()})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counters.Joins++
	if err != nil {
		g.counters.JoinsFailed++
		return explainJoin(at, err)
	}
	return nil
}

// endJoins begins no more joins, and waits for those under way while ctx lasts: whoever has
// heard of this node is to hear its farewell.
func (g *Gossip) endJoins(ctx context.Context) {
	g.mu.Lock()
	g.leaving = true
	g.mu.Unlock()
	done := make(chan struct{})
	if !g.spawn(func() { g.joins.Wait(); close(done) }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewellTime/2)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// closedByPeer is how the end of a connection by the other side reads: it had not read all,
// or the answer is missing.
var closedByPeer = regexp.MustCompile(`EOF|connection reset by peer|broken pipe`)

// explainJoin says what the library's error means.
func explainJoin(at netip.AddrPort, err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, undecryptable), strings.Contains(text, "encryption is not configured"), strings.Contains(text, "is not encrypted"):
		return fmt.Errorf("%s: key mismatch: the two nodes have no gossip key in common that both may use", at)
	case !strings.Contains(text, "dial ") && closedByPeer.MatchString(text):
		return fmt.Errorf("%s closes the connection: it is of another pool, or no port of gossip", at)
	}
	if i := strings.LastIndex(text, "failed to join "); i >= 0 {
		text = strings.TrimSpace(text[i+len("failed to join "):])
	}
	return fmt.Errorf("%s", text)
}

// trySeed looks a seed up and joins through each of its addresses that is no member.
func (g *Gossip) trySeed(s *seed) {
	addresses, err := resolve(g.ctx, g.o.Resolver, s.address)
	member := err == nil
	if len(addresses) > 0 {
		g.mu.Lock()
		s.addresses = addresses
		g.mu.Unlock()
	}
	var mu sync.Mutex
	var tries sync.WaitGroup
	for _, at := range addresses {
		if g.isMember(at) {
			continue
		}
		tries.Go(func() {
			e := g.join(at)
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				member, err = false, e
			}
		})
	}
	tries.Wait()
	if g.tried(s, member, err) == lonelyAttempts && err != nil && g.others.Load() == 0 {
		g.o.Journal.Add(journal.Trouble, "", "this node is alone so far, seed %s is tried on: %v", s.text, err)
	}
}

// lonelyAttempts is how often a seed is tried before a node that is alone says why.
const lonelyAttempts = 3

// tried takes in how an attempt at a seed ended, and returns how many there were.
func (g *Gossip) tried(s *seed, member bool, err error) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.attempts++
	s.err = ""
	if err != nil {
		s.err = err.Error()
	}
	s.member = member
	s.schedule.again(err != nil, g.t.joinRetry, g.t.joinRetryMax, g.t.joinRetryMax)
	poke(g.hurry)
	return s.attempts
}

// tryLost looks for a lost member where it was.
func (g *Gossip) tryLost(lost record) {
	failed := false
	if !g.isMember(lost.at) { // else its address is another's now
		failed = g.join(lost.at) != nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.gone[lost.m.ID]; r != nil {
		r.search.again(failed, g.t.joinRetry, g.t.joinRetryMax, g.t.joinRetryMax)
	}
}

// agree has the others take this node's address in, while its name or ID still stands with
// another one: they do so once they have found the old address dead. It is beyond doubt
// when none of them objects.
func (g *Gossip) agree() {
	g.mu.Lock()
	if !g.contested || time.Until(g.agreeNext) > 0 {
		g.mu.Unlock()
		return
	}
	g.agreeNext = time.Now().Add(g.t.joinRetry)
	var with []netip.AddrPort
	for _, r := range g.live {
		if !r.over {
			with = append(with, r.at)
		}
	}
	if len(with) > 0 {
		g.contested = false // a join that meets an objection contests it once more
	}
	g.mu.Unlock()
	rand.Shuffle(len(with), func(i, j int) { with[i], with[j] = with[j], with[i] })
	var failed atomic.Bool
	var tries sync.WaitGroup
	for _, at := range with[:min(len(with), agreeOnce)] {
		tries.Go(func() {
			if g.join(at) != nil {
				failed.Store(true)
			}
		})
	}
	tries.Wait()
	if failed.Load() { // who did not answer did not agree
		g.mu.Lock()
		g.contested = true
		g.mu.Unlock()
	}
}

package member

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// A question over TCP: who is at this address? The answer comes over TCP, too, to the
// address that the asking node advertises. So it proves both ways, and tells two nodes of
// one name or ID apart from one that has moved.

// Bounds of questions.
const (
	disputesMax = 16 // addresses to ask for this node's name or ID
	answersMax  = 16 // answers under way
)

var (
	errNoAnswer = errors.New("no answer")
	errSelf     = errors.New("this node itself answers there")
)

func nodeAt(name string, at netip.AddrPort) *memberlist.Node {
	return &memberlist.Node{Name: name, Addr: at.Addr().AsSlice(), Port: at.Port()}
}

// selfWho is this node in a question or an answer.
func (g *Gossip) selfWho() who {
	g.mu.Lock()
	defer g.mu.Unlock()
	return who{life{g.o.Identity.ID, g.o.Identity.Start}, g.standing}
}

// ask asks who is at an address. sent says whether the question arrived; an error without
// it is that of the way there.
func (g *Gossip) ask(ctx context.Context, at netip.AddrPort) (answer who, sent bool, err error) {
	nonce, c := rand.Uint64(), make(chan ask, 1)
	g.mu.Lock()
	g.pending[nonce] = c
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.pending, nonce)
		g.mu.Unlock()
	}()
	q := ask{nonce: nonce, from: g.selfWho(), reply: g.advertise}
	if err := g.list.SendReliable(nodeAt("", at), appendAsk(nil, kindAsk, &q)); err != nil {
		return who{}, false, err
	}
	timeout := time.NewTimer(g.t.answerTimeout)
	defer timeout.Stop()
	select {
	case a := <-c:
		if a.reply.IsValid() {
			return who{}, true, errSelf
		}
		return a.from, true, nil
	case <-timeout.C:
		return who{}, true, errNoAnswer
	case <-ctx.Done():
		return who{}, true, ctx.Err()
	}
}

// take takes a message of ours from another node. It waits for nobody.
func (g *Gossip) take(b []byte) {
	var err error
	switch kindOf(b) {
	case kindAsk:
		var q ask
		if q, err = decodeAsk(b, kindAsk); err == nil && !g.deliver(q) {
			g.answer(q)
		}
	case kindAnswer:
		var a ask
		if a, err = decodeAsk(b, kindAnswer); err == nil {
			g.deliver(a)
		}
	case kindOver:
		var list []over
		list, err = decodeOvers(b)
		for _, o := range list {
			g.hearOver(o)
		}
	default: // of a later version
	}
	if err != nil {
		g.turnedAwayAs(RefusedMalformed, "a member", err.Error())
	}
}

// deliver gives an answer, or this node's own question that came back to it, to whoever
// waits for it; false: nobody does.
func (g *Gossip) deliver(a ask) bool {
	g.mu.Lock()
	c := g.pending[a.nonce]
	delete(g.pending, a.nonce)
	g.mu.Unlock()
	if c != nil {
		c <- a // there is room for one
	}
	return c != nil
}

// answer answers a question from a goroutine of its own, if not too many are under way.
func (g *Gossip) answer(q ask) {
	select {
	case g.answers <- struct{}{}:
	default:
		g.mu.Lock()
		g.counters.ProbesDropped++
		g.mu.Unlock()
		return
	}
	a := ask{nonce: q.nonce, from: g.selfWho()}
	if !g.spawn(func() {
		defer func() { <-g.answers }()
		_ = g.list.SendReliable(nodeAt("", q.reply), appendAsk(nil, kindAnswer, &a)) // the other side finds out
	}) {
		<-g.answers
	}
}

// spawn runs f in a goroutine that Close waits for; false: Close has begun.
func (g *Gossip) spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.loops.Go(f)
	return true
}

// dispute is an address at which somebody has this node's name or ID.
type dispute struct {
	what string
	at   netip.AddrPort
}

// dispute has it settled who the address belongs to.
func (g *Gossip) dispute(d dispute) {
	if d.at == g.advertise || !d.at.IsValid() {
		return
	}
	g.mu.Lock()
	g.contested = true
	if !g.disputed[d.at] {
		select {
		case g.disputes <- d:
			g.disputed[d.at] = true
		default: // others are being settled; this one comes back
		}
	}
	g.mu.Unlock()
	poke(g.hurry)
}

// settleLoop settles disputes, one after the other.
func (g *Gossip) settleLoop() {
	for {
		select {
		case d := <-g.disputes:
			g.settle(d)
			g.mu.Lock()
			delete(g.disputed, d.at)
			g.mu.Unlock()
			poke(g.hurry)
		case <-g.ctx.Done():
			return
		}
	}
}

// settle asks who lives there. Nobody: this node has moved, and the others will see that
// the old address is dead. Another live one: the newer of the two must stop.
func (g *Gossip) settle(d dispute) {
	other, _, err := g.ask(g.ctx, d.at)
	if err != nil {
		g.log.Info("somebody had this node's "+d.what+" and does not answer", "address", d.at, "err", err)
		return
	}
	own := g.selfWho()
	if newer(own, g.advertise, other, d.at) {
		g.refuse(fmt.Errorf("%w: %s is that of a live node at %s, which had it first", ErrDuplicate, d.what, d.at))
		return
	}
	g.o.Journal.Add(journal.Conflict, "", "the node at %s has this one's %s; it is the newer one, and must stop", d.at, d.what)
}

// newer says which of two live nodes of one name or ID is the newer one, the same on both:
// who is less well established; else the later life of one node; else the greater ID; else,
// of a copied identity, the greater address.
func newer(own who, ownAt netip.AddrPort, other who, otherAt netip.AddrPort) bool {
	switch {
	case own.standing != other.standing:
		return own.standing < other.standing
	case own.life.id == other.life.id && own.life.start != other.life.start:
		return own.life.start > other.life.start
	case own.life.id != other.life.id:
		return string(own.life.id[:]) > string(other.life.id[:])
	}
	return ownAt.Compare(otherAt) > 0
}

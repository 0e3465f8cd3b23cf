package member

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// That a life of a node is over is told to all: by the node when it leaves, by an operator
// when he has it forgotten. Whoever has heard it does not take that life for a member any
// more, however alive others say it is; the node's next life has another start number and
// is welcome. How long that is remembered travels as a span, never as a time of day.

// ErrUnknown says that there is no such member.
var ErrUnknown = errors.New("no such member")

// overMark is what is remembered of a life that is over.
type overMark struct {
	reason overReason
	until  time.Time
}

// Forget has a member forgotten, by its name or ID, dead or alive, in the whole pool: it is
// no member any more and not looked for. If that life of it still runs, it stops being a
// member when it hears of that; its next start may join again. An error matches ErrUnknown.
func (g *Gossip) Forget(nameOrID string) (Member, error) {
	g.mu.Lock()
	var found []*record
	for _, r := range g.live {
		found = append(found, r)
	}
	for _, r := range g.gone {
		found = append(found, r)
	}
	found = slices.DeleteFunc(found, func(r *record) bool {
		return r.m.Name != nameOrID && r.m.ID.String() != strings.ToLower(nameOrID)
	})
	if len(found) != 1 {
		g.mu.Unlock()
		if len(found) > 1 {
			return Member{}, fmt.Errorf("%w: %d nodes have had the name %q; say the ID", ErrUnknown, len(found), nameOrID)
		}
		return Member{}, fmt.Errorf("%w: %q", ErrUnknown, nameOrID)
	}
	m, l := found[0].m, found[0].life()
	g.mu.Unlock()
	g.hearOver(over{l, overForgot, g.t.overKeep})
	return m, nil
}

// hearOver takes in that a life is over, and passes it on if it is news.
func (g *Gossip) hearOver(o over) {
	if o.life == (life{g.o.Identity.ID, g.o.Identity.Start}) {
		g.hearOwnEnd(o.reason)
		return
	}
	g.mu.Lock()
	mark, known := g.overs[o.life]
	known = known && (mark.reason == o.reason || o.reason != overForgot) // one that has left can still be forgotten
	if known || o.keep <= 0 || len(g.overs) >= overMax {
		g.mu.Unlock()
		return
	}
	o.keep = min(o.keep, g.t.overKeep)
	g.overs[o.life] = overMark{o.reason, time.Now().Add(o.keep)}
	name := g.applyOverLocked(o)
	g.mu.Unlock()
	g.broadcasts.QueueBroadcast(broadcast(appendOvers(nil, []over{o})))
	switch {
	case name == "":
	case o.reason == overForgot:
		g.o.Journal.Add(journal.Forgot, name, "was forgotten, at an operator's word")
	default:
		g.o.Journal.Add(journal.Left, name, "has left")
	}
}

// hearOwnEnd hears from others that this very life is over. They are right, and ignore this
// node from now on.
func (g *Gossip) hearOwnEnd(reason overReason) {
	g.mu.Lock()
	leaving := g.leaving
	g.mu.Unlock()
	switch {
	case reason == overForgot:
		g.refuse(ErrForgotten)
	case !leaving: // it has not said so: an earlier process with the same start has
		g.refuse(ErrRepeated)
	}
}

// applyOverLocked takes the life out of what is shown, and returns its node's name.
func (g *Gossip) applyOverLocked(o over) (name string) {
	for _, r := range g.live {
		if r.life() == o.life && !r.over {
			r.over, name = true, r.m.Name
			g.changedLocked()
		}
	}
	if r := g.gone[o.life.id]; r != nil && r.m.Start == o.life.start {
		name = r.m.Name
		if o.reason == overForgot {
			delete(g.gone, o.life.id)
		} else {
			r.turn(Left)
		}
	}
	return name
}

// oversState is everything that is over, for an exchange of everything; nil if nothing is.
func (g *Gossip) oversState() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []over
	for l, mark := range g.overs {
		list = append(list, over{l, mark.reason, time.Until(mark.until)})
	}
	if len(list) == 0 {
		return nil
	}
	return appendOvers(nil, list)
}

// farewell tells every member, as far as there is time, that this life is over, over TCP;
// gossip tells it once more.
func (g *Gossip) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellTime)
	defer cancel()
	word := appendOvers(nil, []over{{life{g.o.Identity.ID, g.o.Identity.Start}, overLeft, g.t.overKeep}})
	g.broadcasts.QueueBroadcast(broadcast(word))
	to := g.farewellTo()
	var told sync.WaitGroup
	for range farewellsOnce {
		told.Add(1)
		if !g.spawn(func() { // Close ends its dialling and waits for it
			defer told.Done()
			for at := range to {
				if ctx.Err() == nil {
					_ = g.list.SendReliable(nodeAt("", at), word) // who does not hear it hears gossip
				}
			}
		}) {
			told.Done()
		}
	}
	done := make(chan struct{})
	if !g.spawn(func() { told.Wait(); close(done) }) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// farewellTo are the addresses of members, and of seeds: they may have heard of this node
// before it heard of them.
func (g *Gossip) farewellTo() chan netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []netip.AddrPort
	for _, r := range g.live {
		if !r.over && r.health == Alive {
			list = append(list, r.at)
		}
	}
	for _, s := range g.seeds {
		for _, at := range s.addresses {
			if at != g.advertise && !slices.Contains(list, at) && len(list) < MembersMax {
				list = append(list, at)
			}
		}
	}
	to := make(chan netip.AddrPort, len(list))
	for _, at := range list {
		to <- at
	}
	close(to)
	return to
}

// broadcast is a message of ours that gossip spreads.
type broadcast []byte

// Invalidates is part of the library's interface: no message makes another one needless.
func (b broadcast) Invalidates(memberlist.Broadcast) bool { return false }

// Message is part of the library's interface.
func (b broadcast) Message() []byte { return b }

// Finished is part of the library's interface.
func (b broadcast) Finished() {}

// UniqueBroadcast is part of the library's interface.
func (b broadcast) UniqueBroadcast() {}

package member

import (
	"fmt"
	"time"
)

// standing is how well established a node is: of two with one name the better one stays.
type standing uint8

// Standings.
const (
	newcomer standing = iota // not all seeds were tried, or somebody objects
	alone                    // nobody objects, and nobody else is there
	accepted                 // others have taken its name and address in, and reach it
)

// establish raises the standing of a node whose name and address are beyond doubt: all seeds
// were tried, nobody disputes, and if there are others, one has answered. If none does,
// though they take questions, nobody can reach this node.
func (g *Gossip) establish() {
	g.mu.Lock()
	single, tried := true, true
	for _, r := range g.live {
		single = single && r.over
	}
	for _, s := range g.seeds {
		tried = tried && s.attempts > 0
	}
	now := newcomer
	switch {
	case !tried || len(g.disputed) > 0 || g.refused != nil:
	case single:
		now = alone
	case !g.contested && g.reached:
		now = accepted
	}
	if now > g.standing {
		if g.standing == newcomer {
			g.changedLocked()
		}
		g.standing = now
	}
	lost := g.standing == newcomer && !single && !g.reached && !g.sentOnly.IsZero() && time.Since(g.sentOnly) > g.t.reachTimeout
	g.mu.Unlock()
	if lost {
		g.refuse(fmt.Errorf("%w at %s, which it advertises, over TCP; say with advertise where they can", ErrUnreachable, g.advertise))
	}
}

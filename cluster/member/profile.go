package member

import (
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// Profile is how soon a node that is gone counts as failed, and what that costs. The
// numbers are of one node in a quiet pool and do not grow with the pool, apart from the
// logarithm of its size in the time: see docs/operations.md.
type Profile string

// Profiles.
const (
	// ProfileFast: no member after 1 to 2.5 s. For one switch, and nodes that are never
	// starved of CPU for longer.
	ProfileFast Profile = "fast"
	// ProfileDefault: no member after 6 to 12 s.
	ProfileDefault Profile = "default"
	// ProfileSlow: no member after 25 to 40 s. For far or crowded networks and machines.
	ProfileSlow Profile = "slow"
)

// timing is what a profile stands for.
type timing struct {
	probeInterval  time.Duration // between two probes that a node sends
	probeTimeout   time.Duration // a UDP answer comes within it
	suspicionMult  int           // probe intervals until a suspect counts as failed
	gossipInterval time.Duration // between two packets of news
	streamTimeout  time.Duration // of a TCP exchange
	syncInterval   time.Duration // between two exchanges of everything with somebody
	gossipToDead   time.Duration // the library forgets the dead after it
	roomInterval   time.Duration // between two announcements of room
	joinRetry      time.Duration // first pause before a seed or a lost member is tried again
	joinRetryMax   time.Duration // last pause
	legInterval    time.Duration // between two tests of a leg that works
	legRetry       time.Duration // first pause after one that failed
	answerTimeout  time.Duration // of a probe over TCP and back
	reachTimeout   time.Duration // somebody must have answered a new node by then
	lostKeep       time.Duration // for how long a failed member is looked for
	overKeep       time.Duration // for how long it is remembered that a life is over
}

func (p Profile) timing() (timing, error) {
	t := timing{
		probeInterval: time.Second, probeTimeout: 500 * time.Millisecond, suspicionMult: 4,
		gossipInterval: 200 * time.Millisecond, streamTimeout: 5 * time.Second,
		syncInterval: 30 * time.Second, gossipToDead: 30 * time.Second, roomInterval: 5 * time.Second,
		joinRetry: time.Second, joinRetryMax: 30 * time.Second,
		legInterval: time.Minute, legRetry: 2 * time.Second, answerTimeout: 3 * time.Second,
		reachTimeout: 20 * time.Second, lostKeep: 24 * time.Hour, overKeep: time.Hour,
	}
	switch p {
	case ProfileDefault:
	case ProfileFast:
		t.probeInterval, t.probeTimeout, t.suspicionMult = 200*time.Millisecond, 100*time.Millisecond, 3
		t.gossipInterval, t.syncInterval, t.roomInterval = 50*time.Millisecond, 15*time.Second, 2*time.Second
		t.reachTimeout = 10 * time.Second
	case ProfileSlow:
		t.probeInterval, t.probeTimeout, t.suspicionMult = 3*time.Second, 1500*time.Millisecond, 6
		t.gossipInterval, t.streamTimeout, t.syncInterval = 500*time.Millisecond, 10*time.Second, time.Minute
		t.gossipToDead, t.roomInterval, t.answerTimeout, t.reachTimeout = time.Minute, 15*time.Second, 10*time.Second, time.Minute
	default:
		return t, fmt.Errorf("%w: profile %q, want %s, %s or %s", ErrOptions, p, ProfileFast, ProfileDefault, ProfileSlow)
	}
	return t, nil
}

// config is that of the gossip library for this timing. A node that finds itself slow
// waits up to eight times as long before it suspects others, and their failure is believed
// six times later if nobody confirms it.
func (t *timing) config() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.ProbeInterval, c.ProbeTimeout, c.SuspicionMult = t.probeInterval, t.probeTimeout, t.suspicionMult
	c.GossipInterval, c.TCPTimeout, c.PushPullInterval = t.gossipInterval, t.streamTimeout, t.syncInterval
	c.GossipToTheDeadTime = t.gossipToDead
	c.DeadNodeReclaimTime = time.Millisecond // a dead node's name is free at once; that it is dead takes long enough
	c.IndirectChecks, c.SuspicionMaxTimeoutMult, c.AwarenessMaxMultiplier = 3, 6, 8
	c.RequireNodeNames = false // seeds have none
	return c
}

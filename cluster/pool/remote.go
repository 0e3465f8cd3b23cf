package pool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
)

const (
	dialTime   = 3 * time.Second // for a link and its Hello
	mergeTime  = 10 * time.Second
	backoffMin = 100 * time.Millisecond
	backoffMax = 8 * time.Second // with dialTime: used again within 30 s of being back
	// callsMax bounds the small calls under way to one peer.
	callsMax = 256
)

// remote is another member and the link to it. Its keeper goroutine makes the link, has
// both ends merge, makes it anew when it is lost, and probes a peer that is in doubt; so
// no request ever waits for a sick peer but on a link that was well a moment ago.
type remote struct {
	pool   *Pool
	id     member.ID
	number uint16          // see peers.numberMax
	ctx    context.Context // ends when the member has gone, or the pool stops
	leave  context.CancelFunc
	nudge  chan struct{}       // room for one: the keeper has something to look at
	room   *semaphore.Weighted // bytes asked for
	calls  chan struct{}       // places of callsMax
	jitter *rand.Rand          // the keeper's

	inFlight atomic.Int64 // bytes asked for
	counts   peerCounters
	puts     *putQueue
	times    peerTimes

	mu       sync.Mutex
	member   member.Member
	link     transport.Link // merged; nil: none
	state    linkState
	cause    error         // why the link is down
	settled  chan struct{} // closed when the first attempt to link has ended
	breaker  breaker
	linkedAt time.Time
}

// linkState is how far the link to a peer is.
type linkState uint8

// The states of a link.
const (
	linkNew     linkState = iota // not tried yet
	linkDown                     // it could not be made, or was lost
	linkMerging                  // it is there, and both ends tell each other what was erased
	linkUp
)

func (s linkState) String() string {
	return [...]string{"never", "down", "merging", "up"}[s]
}

var errDown = errors.New("there is no link to the peer")

func (ps *peers) newRemote(m member.Member) *remote {
	p := ps.pool
	ctx, leave := context.WithCancel(p.ctx)
	return &remote{pool: p, puts: newPutQueue(&p.o), id: m.ID, member: m, ctx: ctx, leave: leave, nudge: make(chan struct{}, 1), settled: make(chan struct{}),
		room: semaphore.NewWeighted(p.o.InFlightBytes), calls: make(chan struct{}, callsMax),
		jitter: rand.New(rand.NewPCG(binary.LittleEndian.Uint64(p.o.Node[:]), binary.LittleEndian.Uint64(m.ID[:])))}
}

func (r *remote) described() member.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.member
}

// setMember takes in what the member says of itself now.
func (r *remote) setMember(m member.Member) {
	r.mu.Lock()
	moved := r.member.Address != m.Address
	well := r.member.Suspect && !m.Suspect
	r.member = m
	r.mu.Unlock()
	if moved || well {
		r.wake() // do not wait for the end of a pause
	}
}

func (r *remote) wake() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// usable reports whether the peer can be asked for blocks now.
func (r *remote) usable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.member
	return (r.link != nil || r.state == linkNew) && !r.breaker.open && !m.Suspect && (m.State == member.Active || m.State == member.Draining)
}

// ready is the link to use for calls about blocks. Only while the first attempt to make
// one is under way it waits, as long as ctx lasts.
func (r *remote) ready(ctx context.Context) (transport.Link, error) {
	r.mu.Lock()
	link, first := r.link, r.state == linkNew
	r.mu.Unlock()
	if link != nil {
		return link, nil
	}
	if first {
		select {
		case <-r.settled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		r.mu.Lock()
		link = r.link
		r.mu.Unlock()
	}
	if link == nil {
		return nil, errDown
	}
	return link, nil
}

// keep is the keeper.
func (r *remote) keep() {
	defer r.leave()
	for pause := backoffMin; r.ctx.Err() == nil; {
		link, address, err := r.connect()
		if err != nil {
			r.setDown(err)
			r.pause(pause)
			pause = min(2*pause, backoffMax)
			continue
		}
		began := time.Now()
		r.use(link, address)
		if time.Since(began) > backoffMax {
			pause = backoffMin
		}
		r.setDown(transport.ErrLost)
		_ = link.Close()
		r.pause(pause)
	}
}

// pause waits, but no longer than until something has changed.
func (r *remote) pause(d time.Duration) {
	timer := time.NewTimer(d/2 + time.Duration(r.jitter.Int64N(int64(d/2)+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.nudge:
	case <-r.ctx.Done():
	}
}

// connect makes a link that both ends have merged over.
func (r *remote) connect() (link transport.Link, address string, err error) {
	address = r.described().Address
	dialing, cancel := context.WithTimeout(r.ctx, dialTime)
	link, err = r.pool.o.Transport.Dial(dialing, address, r.pool.self)
	cancel()
	if err != nil {
		return nil, address, err
	}
	if who := link.Peer(); who.Node != r.id || who.PoolID != r.pool.o.PoolID {
		_ = link.Close()
		return nil, address, fmt.Errorf("%w: at %s answers node %v of pool %q", transport.ErrForeign, address, who.Node, who.PoolID)
	}
	r.mu.Lock()
	if r.state != linkNew {
		r.state = linkMerging
	}
	r.mu.Unlock()
	merging, cancel := context.WithTimeout(r.ctx, mergeTime)
	err = r.pool.merge(merging, link)
	cancel()
	if err != nil {
		_ = link.Close()
		return nil, address, fmt.Errorf("merge what was erased: %w", err)
	}
	return link, address, nil
}

// use lets calls have the link until it is of no use any more.
func (r *remote) use(link transport.Link, address string) {
	r.mu.Lock()
	r.link, r.state, r.cause, r.linkedAt = link, linkUp, nil, time.Now()
	was := r.breaker.open
	r.breaker.judge(true, r.linkedAt) // it has just answered
	r.settleLocked()
	r.mu.Unlock()
	r.tellBreaker(was, false, nil)
	r.pool.log.Debug("linked to a peer", "peer", r.id, "address", address)
	for r.described().Address == address && r.wait(link) {
	}
}

// wait waits for something to look at, a probe among it, and reports whether the link
// stands.
func (r *remote) wait(link transport.Link) bool {
	var due <-chan time.Time // never
	if at := r.nextProbe(); !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-link.Gone():
		return false
	case <-r.ctx.Done():
		return false
	case <-r.nudge:
	case <-due:
		r.probe(link)
	}
	return true
}

func (r *remote) settleLocked() {
	select {
	case <-r.settled:
	default:
		close(r.settled)
	}
}

// setDown says that there is no link.
func (r *remote) setDown(cause error) {
	r.mu.Lock()
	was := r.state
	r.link, r.state, r.cause = nil, linkDown, cause
	r.settleLocked()
	r.mu.Unlock()
	if (was == linkNew || was == linkUp) && r.pool.ctx.Err() == nil {
		r.pool.log.Info("no link to a peer", "peer", r.id, "cause", cause)
	}
}

// probe asks a peer in doubt for a sign of life.
func (r *remote) probe(link transport.Link) {
	r.mu.Lock()
	r.breaker.probing = true
	r.mu.Unlock()
	asking, cancel := context.WithTimeout(r.ctx, r.pool.probeTime())
	defer cancel()
	_, err := link.Call(asking, peer.KindProbe, nil)
	if r.ctx.Err() == nil {
		r.counts.probes.Add(1)
		r.judge(err)
	}
}

// probeTime is how long a peer may take to show that it lives.
func (p *Pool) probeTime() time.Duration { return 5 * p.o.MatchTime }

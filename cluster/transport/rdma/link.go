package rdma

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// Link is a link to one peer. It implements transport.Link: fetches go by RDMA while there
// is a session, the rest by the control.
type Link struct {
	transport.Link // the control's
	t              *Transport
	peer           *peer
	session        atomic.Pointer[session]
	ctx            context.Context // ends with Close
	cancel         context.CancelFunc
	done           chan struct{} // closed when the keeper has ended, and all of its sessions

	copies sync.RWMutex // read-locked while a block is copied to where it belongs
	closed bool         // guarded by copies: nothing is copied any more
}

// noSession stands for a session where there is none now: fetches are counted that go by
// the control. No session at all (nil) means that the peer does not know RDMA.
var noSession = &session{}

func newLink(t *Transport, control transport.Link) *Link {
	l := &Link{Link: control, t: t, peer: t.enter(control.Peer().Node, true), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.session.Store(noSession)
	return l
}

// Close implements transport.Link.
func (l *Link) Close() error {
	l.cut()
	l.cancel()
	err := l.Link.Close()
	<-l.done
	return err
}

// cut has nothing copied to destinations any more.
func (l *Link) cut() {
	l.copies.Lock()
	defer l.copies.Unlock()
	l.closed = true
}

// keep has a session as long as the link stands. It is the link's keeper.
func (l *Link) keep() {
	defer close(l.done)
	defer l.t.remove(l)
	defer l.cut() // it is not in the transport's books any more, whose Close does not wait for it
	for pause := l.t.o.PauseMin; l.stands(); pause = min(2*pause, l.t.o.PauseMax) {
		s, err := l.open()
		if err != nil {
			if !l.stands() {
				return
			}
			l.peer.failures.Add(1)
			if errors.Is(err, errNever) {
				l.session.Store(nil)
				if l.peer.becomes(peerNever, err.Error()) {
					l.t.o.Logger.Info("blocks of a peer come by "+l.t.o.Control.Name()+": it has no RDMA", "peer", l.name())
				}
				return
			}
			l.down(err)
			l.pause(pause)
			continue
		}
		began := time.Now()
		l.use(s)
		if s.brought.Load() || time.Since(began) > l.t.o.PauseMax {
			pause = l.t.o.PauseMin // the way is sound, however the session ended
		}
		l.pause(pause)
	}
}

// stands reports whether the link is of use.
func (l *Link) stands() bool {
	select {
	case <-l.ctx.Done():
		return false
	case <-l.Gone():
		return false
	default:
		return true
	}
}

// pause waits for d, or half of it, if the link stands.
func (l *Link) pause(d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
	case <-l.Gone():
	}
}

// use has fetches go over a session until it has failed, and ends it.
func (l *Link) use(s *session) {
	rails := int64(len(s.rails))
	l.peer.rails.Add(rails)
	l.peer.connects.Add(1)
	if l.peer.becomes(peerUp, "") {
		l.t.o.Logger.Info("blocks of a peer come by RDMA", "peer", l.name(), "ports", s.ports())
	}
	l.session.Store(s)
	select {
	case <-s.failing:
	case <-l.ctx.Done():
	case <-l.Gone():
	}
	l.session.Store(noSession)
	l.peer.rails.Add(-rails)
	s.fail(transport.ErrLost)
	if l.stands() {
		l.peer.failures.Add(1)
		l.down(s.why())
	}
	s.end()
}

// down notes that there is no session.
func (l *Link) down(cause error) {
	if l.peer.becomes(peerDown, cause.Error()) {
		l.t.o.Logger.Warn("blocks of a peer come by "+l.t.o.Control.Name()+" until RDMA works", "peer", l.name(), "cause", cause)
	}
}

func (l *Link) name() string { return l.Peer().Name }

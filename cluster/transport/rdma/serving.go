package rdma

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// Bounds of what peers have of a serving. Strangers are peers that this node has never dialled,
// as it does with every member of its pool: anybody can come under any number of names, and
// members are to find room all the same.
const (
	guestsMax     = 1024
	strangersMax  = 512 // sessions of strangers
	peerGuestsMax = 4
	waitingMax    = 256 // that are not held yet: with one more the oldest of them ends, a stranger's if there is one
)

// serving is the side of a Transport that has the blocks: the sessions that peers have made.
type serving struct {
	t *Transport

	running sync.WaitGroup // keepers of guests; Add under mu while not closed

	mu      sync.Mutex
	guests  map[uint64]*guest // by number, until they are over
	waiting []*guest          // of those the ones that are not known to be held, the oldest first
	closed  bool
}

func newServing(t *Transport) *serving { return &serving{t: t, guests: map[uint64]*guest{}} }

// wrapped is the handler of the control: the kinds of this package are its own.
type wrapped struct {
	transport.Handler
	s *serving
}

func (s *serving) wrap(h transport.Handler) transport.Handler { return &wrapped{h, s} }

// Call implements transport.Handler.
func (w *wrapped) Call(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	var answer []byte
	var err error
	switch kind {
	case kindOpen:
		answer, err = w.s.open(ctx, from, body)
	case kindHold:
		answer, err = w.s.hold(ctx, from, body)
	case kindFetch:
		answer, err = w.s.fetch(ctx, w.Handler, from, body)
	case kindFence:
		answer, err = w.s.fence(ctx, from, body)
	default:
		return w.Handler.Call(ctx, from, kind, body)
	}
	if errors.Is(err, errMalformed) {
		err = &transport.RemoteError{Code: transport.CodeMalformed, Text: err.Error()}
	}
	return answer, err
}

// close ends all sessions. When it returns no source is in use, unless a queue pair could
// not be destroyed. The control is closed before: no handler runs.
func (s *serving) close() {
	s.mu.Lock()
	s.closed = true
	guests := make([]*guest, 0, len(s.guests))
	for _, g := range s.guests {
		guests = append(guests, g)
	}
	s.mu.Unlock()
	for _, g := range guests {
		g.fail(errClosed)
	}
	s.running.Wait()
}

// enter takes a session into the books under a number of its own.
func (s *serving) enter(g *guest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &transport.RemoteError{Code: transport.CodeClosing, Text: "the node stops"}
	}
	n, strangers := s.countLocked(g.peer.Node)
	if n >= peerGuestsMax || len(s.guests) >= guestsMax || strangers >= strangersMax && !s.t.knows(g.peer.Node) {
		return &transport.RemoteError{Code: transport.CodeBusy,
			Text: fmt.Sprintf("%d RDMA sessions of this peer, %d in all, %d of nodes that this one has not dialled", n, len(s.guests), strangers)}
	}
	g.of = s.t.enter(g.peer.Node, false)
	for g.number == 0 || s.guests[g.number] != nil {
		g.number = randomNumber()
	}
	s.guests[g.number] = g
	s.waitLocked(g)
	return nil
}

// waitLocked has a session wait to be held. Peers that open sessions and never hold them
// leave room for those that do.
func (s *serving) waitLocked(g *guest) {
	s.waiting = append(slices.DeleteFunc(s.waiting, func(g *guest) bool { return !g.waits() }), g)
	if len(s.waiting) > waitingMax {
		i := max(0, slices.IndexFunc(s.waiting, func(g *guest) bool { return !g.of.known.Load() }))
		s.waiting[i].fail(errNotHeld)
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

// countLocked says how many sessions a peer has, and how many strangers have.
func (s *serving) countLocked(peer member.ID) (of, strangers int) {
	for _, g := range s.guests {
		if g.peer.Node == peer {
			of++
		}
		if !g.of.known.Load() {
			strangers++
		}
	}
	return of, strangers
}

func randomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

func (s *serving) forget(g *guest) {
	s.t.leave(g.of)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, g.number)
	s.waiting = slices.DeleteFunc(s.waiting, func(w *guest) bool { return w == g })
}

// find is the session of a peer that has this number.
func (s *serving) find(number uint64, from transport.Hello) (*guest, error) {
	s.mu.Lock()
	g := s.guests[number]
	s.mu.Unlock()
	if g == nil || !g.ready.Load() || g.peer.Node != from.Node {
		return nil, &transport.RemoteError{Code: transport.CodeUnknown, Text: "there is no such RDMA session"}
	}
	return g, nil
}

// hold serves the call that lasts as long as a session.
func (s *serving) hold(ctx context.Context, from transport.Hello, body []byte) ([]byte, error) {
	number, err := parseHold(body)
	if err != nil {
		return nil, err
	}
	g, err := s.find(number, from)
	if err != nil {
		return nil, err
	}
	if err := g.hold(); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		g.fail(errGivenUp)
	case <-g.failing:
	}
	<-g.over
	return []byte(g.cause.Error()), nil
}

// fetch serves a fetch with the handler.
func (s *serving) fetch(ctx context.Context, h transport.Handler, from transport.Hello, body []byte) ([]byte, error) {
	m, err := parseFetch(body)
	if err != nil {
		return nil, err
	}
	g, err := s.find(m.session, from)
	if err != nil {
		return nil, err
	}
	r, err := g.begin(ctx, &m)
	if err != nil {
		return nil, err
	}
	failed := true // if the handler panics as well
	defer func() { r.handled(failed) }()
	answer, err := h.Fetch(r.ctx, from, m.kind, m.body, len(m.blocks), r)
	failed = err != nil
	if failed {
		r.halt()
		if err := g.failure(); err != nil {
			return nil, err
		}
		remote, ok := errors.AsType[*transport.RemoteError](err)
		if !ok {
			remote = &transport.RemoteError{Code: transport.CodeInternal}
		}
		said := fetchAnswer{failed: &transport.RemoteError{Code: remote.Code, Text: cut(err.Error(), errorBytesMax)}}
		return said.append(nil), nil
	}
	said := fetchAnswer{answer: answer}
	return said.append(make([]byte, 0, answerHeadBytes+len(answer))), nil
}

// errorBytesMax is the longest text of an error that a peer is told.
const errorBytesMax = 4096

func cut(text string, most int) string { return text[:min(len(text), most)] }

// fence gives this side's word that of some requests nothing more is posted.
func (s *serving) fence(ctx context.Context, from transport.Hello, body []byte) ([]byte, error) {
	m, err := parseFence(body)
	if err != nil {
		return nil, err
	}
	g, err := s.find(m.session, from)
	if err != nil {
		return nil, err
	}
	return nil, g.fence(ctx, &m)
}

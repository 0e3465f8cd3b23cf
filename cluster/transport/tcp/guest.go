package tcp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// guest is a link of a peer, at the side that serves it.
type guest struct {
	*session
	handler transport.Handler
	ctx     context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	requests map[uint64]*request // until they are answered and their blocks are sent
	serving  int                 // handlers that run, and requests on their way in, urgent ones excepted
	urgent   int                 // of those
	bytes    int64               // of whole requests: bodies, and blocks either way
	partial  int64               // what has come of requests in several chunks that are not whole
}

// request is one call of a peer.
type request struct {
	g      *guest
	h      header // of its first chunk
	m      message
	ctx    context.Context
	cancel context.CancelFunc
	out    *reply    // of a Fetch
	in     *incoming // of a Push

	// Under the guest's mu.
	bytes   int64
	partial int64       // its part of the guest's
	late    *time.Timer // ends it if it does not come whole; nil: it has one chunk
	slot    bool        // it has one of the slots for handlers
	started bool        // its handler was begun
	sending int         // blocks that are not sent yet
}

func newGuest(t *Transport, peer hello, version uint8) *guest {
	g := &guest{session: newSession(t, peer, version), handler: t.handler, requests: map[uint64]*request{}}
	g.ctx, g.cancel = context.WithCancel(t.ctx)
	g.frame, g.ended = g.hear, g.giveUpAll
	return g
}

func (g *guest) giveUpAll() {
	g.cancel()
	g.session.mu.Lock()
	g.t.accepted.Add(-int64(len(g.conns)))
	g.session.mu.Unlock()
	g.mu.Lock()
	all := make([]*request, 0, len(g.requests))
	for _, r := range g.requests {
		all = append(all, r)
	}
	g.mu.Unlock()
	for _, r := range all {
		r.giveUp()
	}
}

func (g *guest) find(number uint64) *request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests[number]
}

// hear takes in a frame of the peer.
func (g *guest) hear(f *conn, h *header) error {
	r := g.find(h.Call)
	switch h.Type {
	case typeCall, typeFetch, typePush:
		if full := g.calls.full(); full != nil { // the peer asks, and does not read
			select {
			case <-full:
			case <-g.gone:
			}
		}
		return g.hearRequest(f, r, h)
	case typeCancel:
		if r != nil {
			r.giveUp()
		}
		return nil
	case typeData, typeAbort:
		if r == nil { // answered or given up
			return f.drop(h)
		}
		if r.in == nil {
			return malformed("a block for a call that takes none")
		}
		return r.in.hear(f, h)
	}
	return malformed("frame type %#x from a peer that asks", h.Type)
}

func (g *guest) hearRequest(f *conn, r *request, h *header) error {
	switch {
	case r == nil && h.Offset > 0: // refused or given up
		return f.drop(h)
	case r != nil && (h.Offset == 0 || h.Type != r.h.Type):
		return malformed("a request begins under a number in use")
	case r == nil:
		if r = g.begin(h); r == nil {
			return f.drop(h)
		}
	}
	if !r.expect(h) {
		return f.drop(h)
	}
	room, err := r.m.room(h)
	if err == nil {
		err = f.in.own(room)
	}
	if err != nil || !r.m.whole() || !r.came() {
		return err
	}
	sizes, body, err := r.m.open(int(r.h.Index))
	if err != nil {
		return err
	}
	if !r.reserve(sizes, body) {
		r.refuse("too many bytes are on their way on this link")
		return nil
	}
	r.ready(sizes)
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	if !g.over {
		g.running.Go(func() { r.serve(sizes, body) })
	}
	return nil
}

// ready makes what the handler of a whole request works on.
func (r *request) ready(sizes []uint32) {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.started = true
	switch r.h.Type {
	case typeFetch:
		r.out = newReply(r, sizes)
	case typePush:
		r.in = newIncoming(r, sizes)
	}
}

// begin enters a request, or refuses it and is nil.
func (g *guest) begin(h *header) *request {
	r := &request{g: g, h: *h}
	if h.Type == typeCall {
		r.h.Index = 0
	}
	r.ctx, r.cancel = context.WithCancel(g.ctx)
	if h.Extra > 0 && h.Extra < uint64(maxTime.Microseconds()) {
		parent := r.cancel
		var stop context.CancelFunc
		r.ctx, stop = context.WithTimeout(r.ctx, time.Duration(h.Extra)*time.Microsecond)
		r.cancel = func() { stop(); parent() }
	}
	g.mu.Lock()
	slots, most := r.slotsLocked()
	full := *slots >= most
	if !full {
		*slots++
		r.slot = true
		g.requests[h.Call] = r
	}
	g.mu.Unlock()
	if full {
		r.refuse(fmt.Sprintf("%d calls are being served on this link", most))
		return nil
	}
	return r
}

// maxTime bounds deadlines that a peer names.
const maxTime = 24 * time.Hour

func (r *request) refuse(text string) {
	r.g.t.counters.busy.Add(1)
	r.answer(nil, &transport.RemoteError{Code: transport.CodeBusy, Text: text})
	r.handled()
}

// serve runs the handler and answers.
func (r *request) serve(sizes []uint32, body []byte) {
	from, kind := r.g.peer.Hello, transport.Kind(r.h.Code)
	var answer []byte
	var err error
	switch r.h.Type {
	case typeCall:
		answer, err = r.guarded(func() ([]byte, error) { return r.g.handler.Call(r.ctx, from, kind, body) })
	case typeFetch:
		out := r.out
		answer, err = r.guarded(func() ([]byte, error) { return r.g.handler.Fetch(r.ctx, from, kind, body, len(sizes), out) })
		out.finish(err != nil)
	case typePush:
		in := r.in
		answer, err = r.guarded(func() ([]byte, error) { return r.g.handler.Push(r.ctx, from, kind, body, in) })
		in.close()
	}
	waiting := r.ctx.Err() == nil // else nobody does, or will not in a moment
	r.handled()                   // first: the answer makes room for the peer's next call
	if waiting {
		r.answer(answer, err)
	}
}

// guarded makes a panic of a handler an error.
func (r *request) guarded(f func() ([]byte, error)) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.g.t.counters.panics.Add(1)
			r.g.t.o.Logger.Error("a call of a peer panicked", "peer", r.g.peer.Name, "kind", r.h.Code, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the call panicked: %v", p)
		}
	}()
	return f()
}

func (r *request) answer(body []byte, err error) {
	it := &item{h: header{Type: typeAnswer, Call: r.h.Call}}
	if err == nil && len(body) > BodyBytesMax {
		err = fmt.Errorf("an answer of %d bytes, at most %d are allowed", len(body), BodyBytesMax)
	}
	if err != nil {
		it.h.Type = typeError
		if remote, ok := errors.AsType[*transport.RemoteError](err); ok {
			it.h.Code = uint8(remote.Code)
		}
		text := err.Error()
		body = []byte(text[:min(len(text), errorBytesMax)])
	}
	it.body = seal(nil, body)
	it.h.Total = uint32(len(it.body))
	r.g.calls.add(it)
}

const errorBytesMax = 4096

// giveUp ends a request that nobody waits for: its handler hears of it, and its blocks
// are not sent.
func (r *request) giveUp() {
	r.g.mu.Lock()
	started, out := r.started, r.out
	r.g.mu.Unlock()
	r.cancel()
	if !started { // the rest of it does not come
		r.handled()
	}
	if out != nil {
		out.close()
	}
}

// handled gives back what a request has once its handler is over.
func (r *request) handled() {
	r.cancel()
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.handledLocked()
}

func (r *request) handledLocked() {
	r.wholeLocked()
	if r.slot {
		r.slot = false
		slots, _ := r.slotsLocked()
		*slots--
	}
	r.leaveLocked()
}

// sent is told for every block that has left, or will not.
func (r *request) sent() {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.sending--
	r.leaveLocked()
}

func (r *request) leaveLocked() {
	if !r.slot && r.sending == 0 && r.g.requests[r.h.Call] == r {
		r.g.bytes -= r.bytes
		delete(r.g.requests, r.h.Call)
	}
}

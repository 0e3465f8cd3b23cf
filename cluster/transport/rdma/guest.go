package rdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// holdTime is how long a session waits to be held.
const holdTime = 10 * time.Second

// fencedMax bounds the requests of a session that were fenced before they came.
const fencedMax = 16 << 10

// Causes of the end of a session.
var (
	errGivenUp = errors.New("the peer has given it up")
	errNotHeld = errors.New("the peer did not hold it")
	errNoRail  = errors.New("nothing can be sent on any of its rails")
)

// guest is a session that a peer has made. Its keeper ends it: whatever goes wrong calls
// fail, and the keeper destroys the queue pairs and lets go of all memory.
type guest struct {
	s      *serving
	number uint64
	peer   transport.Hello
	of     *peer // with s.enter
	lines  int
	rails  []*sender   // as the caller has them; nil: none. They stay as they are once it is ready
	ready  atomic.Bool // it can be found

	held    chan struct{} // closed by the hold
	failing chan struct{} // closed by fail: nothing is posted any more
	over    chan struct{} // closed when the queue pairs are destroyed and all memory is let go
	posting sync.WaitGroup

	mu     sync.Mutex
	isHeld bool
	failed bool
	cause  error             // set with failed
	asked  map[uint64]*asked // until nothing of them is posted, nor will be
	oldest uint64            // lower requests do not come any more
	fenced map[uint64]bool   // requests from oldest on that may not come any more
	blocks int               // of requests
	bytes  int64             // of requests
}

func newGuest(s *serving, from transport.Hello, lines int) *guest {
	return &guest{
		s: s, peer: from, lines: lines,
		held: make(chan struct{}), failing: make(chan struct{}), over: make(chan struct{}),
		asked: map[uint64]*asked{}, fenced: map[uint64]bool{},
	}
}

// start gives the session its rails and its keeper. After an error they are destroyed.
func (g *guest) start(rails []*sender) error {
	g.rails = rails
	g.ready.Store(true)
	g.s.mu.Lock()
	closed := g.s.closed
	if !closed {
		g.s.running.Go(g.keep)
	}
	g.s.mu.Unlock()
	if !closed {
		return nil
	}
	g.fail(errClosed)
	g.end()
	return &transport.RemoteError{Code: transport.CodeClosing, Text: "the node stops"}
}

// keep waits for the session's end, and makes it.
func (g *guest) keep() {
	timer := time.NewTimer(holdTime)
	defer timer.Stop()
	select {
	case <-g.held:
		<-g.failing
	case <-g.failing:
	case <-timer.C:
		g.fail(errNotHeld)
	}
	g.end()
}

// fail says that the session is of no use any more. It does not wait: over tells. What is
// posted stays as it is until then.
func (g *guest) fail(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed {
		return
	}
	g.failed, g.cause = true, cause
	for _, r := range g.asked {
		r.cancel()
		r.end()
	}
	close(g.failing)
}

// end destroys the queue pairs, which is the fence, and lets go of all memory behind it.
func (g *guest) end() {
	log := g.s.t.o.Logger
	rails := g.there()
	for _, d := range rails {
		d.kill()
	}
	for _, d := range rails {
		if err := d.destroy(); err != nil {
			log.Error("an RDMA queue pair cannot be destroyed: memory that was being sent from stays in use, and the port is not used any more",
				"port", d.port.info.Name(), "peer", g.peer.Name, "err", err)
		}
	}
	g.posting.Wait()
	for _, d := range rails {
		d.letGo()
	}
	g.s.forget(g)
	if _, ok := errors.AsType[*sendError](g.cause); ok {
		g.of.destroyed.Add(uint64(len(rails)))
		log.Warn("an RDMA session of a peer has failed", "peer", g.peer.Name, "err", g.cause)
	}
	close(g.over)
}

// there are the rails that there are.
func (g *guest) there() []*sender {
	return slices.DeleteFunc(slices.Clone(g.rails), func(d *sender) bool { return d == nil })
}

// hold starts what posts, once.
func (g *guest) hold() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.failed:
		return &transport.RemoteError{Code: transport.CodeUnknown, Text: "the RDMA session is over"}
	case g.isHeld:
		return malformed("a session is held twice")
	}
	g.isHeld = true
	close(g.held)
	for _, d := range g.there() {
		g.posting.Go(d.send)
		d.reaping.Go(d.reap)
	}
	return nil
}

// waits reports whether the session is neither held nor failed.
func (g *guest) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.isHeld && !g.failed
}

// begin takes a fetch in, or says why it is not served: nothing of it is posted then.
func (g *guest) begin(ctx context.Context, m *fetchRequest) (*asked, error) {
	nBytes, err := g.check(m)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	lines := g.lines * len(g.there())
	busy := func(format string, args ...any) (*asked, error) {
		return nil, &transport.RemoteError{Code: transport.CodeBusy, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case g.failed:
		return nil, &transport.RemoteError{Code: transport.CodeUnknown, Text: "the RDMA session is over"}
	case !g.isHeld:
		return nil, malformed("a fetch of a session that is not held")
	case g.asked[m.request] != nil:
		return nil, malformed("request %d comes twice", m.request)
	case m.request < g.oldest || g.fenced[m.request]:
		return busy("the request is fenced")
	case g.bytes+nBytes > 2*g.s.t.o.InFlight || g.blocks+len(m.blocks) > 2*lines:
		// A caller that keeps to what it was told is never refused: what it has, and this
		// side has not counted yet as sent, is not more than that once again.
		return busy("%d blocks of %d bytes are on their way in this session", g.blocks, g.bytes)
	}
	g.passLocked(m.oldest)
	r := newAsked(ctx, g, m, nBytes)
	g.asked[m.request] = r
	g.blocks += len(r.blocks)
	g.bytes += nBytes
	return r, nil
}

// check holds a fetch against what the caller has said before.
func (g *guest) check(m *fetchRequest) (nBytes int64, err error) {
	for i := range m.blocks {
		w := &m.blocks[i]
		if int(w.line) >= g.lines || int(w.rail) >= len(g.rails) || g.rails[w.rail] == nil {
			return 0, malformed("line %d of rail %d, which there is not", w.line, w.rail)
		}
		nBytes += int64(w.size)
	}
	return min(nBytes, g.s.t.o.InFlight), nil // one that is larger than all counts as all
}

// passLocked forgets requests below oldest.
func (g *guest) passLocked(oldest uint64) {
	if oldest <= g.oldest {
		return
	}
	g.oldest = oldest
	for n := range g.fenced {
		if n < oldest {
			delete(g.fenced, n)
		}
	}
}

// fence has nothing more of some requests posted, and marks behind all that was. There is
// no word in a session that has failed.
func (g *guest) fence(ctx context.Context, m *fenceRequest) error {
	rails, err := g.marked(m)
	if err != nil {
		return err
	}
	var under []*asked
	g.mu.Lock()
	g.passLocked(m.oldest)
	for _, n := range m.requests {
		if r := g.asked[n]; r != nil {
			under = append(under, r)
		} else if n >= g.oldest {
			g.fenced[n] = true
		}
	}
	many := len(g.fenced) > fencedMax
	g.mu.Unlock()
	if many {
		g.fail(malformed("%d requests are fenced that have not come", fencedMax))
	}
	for _, r := range under {
		r.halt()
	}
	for _, d := range rails {
		if err := d.mark(ctx, m.mark); err != nil {
			return err
		}
	}
	return g.failure()
}

// marked are the rails on which a fence wants marks.
func (g *guest) marked(m *fenceRequest) (rails []*sender, err error) {
	g.mu.Lock()
	held := g.isHeld
	g.mu.Unlock()
	if !held {
		return nil, malformed("a fence of a session that is not held")
	}
	for i := range railsMax {
		if m.rails&(1<<i) == 0 {
			continue
		}
		if i >= len(g.rails) || g.rails[i] == nil {
			return nil, malformed("a mark on rail %d, which there is not", i)
		}
		rails = append(rails, g.rails[i])
	}
	return rails, nil
}

// failure is the error of a session that has failed; nil: it has not.
func (g *guest) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.failed {
		return nil
	}
	return &transport.RemoteError{Code: transport.CodeUnknown, Text: cut(fmt.Sprintf("the RDMA session has failed: %v", g.cause), errorBytesMax)}
}

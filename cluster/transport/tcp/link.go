package tcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// Link is a link to one peer. It implements transport.Link.
type Link struct {
	*session
	slots *semaphore.Weighted // calls that the peer serves at once
	bytes *semaphore.Weighted // of calls under way
	most  int64               // of bytes

	callsMu sync.Mutex
	waiting map[uint64]*call
	last    uint64
}

// call is one that waits for its answer.
type call struct {
	number   uint64
	answer   message
	code     transport.Code
	refused  bool          // the answer is an error
	answered chan struct{} // closed by the reader of the connection of calls
	fetch    *fetch        // or nil
	push     *push         // or nil
}

func newLink(t *Transport, peer hello, version uint8) *Link {
	most := min(t.o.InFlightBytes, int64(min(peer.InFlightBytes, 1<<62)))
	l := &Link{
		session: newSession(t, peer, version), waiting: map[uint64]*call{}, most: most,
		slots: semaphore.NewWeighted(int64(peer.Handlers)), bytes: semaphore.NewWeighted(most),
	}
	l.frame = l.hear
	return l
}

// Peer implements transport.Link.
func (l *Link) Peer() transport.Hello { return l.peer.Hello }

// Version implements transport.Link.
func (l *Link) Version() uint8 { return l.version }

// Gone implements transport.Link.
func (l *Link) Gone() <-chan struct{} { return l.gone }

// Close implements transport.Link.
func (l *Link) Close() error {
	l.end(errClosed)
	<-l.done
	return nil
}

// begin waits for room and enters a call; release gives the room back. It counts what
// the peer counts (request.reserve).
func (l *Link) begin(ctx context.Context, c *call, sizes []uint32, body []byte) (release func(), err error) {
	if err := l.standing(); err != nil {
		return nil, err
	}
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	nBytes := min(sealedBytes(sizes, body), l.most)
	if err := l.bytes.Acquire(ctx, nBytes); err != nil {
		l.slots.Release(1)
		return nil, err
	}
	l.enter(c)
	return func() {
		l.bytes.Release(nBytes)
		l.slots.Release(1)
	}, nil
}

// standing is an error when the link is of no use any more.
func (l *Link) standing() error {
	select {
	case <-l.gone:
		return l.lost()
	default:
		return nil
	}
}

// enter gives a call its number.
func (l *Link) enter(c *call) {
	c.answered = make(chan struct{})
	l.callsMu.Lock()
	defer l.callsMu.Unlock()
	l.last++
	c.number = l.last
	l.waiting[c.number] = c
}

// forget takes a call off the books: what still comes for it is dropped.
func (l *Link) forget(c *call) {
	l.callsMu.Lock()
	defer l.callsMu.Unlock()
	delete(l.waiting, c.number)
}

func (l *Link) find(number uint64) *call {
	l.callsMu.Lock()
	defer l.callsMu.Unlock()
	return l.waiting[number]
}

// ask sends a request.
func (l *Link) ask(ctx context.Context, c *call, t frameType, kind transport.Kind, sizes []uint32, body []byte) {
	it := &item{body: seal(sizes, body)}
	it.h = header{Type: t, Code: uint8(kind), Call: c.number, Index: uint32(len(sizes)), Total: uint32(len(it.body))}
	if until, ok := ctx.Deadline(); ok {
		it.h.Extra = uint64(max(1, time.Until(until).Microseconds()))
	}
	l.calls.add(it)
}

// giveUp tells the peer that nobody waits for a call any more.
func (l *Link) giveUp(c *call) {
	l.forget(c)
	unsent := l.calls.drop(c.number)
	l.blocks.drop(c.number)
	if !unsent {
		l.calls.add(&item{h: header{Type: typeCancel, Call: c.number}})
	}
}

// said is what the peer's handler answered.
func (c *call) said() ([]byte, error) {
	_, body, err := c.answer.open(0)
	if err == nil && c.refused {
		err = &transport.RemoteError{Code: c.code, Text: string(body)}
		body = nil
	}
	return body, err
}

// Call implements transport.Link.
func (l *Link) Call(ctx context.Context, kind transport.Kind, body []byte) ([]byte, error) {
	if len(body) > BodyBytesMax {
		return nil, tooLong(body)
	}
	c := &call{}
	h := header{Type: typeCall, Code: uint8(kind), Total: uint32(sealedBytes(nil, body))}
	if h.urgent() {
		if err := l.standing(); err != nil {
			return nil, err
		}
		l.enter(c)
	} else {
		release, err := l.begin(ctx, c, nil, body)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	l.ask(ctx, c, typeCall, kind, nil, body)
	return l.await(ctx, c)
}

// await waits for the answer to a call that is nothing but that.
func (l *Link) await(ctx context.Context, c *call) ([]byte, error) {
	select {
	case <-c.answered:
	case <-ctx.Done():
		l.giveUp(c)
		return nil, ctx.Err()
	case <-l.gone:
		l.forget(c)
		return nil, l.lost()
	}
	l.forget(c)
	return c.said()
}

func tooLong(body []byte) error {
	return fmt.Errorf("a call with a body of %d bytes, at most %d are allowed", len(body), BodyBytesMax)
}

// hear takes in a frame of the peer.
func (l *Link) hear(f *conn, h *header) error {
	c := l.find(h.Call)
	if c == nil { // given up
		return f.drop(h)
	}
	switch h.Type {
	case typeAnswer, typeError:
		return l.hearAnswer(f, c, h)
	case typeNone, typeData, typeAbort:
		if c.fetch == nil {
			return malformed("a block for a call without blocks")
		}
		return c.fetch.hear(f, h)
	case typeGo:
		if c.push == nil {
			return malformed("a block is wanted of a call without blocks")
		}
		return c.push.allow(int(h.Index))
	}
	return malformed("frame type %#x from a peer that serves", h.Type)
}

func (l *Link) hearAnswer(f *conn, c *call, h *header) error {
	select {
	case <-c.answered:
		return malformed("a second answer")
	default:
	}
	room, err := c.answer.room(h)
	if err == nil {
		err = f.in.own(room)
	}
	if err != nil || !c.answer.whole() {
		return err
	}
	if _, _, err := c.answer.open(0); err != nil {
		return err
	}
	c.refused, c.code = h.Type == typeError, transport.Code(h.Code)
	close(c.answered)
	return nil
}

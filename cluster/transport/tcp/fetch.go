package tcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// fetch is a Fetch under way. The goroutine of Fetch alone tells statuses; readers note
// what has come.
type fetch struct {
	f      *transport.Fetching
	blocks []fetched
	wake   chan struct{} // something has come, or was freed

	mu     sync.Mutex
	came   []int // blocks that are answered and not told yet
	left   int   // blocks that are not answered
	closed bool  // nothing is taken in any more
	late   bool  // closed at a deadline: Released tells what is freed
	using  int   // closed otherwise: blocks that are not freed yet
}

// fetched is one block of a fetch. Below memory all is under the fetch's mu.
type fetched struct {
	memory
	size   uint32
	got    uint32 // bytes that have come
	seen   seen
	sum    uint64
	failed bool             // it will be answered with answer once its memory is free
	answer transport.Status // Unanswered: it is on its way
}

func newFetch(f *transport.Fetching) (t *fetch, sizes []uint32, err error) {
	t = &fetch{f: f, blocks: make([]fetched, len(f.Blocks)), left: len(f.Blocks), wake: make(chan struct{}, 1)}
	if len(f.Blocks) > BlocksMax {
		err = fmt.Errorf("a fetch of %d blocks, at most %d are allowed", len(f.Blocks), BlocksMax)
	}
	sizes = make([]uint32, len(f.Blocks))
	for i := range t.blocks {
		n := sizeOf(f.Blocks[i].Dst)
		if n > BlockBytesMax && err == nil {
			err = fmt.Errorf("a block of %d bytes, at most %d are allowed", n, BlockBytesMax)
		}
		b := &t.blocks[i]
		b.pieces, b.index, b.freed, b.size = f.Blocks[i].Dst, i, t.freed, uint32(n)
		sizes[i] = uint32(n)
	}
	return t, sizes, err
}

// Fetch implements transport.Link.
func (l *Link) Fetch(ctx context.Context, kind transport.Kind, body []byte, f *transport.Fetching) ([]byte, error) {
	t, sizes, err := newFetch(f)
	if err == nil && len(body) > BodyBytesMax {
		err = tooLong(body)
	}
	if err != nil {
		t.close(transport.Refused)
		return nil, err
	}
	c := &call{fetch: t}
	release, err := l.begin(ctx, c, sizes, body)
	switch {
	case err == nil:
		defer release()
	case ctx.Err() != nil:
		t.close(transport.Late)
		return nil, err
	default:
		t.close(transport.Lost)
		return nil, err
	}
	l.ask(ctx, c, typeFetch, kind, sizes, body)
	answered := c.answered
	for {
		more := t.tell()
		if !more && answered == nil {
			l.forget(c)
			return c.said()
		}
		select {
		case <-t.wake:
		case <-answered:
			if answered = nil; c.refused {
				l.forget(c)
				t.close(transport.Refused)
				return c.said()
			}
		case <-ctx.Done():
			l.giveUp(c)
			t.close(transport.Late)
			return nil, ctx.Err()
		case <-l.gone:
			l.forget(c)
			t.close(transport.Lost)
			return nil, l.lost()
		}
	}
}

// tell tells what has come; false if that was all.
func (t *fetch) tell() (more bool) {
	t.mu.Lock()
	came := t.came
	t.came = nil
	more = t.left > 0
	t.mu.Unlock()
	for _, i := range came {
		b := &t.f.Blocks[i]
		b.Status, b.Checksum = t.blocks[i].answer, t.blocks[i].sum
		if t.f.Arrived != nil {
			t.f.Arrived(i)
		}
	}
	return more
}

// close answers with rest what has not come, and takes nothing in any more. Unless it
// is Late it waits until no memory is in use, which no peer can delay.
func (t *fetch) close(rest transport.Status) {
	t.tell()
	var open []int
	t.mu.Lock()
	t.closed, t.late = true, rest == transport.Late
	for i := range t.blocks {
		if t.blocks[i].answer == transport.Unanswered || t.blocks[i].failed {
			open = append(open, i)
			t.f.Blocks[i].Status = rest
		}
	}
	t.using = len(open)
	t.mu.Unlock()
	t.tell() // what came in between
	for _, i := range open {
		t.blocks[i].close()
	}
	if rest == transport.Late {
		return
	}
	for t.waits() {
		<-t.wake
	}
	for _, i := range open {
		if rest == transport.Refused && t.f.Arrived != nil {
			t.f.Arrived(i)
		}
	}
}

func (t *fetch) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.using > 0
}

// freed is told when nothing touches a block any more that failed, or was closed.
func (t *fetch) freed(i int) {
	t.mu.Lock()
	b := &t.blocks[i]
	released := t.closed && t.late
	switch {
	case !t.closed:
		b.failed = false
		t.cameLocked(i, b.answer)
	case !t.late:
		t.using--
	}
	t.mu.Unlock()
	switch {
	case !released:
		t.awake()
	case t.f.Released != nil:
		t.f.Released(i)
	}
}

func (t *fetch) cameLocked(i int, s transport.Status) {
	t.blocks[i].answer = s
	t.came = append(t.came, i)
	t.left--
}

func (t *fetch) awake() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// hear takes in what the peer sends of a block.
func (t *fetch) hear(f *conn, h *header) error {
	i := int(h.Index)
	if i >= len(t.blocks) {
		return malformed("block %d of %d", i, len(t.blocks))
	}
	switch h.Type {
	case typeNone:
		return t.none(i, transport.Status(h.Code))
	case typeAbort:
		t.fail(i, transport.Miss)
		return nil
	}
	b := &t.blocks[i]
	if wanted, err := t.expect(b, h); err != nil {
		return err
	} else if !wanted {
		return f.drop(h)
	}
	o, err := f.in.into(&b.memory, int(h.Offset), int(h.Length))
	if err != nil {
		return err
	}
	switch o {
	case destinationGone:
		f.s.t.counters.faults.Add(1)
		t.fail(i, transport.Faulted)
		return nil
	case sourceGone:
		t.fail(i, transport.Miss)
		return nil
	}
	t.mu.Lock()
	came := false
	if b.got += h.Length; b.got == b.size && b.answer == transport.Unanswered && !t.closed {
		t.cameLocked(i, transport.Done)
		came = true
	}
	t.mu.Unlock()
	if came {
		t.awake()
	}
	return nil
}

// expect checks a chunk against what has come; false: nobody wants it any more.
func (t *fetch) expect(b *fetched, h *header) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed || b.failed:
		return false, nil
	case b.answer == transport.Miss || b.answer == transport.Faulted:
		return false, nil // it failed, and other connections still carry it
	case b.answer != transport.Unanswered:
		return false, malformed("a chunk of a block that is answered")
	case h.Total != b.size:
		return false, malformed("a block of %d bytes where %d were asked for", h.Total, b.size)
	case !b.seen.add(h.Offset):
		return false, malformed("a chunk came twice")
	}
	b.sum = h.Extra
	return true, nil
}

func (t *fetch) none(i int, s transport.Status) error {
	t.mu.Lock()
	b := &t.blocks[i]
	switch {
	case t.closed || b.failed:
		t.mu.Unlock()
		return nil
	case s != transport.Miss && s != transport.Refused, b.answer != transport.Unanswered, b.seen != seen{}:
		t.mu.Unlock()
		return malformed("status %d of a block that is answered, or begun", s)
	}
	t.cameLocked(i, s)
	t.mu.Unlock()
	t.awake()
	return nil
}

// fail ends a block that cannot be had whole.
func (t *fetch) fail(i int, s transport.Status) {
	t.mu.Lock()
	b := &t.blocks[i]
	if t.closed || b.answer != transport.Unanswered {
		t.mu.Unlock()
		return
	}
	b.answer, b.failed = s, true
	t.mu.Unlock()
	b.close()
}

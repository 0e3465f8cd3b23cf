package rdma

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine/fault"
	"github.com/spillway-kv/spillway/engine/planted"
)

// requestBytesMax is the longest message that asks for blocks by RDMA.
const requestBytesMax = 4 << 20

// Fetch implements transport.Link.
func (l *Link) Fetch(ctx context.Context, kind transport.Kind, body []byte, f *transport.Fetching) ([]byte, error) {
	s := l.session.Load()
	if s == nil || len(f.Blocks) == 0 || ctx.Err() != nil || l.t.plainLeft() > 0 {
		return l.Link.Fetch(ctx, kind, body, f)
	}
	if s != noSession && kind < kindOpen {
		r, err := l.place(ctx, s, body, f)
		if err != nil {
			return nil, err
		}
		if r != nil {
			answer, err, ok := r.run(ctx, kind, body)
			if ok {
				return answer, err
			}
		}
	}
	l.peer.fallbacks.Add(1)
	return l.Link.Fetch(ctx, kind, body, f)
}

// run asks for the blocks, and tells of them until all are answered; false: nothing was told,
// and the fetch has to go by the control.
func (r *request) run(ctx context.Context, kind transport.Kind, body []byte) (answer []byte, err error, ok bool) {
	defer r.leave()
	m := fetchRequest{session: r.s.number, kind: kind, body: body, blocks: make([]wantedBlock, len(r.blocks))}
	if !r.enter(&m) {
		return nil, nil, false
	}
	r.aim(&m)
	message := m.append(make([]byte, 0, m.bytes())) // body is the caller's again when this returns
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan said, 1)
	go func() { // which enter has counted
		defer r.s.running.Done()
		asked <- r.ask(asking, message)
	}()
	for over := false; ; {
		switch open, fate := r.tell(); {
		case fate == withdrawn:
			return nil, nil, false
		case fate == ended && err == nil:
			return nil, r.lost(), true
		case open == 0 && (over || fate == ended):
			if r.cut && err == nil {
				return nil, fmt.Errorf("%w: %w", transport.ErrLost, errClosed), true
			}
			return answer, err, true
		}
		select {
		case <-r.wake:
		case a := <-asked:
			answer, err, over = a.answer, r.heard(&a), ctx.Err() == nil
		case <-ctx.Done():
			r.giveUp()
			return nil, ctx.Err(), true
		}
	}
}

// said is how the control's call of a fetch has ended.
type said struct {
	fetchAnswer
	err error
}

// ask is the control's call of a fetch.
func (r *request) ask(ctx context.Context, message []byte) (a said) {
	b, err := r.s.l.Link.Call(ctx, kindFetch, message)
	if err == nil {
		a.fetchAnswer, err = parseFetched(b)
	}
	a.err = err
	return a
}

// bytes is the length of the message, or a little more.
func (m *fetchRequest) bytes() int {
	n := 64 + len(m.body) + len(m.blocks)*wantedBytes
	for i := range m.blocks {
		n += len(m.blocks[i].pieces) * targetBytes
	}
	return n
}

// heard takes in how the call has ended, and says how the fetch has.
func (r *request) heard(a *said) error {
	remote, refused := errors.AsType[*transport.RemoteError](a.err)
	switch {
	case a.err == nil && a.failed == nil:
		return nil
	case a.err == nil:
		r.takeBack()
		return a.failed
	case refused && remote.Code == transport.CodeUnknown: // the session has ended at the peer
		r.withdraw()
		r.s.fail(a.err)
		return fmt.Errorf("%w: %v", transport.ErrLost, a.err) // whose cause is not this fetch's
	case refused:
		r.takeBack()
	case errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded): // as the fetch's own context
	default:
		r.s.fail(a.err)
		return fmt.Errorf("%w: %v", transport.ErrLost, a.err) // whose cause is not this fetch's
	}
	return a.err
}

// lost is the error of a fetch whose session has failed.
func (r *request) lost() error {
	return fmt.Errorf("%w: blocks were on their way by RDMA: %v", transport.ErrLost, r.s.why())
}

// tell tells what has come, and says how many blocks have not.
func (r *request) tell() (open int, fate requestFate) {
	r.s.mu.Lock()
	came := r.came
	r.came, r.told = nil, r.told+len(came)
	open, fate = r.open, r.fate
	r.s.mu.Unlock()
	for _, i := range came {
		b, to := &r.blocks[i], &r.f.Blocks[i]
		status := b.answer
		if status == transport.Done && b.offset != direct {
			status = r.land(b, to.Dst)
		}
		to.Status, to.Checksum = status, b.sum
		if r.f.Arrived != nil && status != transport.Late && status != transport.Lost {
			r.f.Arrived(i)
		}
	}
	return open, fate
}

// land copies a block from the berth to where it belongs, unless the link is closed.
func (r *request) land(b *placed, dst [][]byte) transport.Status {
	l := r.s.l
	l.copies.RLock()
	defer l.copies.RUnlock()
	if l.closed {
		r.cut = true
		return transport.Lost
	}
	err := fault.Guard(func() {
		var to []byte
		for _, from := range r.berth.pieces(b.offset, int(b.size)) {
			for len(from) > 0 {
				for len(to) == 0 {
					to, dst = dst[0], dst[1:]
				}
				n := copy(to, from)
				to, from = to[n:], from[n:]
			}
		}
	})
	if err != nil {
		return transport.Faulted
	}
	return transport.Done
}

// giveUp answers what has not come with Late: the peer is asked for its word, and the
// destinations are let go of when there is a fence.
func (r *request) giveUp() {
	s := r.s
	r.tell()
	var told releases
	s.mu.Lock()
	r.late = true
	for i := range r.blocks {
		b := &r.blocks[i]
		if !b.open && r.fate != withdrawn {
			continue
		}
		r.f.Blocks[i].Status = transport.Late
		if !b.open || b.offset != direct || planted.Active(planted.SkipFence) {
			told = append(told, released{r, i})
		} else {
			b.owed = true
		}
	}
	s.askFenceLocked(r)
	s.mu.Unlock()
	r.tell() // what came in between
	told.tell()
}

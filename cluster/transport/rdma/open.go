package rdma

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// probeTime is how long a caller waits for the first write over a rail. The retries of a
// sender have ended by then, with the default path.
const probeTime = time.Second

// errNever says that the peer does not know RDMA.
var errNever = errors.New("the peer has no RDMA")

// open makes a session: one rail for each port that works.
func (l *Link) open() (*session, error) {
	s := newSession(l)
	err := s.makeRails()
	if err == nil {
		err = s.agree()
	}
	if err == nil {
		err = s.hear()
	}
	if err == nil {
		err = s.why() // it may have failed already
	}
	if err != nil {
		s.fail(err)
		s.end()
		return nil, err
	}
	s.running.Go(s.fence)
	return s, nil
}

func (s *session) makeRails() error {
	var whyNot []error
	for _, p := range s.l.t.ports {
		if p.broken.Load() {
			whyNot = append(whyNot, fmt.Errorf("%s: a queue pair could not be destroyed", p.info.Name()))
			continue
		}
		r, err := newRail(p)
		if err != nil {
			whyNot = append(whyNot, err)
			continue
		}
		r.number = uint8(len(s.all))
		s.all = append(s.all, r)
	}
	if len(s.all) == 0 {
		return errors.Join(whyNot...)
	}
	return nil
}

// agree tells the peer of the rails, and connects those that it takes.
func (s *session) agree() error {
	o := &s.l.t.o
	ask := openRequest{lines: math.MaxInt}
	for _, r := range s.all {
		ask.rails = append(ask.rails, r.callerRail())
		ask.lines = min(ask.lines, len(r.lines))
	}
	for _, r := range s.all {
		r.shorten(ask.lines)
	}
	ctx, cancel := context.WithTimeout(s.l.ctx, o.OpenTime)
	defer cancel()
	b, err := s.l.Link.Call(ctx, kindOpen, ask.append(nil))
	if remote, ok := errors.AsType[*transport.RemoteError](err); ok && remote.Code == transport.CodeUnknown {
		return errNever
	}
	if err != nil {
		return fmt.Errorf("ask the peer for RDMA: %w", err)
	}
	answer, err := parseOpened(b, len(s.all))
	if err != nil {
		return err
	}
	s.number, s.most = answer.session, int64(min(uint64(o.InFlight), answer.inFlight))
	s.bytes = semaphore.NewWeighted(s.most)
	whyNot := []error{errors.New("the peer has no port for any of ours")}
	for i, r := range s.all {
		if answer.rails[i].Number == 0 {
			continue
		}
		if err := r.pair.Connect(answer.rails[i].Endpoint, o.Path); err != nil {
			whyNot = append(whyNot, fmt.Errorf("connect %s: %w", r.port.info.Name(), err))
			continue
		}
		s.rails = append(s.rails, r)
	}
	if len(s.rails) == 0 {
		return errors.Join(whyNot...)
	}
	return nil
}

// hear holds the session, and leaves those rails out over which nothing comes.
func (s *session) hear() error {
	for _, r := range s.rails {
		r.received = make(chan struct{})
		go s.receive(r)
	}
	s.running.Go(s.hold)
	ctx, cancel := context.WithTimeout(s.l.ctx, probeTime)
	defer cancel()
	var works, silent []*rail
	lines := 0
	for _, r := range s.rails {
		if s.probed(ctx, r) {
			works = append(works, r)
			lines += len(r.lines)
		} else {
			silent = append(silent, r)
		}
	}
	s.rails, s.lines, s.linesMax = works, semaphore.NewWeighted(int64(lines)), lines
	var whyNot []error
	for _, r := range silent {
		whyNot = append(whyNot, fmt.Errorf("nothing comes from the peer over %s: %w", r.port.info.Name(), errSilent), r.destroy())
	}
	if len(works) == 0 {
		return errors.Join(append(whyNot, s.why())...)
	}
	if len(silent) > 0 {
		s.l.t.o.Logger.Warn("an RDMA port does not reach a peer", "peer", s.l.name(), "err", errors.Join(whyNot...))
	}
	return nil
}

// errSilent is what is wrong with a rail without its probe.
var errSilent = errors.New("is there a way between the two ports?")

// probed waits for the first write over a rail.
func (s *session) probed(ctx context.Context, r *rail) bool {
	select {
	case <-r.probe:
	case <-ctx.Done():
	case <-s.failing:
	case <-s.l.Gone():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.probed
}

// hold tells the peer that the session is in use, until it answers that it is not any more,
// or the session has ended here.
func (s *session) hold() {
	b, err := s.l.Link.Call(s.ctx, kindHold, appendHold(nil, s.number))
	if err == nil {
		err = fmt.Errorf("the peer says: %q", b[:min(len(b), 200)])
	}
	s.fail(err)
}

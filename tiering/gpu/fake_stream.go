package gpu

import (
	"context"
	"math"
)

// fakeStream keeps what it is given until somebody asks for an event behind it.
type fakeStream struct {
	device *fakeDevice
	queued []func() // guarded by the driver's mu, as is done
	done   int      // so many of all that were ever queued
}

func (s *fakeStream) ToDevice(copies []Copy) error { return s.queue(copies, true) }
func (s *fakeStream) ToHost(copies []Copy) error   { return s.queue(copies, false) }

func (s *fakeStream) queue(copies []Copy, toDevice bool) error {
	const call = "cuMemcpyAsync"
	if err := checkCopies(call, copies); err != nil {
		return err
	}
	f := s.device.driver
	if err := f.fail(call); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var work []func()
	for _, c := range copies {
		device := s.device.memory.findLocked(c.Device, len(c.Host))
		if device == nil || !f.registeredLocked(c.Host) {
			return fault(call, codeInvalidValue)
		}
		target, source := c.Host, device
		if toDevice {
			target, source = device, c.Host
		}
		work = append(work, func() { copy(target, source) })
	}
	s.queued = append(s.queued, work...)
	return nil
}

func (s *fakeStream) OnDevice(to, from Pointer, nBytes uint64) error {
	const call = "cuMemcpyDtoDAsync"
	f := s.device.driver
	if err := f.fail(call); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	target, source := s.device.memory.findLocked(to, int(nBytes)), s.device.memory.findLocked(from, int(nBytes))
	if nBytes > math.MaxInt || target == nil || source == nil {
		return fault(call, codeInvalidValue)
	}
	s.queued = append(s.queued, func() { copy(target, source) })
	return nil
}

// runLocked does what was queued until so many are done in all.
func (s *fakeStream) runLocked(until int) {
	for s.done < until {
		work := s.queued[0]
		s.queued = s.queued[1:]
		s.done++
		work()
	}
}

func (s *fakeStream) Record() (Event, error) {
	f := s.device.driver
	if err := f.fail("cuEventRecord"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &fakeEvent{stream: s, until: s.done + len(s.queued), polls: f.options.Polls}, nil
}

func (s *fakeStream) Await(event Event) error {
	f := s.device.driver
	if err := f.fail("cuStreamWaitEvent"); err != nil {
		return err
	}
	e, ok := event.(*fakeEvent)
	if !ok || e.stream.device.driver != f {
		return fault("cuStreamWaitEvent", codeInvalidValue)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.queued = append(s.queued, func() { e.stream.runLocked(e.until) })
	return nil
}

func (s *fakeStream) Close() error {
	f := s.device.driver
	f.mu.Lock()
	defer f.mu.Unlock()
	s.runLocked(s.done + len(s.queued))
	return f.fail("cuStreamDestroy")
}

type fakeEvent struct {
	stream *fakeStream
	until  int
	polls  int
}

func (e *fakeEvent) Done() (bool, error) {
	f := e.stream.device.driver
	if err := f.fail("cuEventQuery"); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.stream.done < e.until && e.polls > 0 {
		e.polls--
		return false, nil
	}
	e.stream.runLocked(e.until)
	return true, nil
}

func (e *fakeEvent) Wait(ctx context.Context) error { return poll(ctx, e.Done) }

func (e *fakeEvent) Close() error { return e.stream.device.driver.fail("cuEventDestroy") }

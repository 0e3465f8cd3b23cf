package engine

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// monitor judges the drive by what the transfers of blocks show, and keeps a
// sick drive from making anybody wait: while it is sick, gets miss and puts are
// dropped at once, and the watcher probes it until it is well. Everything here
// is guarded by Store.mu.
//
// Failed: half of the last 16 transfers ended in an I/O error. Fail-slow: a
// transfer has been under way, its wait for a turn apart, for Options.StuckAfter,
// or the median of three seconds in a row (for each MiB of larger blocks) was 32 times
// the usual one and above 100 ms.
type monitor struct {
	first, last *transfer // handed over and not ended, in this order
	lastEnd     time.Time // of a transfer, or when first became the only one
	passed      time.Time // when one behind first ended: first is under way since then at the latest; or zero
	outcomes    uint64    // newest in bit 0; 1 = I/O error
	seen        int       // outcomes recorded, up to 64
	window      [64]uint32
	windowCount uint32
	usualNS     float64 // slow average of the windows' medians
	slowWindows int

	looked time.Time // the watcher's latest look
	awake  time.Time // since then it looks every second: what the process slept through is not the drive's time

	sick        error // nil while the drive is well
	commitSince time.Time
	goodProbes  int
	probing     bool
	nextProbe   time.Time
	probePause  time.Duration
}

// transfer is one block transfer in flight.
type transfer struct {
	prev, next *transfer
}

const (
	failOf, failAt  = 16, 8 // failed: failAt errors among the last failOf
	slowFactor      = 32
	slowFloorNS     = 100e6
	slowWindowsMax  = 3
	windowCountMin  = 32
	probesNeeded    = 3
	probePauseStart = time.Second
	probePauseMax   = 30 * time.Second
	// asleepAfter is between two looks of the watcher when the whole process was stopped.
	asleepAfter = 2 * keeperInterval
)

// startLocked counts a transfer in.
func (s *Store) startLocked(t *transfer, now time.Time) {
	s.transfers++
	m := &s.monitor
	*t = transfer{prev: m.last}
	if m.last == nil {
		m.first, m.lastEnd, m.passed = t, now, time.Time{}
	} else {
		m.last.next = t
	}
	m.last = t
}

// endLocked counts it out, with how it went.
func (s *Store) endLocked(t *transfer, op *device.Op) {
	s.transfers--
	m := &s.monitor
	m.lastEnd = time.Now()
	if t.prev == nil {
		m.first, m.passed = t.next, time.Time{}
	} else {
		t.prev.next = t.next
		if m.passed.IsZero() {
			m.passed = m.lastEnd
		}
	}
	if t.next == nil {
		m.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	switch {
	case op.Err != nil && device.NotTheDrive(op.Err):
		return
	case op.Err != nil && !errors.Is(op.Err, io.ErrUnexpectedEOF):
		m.outcomes = m.outcomes<<1 | 1
		m.seen = min(m.seen+1, 64)
		if m.seen >= failOf && bits.OnesCount64(m.outcomes&(1<<failOf-1)) >= failAt {
			s.sickenLocked(fmt.Errorf("%w: failed: %d of the last %d transfers ended in an error, the newest: %w", ErrSick,
				bits.OnesCount64(m.outcomes&(1<<failOf-1)), failOf, op.Err))
		}
		return
	}
	m.outcomes <<= 1
	m.seen = min(m.seen+1, 64)
	// Large blocks count by the MiB, so that their coming is no slowness.
	if ns := int(op.DoneAt.Sub(op.StartedAt)) / max(op.N>>20, 1); ns > 0 {
		m.window[bits.Len64(uint64(ns))]++
		m.windowCount++
	}
}

// stuckLocked is how long the oldest transfer has been under way at least, not
// counting its wait for a turn: one behind it has ended since, or none has at all.
func (m *monitor) stuckLocked(now time.Time) time.Duration {
	switch {
	case m.first == nil:
		return 0
	case m.passed.IsZero():
		return now.Sub(m.lastEnd)
	}
	return now.Sub(m.passed)
}

// sickenLocked marks the drive. The first cause stays until it is well.
func (s *Store) sickenLocked(cause error) {
	m := &s.monitor
	if m.sick != nil {
		return
	}
	m.sick = cause
	m.goodProbes, m.probePause = 0, probePauseStart
	m.nextProbe = time.Now().Add(m.probePause)
	s.counters.SickPeriods++
	s.log.Error("the drive is sick: gets miss and puts are dropped until it is well", "cause", cause)
	s.wakeLocked()
}

// watch looks at the drive, and at what time has ended, once a second. It is
// not the keeper's work: the keeper waits for the drive.
func (s *Store) watch(stop <-chan struct{}) {
	tick := time.NewTicker(keeperInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			s.mu.Lock()
			s.endLeasesLocked()
			s.watchLocked(time.Now())
			s.wakeLocked()                     // a lease or a pause of growth may have ended
			if s.index.trouble.failed.Load() { // with a full log nobody else would notice
				s.failLocked(fmt.Errorf("index: %w", errIndexFailed))
			}
			s.mu.Unlock()
			s.probe(time.Now())
		}
	}
}

// watchLocked is the watcher's look once a second.
func (s *Store) watchLocked(now time.Time) {
	m := &s.monitor
	if now.Sub(m.looked) > asleepAfter {
		m.awake = now
	}
	m.looked = now
	awake := now.Sub(m.awake)
	if stuck := min(m.stuckLocked(now), awake); stuck >= s.opts.StuckAfter {
		s.sickenLocked(fmt.Errorf("%w: fail-slow: a transfer has been in flight for %v", ErrSick, stuck.Round(time.Millisecond)))
	}
	if stuck := min(now.Sub(m.commitSince), awake); !m.commitSince.IsZero() && stuck >= s.opts.StuckAfter {
		s.sickenLocked(fmt.Errorf("%w: fail-slow: a sync has been in flight for %v", ErrSick, stuck.Round(time.Millisecond)))
	}
	if m.windowCount < windowCountMin {
		return
	}
	median := m.medianNS()
	m.window, m.windowCount = [64]uint32{}, 0
	if m.usualNS > 0 && median > slowFactor*m.usualNS && median > slowFloorNS {
		if m.slowWindows++; m.slowWindows >= slowWindowsMax {
			s.sickenLocked(fmt.Errorf("%w: fail-slow: transfers take %v, usually %v", ErrSick,
				time.Duration(median).Round(time.Microsecond), time.Duration(m.usualNS).Round(time.Microsecond)))
		}
		return
	}
	m.slowWindows = 0
	if m.usualNS == 0 {
		m.usualNS = median
	}
	m.usualNS += (median - m.usualNS) / 32
}

// medianNS is the middle of the bucket that holds the window's median.
func (m *monitor) medianNS() float64 {
	left := (m.windowCount + 1) / 2
	for i, n := range m.window {
		if n >= left {
			return 0.75 * float64(uint64(1)<<i)
		}
		left -= n
	}
	return 0
}

// probe reads a segment's header, as a sick drive's chance to show that it is
// well. It never waits: the answer comes on a goroutine of the device.
func (s *Store) probe(now time.Time) {
	if op := s.probeOp(now); op != nil {
		s.dev.Submit([]*device.Op{op}) // Done takes mu
	}
}

// probeOp is the probe that is due, nil if none is.
func (s *Store) probeOp(now time.Time) *device.Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.monitor
	if m.sick == nil || m.probing || s.closing || now.Before(m.nextProbe) {
		return nil
	}
	var file device.File
	for _, g := range s.segments {
		file = g.file
		break
	}
	if file == nil { // nothing to read: give it another chance
		s.recoverLocked()
		return nil
	}
	m.probing = true
	s.calls.Add(1)
	op := &device.Op{Kind: device.Read, File: file, Bufs: [][]byte{device.AlignedBuffer(headerBytes, headerBytes)}}
	op.Done = func(op *device.Op) { s.probed(op, now) }
	return op
}

// probed judges a probe's answer.
func (s *Store) probed(op *device.Op, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.calls.Done()
	m := &s.monitor
	m.probing = false
	now := time.Now()
	stuck := m.stuckLocked(now) >= s.opts.StuckAfter ||
		!m.commitSince.IsZero() && now.Sub(m.commitSince) >= s.opts.StuckAfter
	if op.Err != nil || stuck || now.Sub(began) > s.opts.StuckAfter/10 {
		m.goodProbes = 0
		m.probePause = min(2*m.probePause, probePauseMax)
	} else if m.goodProbes++; m.goodProbes >= probesNeeded {
		s.recoverLocked()
		return
	} else {
		m.probePause = probePauseStart
	}
	m.nextProbe = now.Add(m.probePause)
}

func (s *Store) recoverLocked() {
	m := &s.monitor
	s.log.Info("the drive is well again", "was", m.sick)
	m.sick, m.outcomes, m.seen, m.slowWindows = nil, 0, 0, 0
	s.wakeLocked()
}

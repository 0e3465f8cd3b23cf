package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// history is a log's owner through several crashes, and what it may expect.
type history struct {
	t       *testing.T
	name    string
	disk    *sim.Disk
	rng     *rand.Rand
	opts    Options
	life    uint64
	records [][]byte // by position - 1; what the log holds or may hold
	synced  Position // acknowledged by Sync
	index   Position // what the owner's index has made durable
	claimed Position // passed to SetDataSynced
}

// live runs one life until it has done steps things or the device dies.
// strikeAt is the call of the device before or during which it dies.
func (h *history) live(steps, strikeAt int, during bool, strike func()) (calls int) {
	h.life++
	inner := mustOpenDisk(h.t, h.disk)
	dev := &tap{Device: inner, strikeAt: strikeAt, during: during, strike: strike}
	l := h.open(dev)
	if l != nil {
		for range steps {
			if !h.step(l) {
				break
			}
		}
		if err := l.Close(); err == nil {
			h.synced = l.Last()
		} else if !errors.Is(err, sim.ErrKilled) {
			h.fail("close: %v", err)
		}
	}
	if err := inner.Close(); err != nil && !errors.Is(err, sim.ErrKilled) {
		h.fail("device: %v", err)
	}
	return dev.calls
}

func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s, life %d: %s", h.name, h.life, fmt.Sprintf(format, args...))
}

// open recovers, checks, and opens the log; nil if the device died.
func (h *history) open(dev device.Device) *Log {
	records, found, err := recoverAll(dev, h.opts, h.index)
	if err != nil {
		return h.died("recover", err)
	}
	if _, err := dev.List(); err != nil {
		return h.died("list", err) // it died at the end of the recovery
	}
	h.check(records, found)
	o := h.opts
	if h.rng.IntN(3) == 0 { // the owner makes its index durable before Open, else after
		h.index, o.Trimmed = found.Last, found.Last
	}
	l, err := Open(dev, o, found.Last+1)
	if err != nil {
		return h.died("open", err)
	}
	h.index = found.Last
	h.synced = max(h.synced, found.Last)
	l.Trim(found.Last)
	return l
}

func (h *history) died(what string, err error) *Log {
	h.t.Helper()
	if !errors.Is(err, sim.ErrKilled) {
		h.fail("%s: %v", what, err)
	}
	return nil
}

// check demands a prefix of what was appended, at least what was synced.
func (h *history) check(records []record, found Recovered) {
	h.t.Helper()
	if len(found.Gaps) > 0 {
		h.fail("gaps without damage: %+v", found.Gaps)
	}
	if found.Last < h.synced || found.Last < h.index || found.Last > Position(len(h.records)) {
		h.fail("last %d: synced %d, index %d, appended %d, tail %v (%v)",
			found.Last, h.synced, h.index, len(h.records), found.Tail, found.TailCause)
	}
	if found.DataSynced > h.claimed {
		h.fail("data-synced %d, claimed %d", found.DataSynced, h.claimed)
	}
	at := h.index
	for _, r := range records {
		if at++; r.position != at {
			h.fail("position %d where %d should be", r.position, at)
		}
		if !bytes.Equal(r.payload, h.records[at-1]) {
			h.fail("wrong bytes at position %d: %x, want %x", at, r.payload[:16], h.records[at-1][:16])
		}
	}
	if at != found.Last {
		h.fail("replay ends at %d, last is %d", at, found.Last)
	}
	h.records = h.records[:found.Last]
}

// step does one random thing; false if the log has died.
func (h *history) step(l *Log) bool {
	var err error
	switch last := l.Last(); h.rng.IntN(10) {
	default:
		n := h.rng.IntN(3000)
		if h.rng.IntN(8) == 0 {
			n = h.rng.IntN(30000)
		}
		payload := payloadOf(h.life, last+1, n)
		_, err = l.Append(payload, h.rng.IntN(4) == 0)
		if err == nil {
			h.records = append(h.records, payload)
		} else if errors.Is(err, ErrFull) {
			if err = l.Write(last); err == nil {
				h.trim(l, last)
			}
		}
	case 6:
		if err = l.Sync(last); err == nil {
			h.synced = max(h.synced, last)
		}
	case 7:
		err = l.Write(last)
	case 8:
		time.Sleep(time.Duration(h.rng.IntN(30)) * time.Millisecond)
		if w := l.Written(); w > h.index && h.rng.IntN(2) == 0 {
			h.trim(l, h.index+1+Position(h.rng.Uint64N(uint64(w-h.index))))
		}
	case 9:
		h.claimed = max(h.claimed, last)
		l.SetDataSynced(last)
		if got := l.DiskBytes(); got > h.opts.FileBytes*int64(h.opts.FilesMax+2) {
			h.fail("log takes %d bytes", got)
		}
	}
	if err != nil && !errors.Is(err, sim.ErrKilled) {
		h.fail("step: %v", err)
	}
	return err == nil
}

func (h *history) trim(l *Log, p Position) {
	h.index = p
	l.Trim(p)
}

func newHistory(t *testing.T, seed uint64, power bool, what string) *history {
	return &history{
		t: t, name: fmt.Sprintf("seed %d, power cut %v, %s", seed, power, what),
		disk: sim.NewDisk(sim.Config{Seed: seed, MinLatency: time.Millisecond, MaxLatency: 3 * time.Millisecond}),
		rng:  rand.New(rand.NewPCG(seed, 1)), opts: smallLog(),
	}
}

const crashSteps = 150

// crashAt runs a first life that dies at call k, then three more that die at
// random calls, then one that lives, and a last look. It returns the calls of
// the first life.
func crashAt(t *testing.T, seed uint64, k int, power bool) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, seed, power, fmt.Sprintf("call %d", k))
		strike := h.disk.Kill
		if power {
			strike = h.disk.PowerCut
		}
		calls = h.live(crashSteps, k, h.rng.IntN(2) == 0, strike)
		for range 3 {
			h.live(crashSteps, 1+h.rng.IntN(120), h.rng.IntN(2) == 0, strike)
		}
		h.live(crashSteps, 0, false, nil)
		if logged := logBytes(t, h.disk); logged > h.opts.FileBytes*int64(h.opts.FilesMax) {
			h.fail("log takes %d bytes on disk", logged)
		}
		h.live(0, 0, false, nil)
	})
	return calls
}

// TestCrashAtEveryCall kills the process, or the machine, before or during every
// single call of the device in a first life, Open and rotation included.
func TestCrashAtEveryCall(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		for _, power := range []bool{false, true} {
			calls := crashAt(t, seed, 0, power)
			t.Logf("seed %d, power cut %v: %d calls", seed, power, calls)
			for k := 1; k <= calls; k++ {
				if crashAt(t, seed, k, power); t.Failed() {
					return
				}
			}
		}
	}
}

// TestCrashLoopIsBounded starts a log again and again, dying each time at
// another call before the first Trim: the directory must not grow.
func TestCrashLoopIsBounded(t *testing.T) {
	for _, power := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(t, 99, power, "crash loop")
			h.live(crashSteps, 0, false, nil)
			strike := h.disk.Kill
			if power {
				strike = h.disk.PowerCut
			}
			for k := range 150 {
				h.live(0, 1+k%30, k%2 == 0, strike)
				if n := len(h.disk.Names()); n > h.opts.FilesMax+2 {
					h.fail("%d files after %d starts", n, k+1)
				}
			}
			h.live(crashSteps, 0, false, nil)
		})
	}
}

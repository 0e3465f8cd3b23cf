package run

import (
	"context"
	"time"

	"github.com/spillway-kv/spillway/fio/load"
)

// written turns the writes of a source into reads of what they wrote, and leaves
// its reads out. It ends after as many ops as the source gave before.
type written struct {
	load.Source
	left int64
}

// Next implements load.Source.
func (s *written) Next(nowNS int64, op *load.Op) load.Answer {
	for s.left > 0 {
		if answer := s.Source.Next(nowNS, op); answer != load.Ready {
			return answer
		}
		s.left--
		if op.Kind == load.Write {
			op.Kind, op.FillOnMiss = load.Read, false
			return load.Ready
		}
	}
	return load.End
}

// endless is more ops than any job has.
const endless = 1 << 62

// firstSource is the load of the worker; of a job that only verifies, the reads of
// what it would write.
func (w *worker) firstSource() (load.Source, error) {
	if w.k.r.c.Source != nil {
		return w.k.r.c.Source(w.j, w.config)
	}
	work, err := load.New(w.j, w.config)
	if err != nil {
		return nil, err
	}
	w.work = work
	if w.j.VerifyOnly {
		return &written{work, endless}, nil
	}
	return work, nil
}

// closeSource closes what the load has open.
func (w *worker) closeSource() error {
	if w.work == nil {
		return nil
	}
	work := w.work
	w.work = nil
	return work.Close()
}

// readBack reads all that was written, as quickly as it goes. A source made anew
// makes the same ops again.
func (w *worker) readBack(ctx context.Context) error {
	if w.k.stopping.Load() {
		return nil
	}
	j := *w.j
	j.RateBytes, j.RateIOPS, j.ThinkTime = [2]int64{}, [2]int64{}, 0
	if err := w.closeSource(); err != nil {
		return err
	}
	work, err := load.New(&j, w.config)
	if err != nil {
		return err
	}
	w.work, w.source = work, &written{work, w.begun.Load()}
	w.held, w.over = false, false
	w.recorder.ReadBack(w.sinceStart(time.Now()))
	w.endAt, w.beginAt = time.Time{}, time.Time{}
	return w.loop(ctx)
}

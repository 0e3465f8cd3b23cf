package run

import (
	"sync"
	"time"
)

// Progress is how far a run is.
type Progress struct {
	Job         string // one that runs now; "" between phases
	Jobs        int    // that run now
	Phase       int    // from 1
	Ops         int64  // ended well, of the jobs that run
	Bytes       int64  // of them
	OpsPerSec   float64
	BytesPerSec float64
	// Share is how much of the running jobs is done, 0 to 1, and Left how long they
	// will take; both are -1 if nobody knows.
	Share float64
	Left  time.Duration
}

// progressInterval is the time between two looks.
const progressInterval = 200 * time.Millisecond

// every calls step each interval on a goroutine of its own, until stop has returned.
func every(interval time.Duration, step func()) (stop func()) {
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				step()
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		running.Wait()
	}
}

// watch starts what looks at the run from outside.
func (r *runner) watch() (stop func()) {
	stops := []func(){}
	if r.c.Progress != nil {
		var before Progress
		at := r.c.Start
		stops = append(stops, every(progressInterval, func() {
			now := time.Now()
			p := r.progress(now)
			if seconds := now.Sub(at).Seconds(); seconds > 0 && p.Phase == before.Phase {
				p.OpsPerSec, p.BytesPerSec = float64(p.Ops-before.Ops)/seconds, float64(p.Bytes-before.Bytes)/seconds
			}
			before, at = p, now
			r.c.Progress(p)
		}))
	}
	if r.c.Status != nil && r.c.StatusInterval > 0 {
		stops = append(stops, every(r.c.StatusInterval, r.c.Status))
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

// progress adds up the jobs that run.
func (r *runner) progress(now time.Time) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Phase: r.number, Share: 2}
	for _, k := range r.crews {
		select {
		case <-r.ended[k.index]:
			continue
		default:
		}
		p.Job = k.job.Name
		p.Jobs++
		for _, w := range k.workers {
			p.Ops += w.doneOps.Load()
			p.Bytes += w.doneBytes.Load()
			share, left := w.progress(now)
			p.Share = min(p.Share, share)
			p.Left = max(p.Left, left)
		}
	}
	if p.Jobs == 0 || p.Share < 0 {
		p.Share, p.Left = -1, -1
	}
	return p
}

// progress is that of one worker; -1 if it is unknown.
func (w *worker) progress(now time.Time) (share float64, left time.Duration) {
	startedNS := w.startedNS.Load()
	if startedNS == 0 {
		return 0, w.j.RampTime + w.j.Runtime
	}
	ran := now.Sub(w.k.r.c.Start) - time.Duration(startedNS)
	share, left = -1, -1
	if total := w.totals.Load(); total > 0 {
		share = min(1, float64(w.doneBytes.Load())/float64(total))
		if share > 0 {
			left = time.Duration(float64(ran) * (1 - share) / share)
		}
	}
	if limit := w.j.RampTime + w.j.Runtime; w.j.Runtime > 0 && (left < 0 || limit-ran < left) {
		share, left = max(share, min(1, float64(ran)/float64(limit))), max(0, limit-ran)
	}
	return share, left
}

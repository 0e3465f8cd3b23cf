package result

import (
	"sync"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// Recorder counts what one worker does. It allocates nothing after it was made.
// All methods may be called from several goroutines, but each I/O takes its lock,
// so a recorder per worker goroutine costs least.
type Recorder struct {
	config WorkerConfig

	mu         sync.Mutex
	directions [directionCount]*tally // nil for those the worker does not use
	depths     [len(depthLabels)]uint64
	submits    [len(batchLabels)]uint64
	completes  [len(batchLabels)]uint64
	ranges     [rangeCount]uint64 // of clat, all directions, as in fio
	beginNS    int64
	endNS      int64 // -1 while it runs
	begun      bool
	before     Usage // of the process, at begin
	after      Usage // at end
	errno      int   // of the first error
	errText    string
	steady     *SteadyState
	prefix     *prefixTally // nil: no request yet
	origin     *OriginSpan  // nil: nobody counted
	turnNS     int64        // when the worker had written all and began to read it back; 0: it did not
	turnReads  bool         // it has read before, too
}

// tally is what is counted of one direction.
type tally struct {
	slat, clat histogram.Histogram
	lat        histogram.Histogram  // from the intended start with open-loop load
	service    *histogram.Histogram // from issue to done; only with open-loop load
	bytes      uint64
	shorts     uint64
	outcomes   [outcomeCount]uint64
	series     series
}

func newRecorder(config WorkerConfig) *Recorder {
	r := &Recorder{config: config, endNS: -1}
	directions := config.Directions
	if len(directions) == 0 {
		directions = []Direction{Read, Write}
	}
	for _, d := range directions {
		t := &tally{}
		if config.OpenLoop {
			t.service = &histogram.Histogram{}
		}
		r.directions[d] = t
	}
	return r
}

// Begin starts the measured time: when the worker starts, or at the end of its
// ramp. I/Os recorded before it are forgotten.
func (r *Recorder) Begin(nowNS int64) {
	fresh := newRecorder(r.config)
	usage := ProcessUsage()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.directions = fresh.directions
	r.depths, r.submits, r.completes, r.ranges = fresh.depths, fresh.submits, fresh.completes, fresh.ranges
	r.prefix = nil
	r.beginNS, r.endNS, r.begun, r.before, r.turnNS = nowNS, -1, true, usage, 0
}

// End ends the measured time. I/Os that finish later may still be recorded.
func (r *Recorder) End(nowNS int64) {
	usage := ProcessUsage()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endNS, r.after = nowNS, usage
}

// Submit counts a batch of n I/Os submitted at once, after which depth were in
// flight.
func (r *Recorder) Submit(n, depth int) {
	r.mu.Lock()
	r.submits[batchIndex(n)]++
	r.depths[depthIndex(depth)] += uint64(n)
	r.mu.Unlock()
}

// Complete counts a wait that returned n finished I/Os.
func (r *Recorder) Complete(n int) {
	r.mu.Lock()
	r.completes[batchIndex(n)]++
	r.mu.Unlock()
}

// Record counts one finished I/O. Its direction must be one of the worker's.
func (r *Recorder) Record(io IO) {
	r.mu.Lock()
	t := r.directions[io.Direction]
	t.outcomes[io.Outcome]++
	if io.Outcome == Done {
		latencyNS := io.DoneNS - io.IssuedNS
		if t.service != nil {
			t.service.Record(latencyNS)
			latencyNS = io.DoneNS - io.IntendedNS
		}
		if io.SubmittedNS >= 0 {
			t.slat.Record(io.SubmittedNS - io.IssuedNS)
		} else {
			io.SubmittedNS = io.IssuedNS
		}
		t.clat.Record(io.DoneNS - io.SubmittedNS)
		t.lat.Record(latencyNS)
		r.ranges[rangeIndex(io.DoneNS-io.SubmittedNS)]++
		t.bytes += uint64(io.Bytes)
		fromNS, _ := r.span(io.Direction, 0)
		t.series.add(io.DoneNS-fromNS, io.Bytes, latencyNS)
	}
	r.mu.Unlock()
}

// Short counts an I/O of which only a part was done. It is not recorded as well.
func (r *Recorder) Short(d Direction) {
	r.mu.Lock()
	r.directions[d].shorts++
	r.mu.Unlock()
}

// ReadBack tells that the worker has written all and begins to read it back: the
// rates of the writes end here, and those of the reads begin, unless it has read
// before.
func (r *Recorder) ReadBack(nowNS int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnNS = max(nowNS, 1)
	r.turnReads = r.directions[Read] != nil && total(r.directions[Read].outcomes[:]) > 0
}

// span is the time in which the worker, which ended at endNS, used a direction. The
// lock is held.
func (r *Recorder) span(d Direction, endNS int64) (fromNS, toNS int64) {
	switch {
	case r.turnNS == 0 || d == Read && r.turnReads:
		return r.beginNS, endNS
	case d == Read:
		return r.turnNS, endNS
	default:
		return r.beginNS, r.turnNS
	}
}

// Settle notes how steady the job is; the last call counts. A worker of the job
// tells for all of it.
func (r *Recorder) Settle(s SteadyState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steady = &s
}

// Fail notes why the worker could not go on, or its first error when it did. errno
// is the system's number, or EIO where there is none. Later calls change nothing.
func (r *Recorder) Fail(errno int, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.errno == 0 {
		r.errno, r.errText = errno, text
	}
}

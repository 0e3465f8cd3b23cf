package history

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine/device/sim"
)

// Result is the judgement of one history.
type Result struct {
	Err     error // nil: every promise was kept
	Figures Figures
}

// Run carries a history out in virtual time, within a bubble of
// testing/synctest. It leaves no goroutine behind. A call that never returns
// ends the process with a panic that tells the seed and all stacks.
func Run(t *testing.T, h *History) (res Result) {
	// Goroutines that spin, or wait for a mutex, hold virtual time still.
	alarm := time.AfterFunc(realTimeMax, func() {
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("history %d (%s) takes more than %v of real time\n%s",
			h.Seed, h.Mode, realTimeMax, stacks[:runtime.Stack(stacks, true)]))
	})
	defer alarm.Stop()
	synctest.Test(t, func(*testing.T) {
		r := newRunner(h)
		r.run()
		res = Result{r.err, r.model.checked}
	})
	return res
}

// realTimeMax is what no history takes, by far.
const realTimeMax = 3 * time.Minute

// runner is one run of a history. The root goroutine owns it; clients and
// helpers, all waited for, use what is guarded.
type runner struct {
	h     *History
	model *model
	disk  *sim.Disk
	index *vfs.MemFS
	log   *logBook
	calls *callBook
	real  bool // real time: nothing says how long a call may take, nobody pauses

	mu      sync.Mutex
	err     error // the first broken promise
	evicted int   // by the lives that are over

	config chan struct{} // holds one token: changes of namespaces happen one by one
	life   *life
}

func newRunner(h *History) *runner {
	c := &h.Config
	sector := c.AlignBytes
	if c.SectorsUnlike {
		sector = 512
	}
	r := &runner{h: h, model: newModel(h), index: vfs.NewCrashableMem(), log: newLogBook(),
		calls: newCallBook(), config: make(chan struct{}, 1)}
	r.disk = sim.NewDisk(sim.Config{Seed: h.Seed, SectorBytes: sector, MemAlignBytes: 512, OffsetAlignBytes: c.AlignBytes,
		QueueDepth: 32, CapacityBytes: c.DiskBytes, MinLatency: c.LatencyMin, MaxLatency: c.LatencyMax})
	r.config <- struct{}{}
	return r
}

func (r *runner) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// check fails the history if err is not nil.
func (r *runner) check(err error) {
	if err != nil {
		r.fail("%w", err)
	}
}

func (r *runner) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

func (r *runner) run() {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r.watch(stop)
	}()
	for i := range r.h.Lives {
		if r.failed() {
			break
		}
		r.live(i, &r.h.Lives[i])
	}
	if !r.failed() {
		r.finish()
	}
	close(stop)
	<-stopped
	r.model.checked.Evicted, r.model.checked.Lost = r.evicted, r.model.lost
	for _, n := range counts(r.disk.Injected()) {
		r.model.checked.Injected += n
	}
	if r.err != nil {
		r.err = fmt.Errorf("%w\nlast lines of the store:\n%s", r.err, r.log.tail())
	}
}

func counts(c sim.Counts) []uint64 {
	return []uint64{c.ReadEIO, c.WriteEIO, c.SyncEIO, c.MetaEIO, c.ShortRead, c.ShortWrite, c.TruncatedRead,
		c.LostWrite, c.MisdirectedWrite, c.TornWrite, c.BitRot, c.Delay, c.StuckOnce}
}

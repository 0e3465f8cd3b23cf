package history

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
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

	mu      sync.Mutex
	err     error // the first broken promise
	evicted int   // by the lives that are over

	config chan struct{} // holds one token: changes of namespaces happen one by one
	life   *life
}

// life is one process.
type life struct {
	number  int
	store   *engine.Store
	spaces  []*engine.Namespace
	over    chan struct{} // closed when the clients shall stop
	dead    chan struct{} // closed when the process has died: answers are nobody's
	begun   chan struct{} // one token per operation begun
	regions struct {
		sync.Mutex
		list []regionOf
	}
	counted struct {
		sync.Mutex
		closing bool // the store's counters are out of reach
		evicted int
	}
}

type regionOf struct {
	*region
	callback bool
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

// live runs one life.
func (r *runner) live(number int, l *Life) {
	r.model.checked.Lives++
	r.log.printf("life %d", number)
	r.flip(l.Flips)
	if r.h.Config.DiskBytes > 0 {
		r.fill(l.FillBytes)
	}
	lf := &life{number: number, over: make(chan struct{}), dead: make(chan struct{}), begun: make(chan struct{}, 1024)}
	r.life = lf
	if !r.open(lf, l) {
		return
	}
	if l.Sweep {
		r.sweep(lf)
	}
	syncEIO := r.disk.Injected().SyncEIO
	var helpers, clients sync.WaitGroup
	helpers.Go(func() { r.changeFaults(lf, l.Faults) })
	for n, ops := range l.Clients {
		clients.Go(func() { r.client(lf, n, ops) })
	}
	idle := make(chan struct{})
	helpers.Go(func() { clients.Wait(); close(idle) })
	r.awaitEnd(lf, l, idle)
	if l.End == Close {
		r.closeLife(lf, l, idle, syncEIO)
	} else {
		r.crash(lf, l)
	}
	clients.Wait()
	helpers.Wait()
	r.settleRegions(lf)
}

// awaitEnd waits until enough operations have begun, or all have ended.
func (r *runner) awaitEnd(lf *life, l *Life, idle <-chan struct{}) {
	for n := 0; n < l.EndAfterOps; n++ {
		select {
		case <-lf.begun:
			continue
		case <-idle:
		}
		break
	}
	time.Sleep(l.EndDelay)
}

// changeFaults follows the timetable until the life is over.
func (r *runner) changeFaults(lf *life, plans []TimedFaults) {
	for _, p := range plans {
		select {
		case <-time.After(p.After):
			r.disk.SetFaults(p.Faults.plan())
		case <-lf.over:
		}
	}
	<-lf.over
	r.disk.SetFaults(sim.Plan{})
}

// closeLife ends a life by Close, with calls in flight perhaps.
func (r *runner) closeLife(lf *life, l *Life, idle <-chan struct{}, syncEIO uint64) {
	select {
	case <-idle:
		r.checkReadOnly(lf, l, syncEIO)
	default:
	}
	close(lf.over)
	r.checkStat(lf)
	err := r.closeStore(lf)
	if err != nil && !r.model.excuse.trouble && !r.model.excuse.damage {
		r.fail("Close: %w", err)
	}
	r.model.endLife(err == nil, r.h.Config.windowOf(Kill))
}

// crash ends a life without a word to the store, then buries its goroutines.
func (r *runner) crash(lf *life, l *Life) {
	r.model.checked.Crashes++
	if l.Settled {
		synctest.Wait()
	}
	r.checkStat(lf)
	close(lf.dead)
	r.log.printf("%s", l.End)
	r.die(l)
	close(lf.over)
	r.model.endLife(false, r.h.Config.windowOf(l.End))
	_ = r.closeStore(lf)
}

// die kills the process or the machine. The index files are copied after that,
// so that they are never older than the log: the store trims the log only
// behind what the index has made durable.
func (r *runner) die(l *Life) {
	keep := 100
	if l.End == PowerCut {
		r.disk.PowerCut()
		keep = l.KeepPercent
	} else {
		r.disk.Kill()
	}
	rng := rand.New(rand.NewPCG(r.h.Seed, uint64(len(l.Clients))))
	r.index = r.index.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
}

// closeStore closes the store and keeps what it had counted: calls still in
// flight are taken to evict as much as they can.
func (r *runner) closeStore(lf *life) (err error) {
	lf.counted.Lock()
	lf.counted.evicted = int(lf.store.Stat().Counters.Evicted) + r.calls.evictionsMax()
	lf.counted.closing = true
	lf.counted.Unlock()
	r.calls.run("Close", time.Time{}, func() { err = lf.store.Close() })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evicted += lf.counted.evicted
	lf.counted.evicted = 0
	return err
}

// evictedSoFar is how many blocks all lives together have evicted.
func (r *runner) evictedSoFar() int {
	lf := r.life
	lf.counted.Lock()
	if !lf.counted.closing {
		lf.counted.evicted = int(lf.store.Stat().Counters.Evicted)
	}
	n := lf.counted.evicted
	lf.counted.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.evicted + n
}

// settleRegions checks all memory that the life's clients had lent.
func (r *runner) settleRegions(lf *life) {
	for _, g := range lf.regions.list {
		r.check(g.settle(g.callback))
	}
}

// watch looks for calls that do not return.
func (r *runner) watch(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Second):
		}
		what := r.calls.overdue(r.model.excuse.slow)
		if what == "" {
			continue
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		r.fail("HANG: %s\n%s", what, stacks)
		r.disk.SetFaults(sim.Plan{})
		r.disk.Kill()
		time.Sleep(1000 * time.Second)
		if r.calls.overdue(true) != "" {
			panic(fmt.Sprintf("history %d (%s): %s, not even after a kill\n%s", r.h.Seed, r.h.Mode, what, stacks))
		}
	}
}

// logBook keeps the last lines.
type logBook struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func newLogBook() *logBook { return &logBook{start: time.Now()} }

func (b *logBook) printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) > 400 {
		b.lines = append(b.lines[:0], b.lines[200:]...)
	}
	b.lines = append(b.lines, fmt.Sprintf("%-12v ", time.Since(b.start))+fmt.Sprintf(format, args...))
}

func (b *logBook) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

package history

import (
	"math/rand/v2"
	"sync"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

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

// closeStore closes the store and keeps what it had counted. The counters are
// out of reach then: calls in flight are taken to evict as much as they can, and
// the keeper, while transfers are waited for, all the rest.
func (r *runner) closeStore(lf *life) (err error) {
	lf.counted.Lock()
	st := lf.store.Stat()
	lf.counted.evicted = int(st.Counters.Evicted) + r.calls.evictionsMax()
	if r.model.excuse.slow || r.calls.any() {
		lf.counted.evicted += st.Blocks
	}
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

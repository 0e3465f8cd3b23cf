package history

import "sync"

// Real carries a history out in a real directory and in real time, its clients at
// the same time, and judges the answers as Run does. What only the simulated disk
// can do is left out: faults, and every life ends by a close. Clients do not pause, and
// nothing says how long a call may take.
func Real(h *History, where Where) Result {
	r := newRunner(h)
	r.real = true
	for i := range h.Lives {
		if r.failed() {
			break
		}
		r.realLife(i, &h.Lives[i], where)
	}
	r.model.checked.Evicted = r.evicted
	return Result{r.err, r.model.checked}
}

func (r *runner) realLife(number int, l *Life, where Where) {
	r.model.checked.Lives++
	lf := &life{number: number, over: make(chan struct{}), dead: make(chan struct{}), begun: make(chan struct{}, 1)}
	r.life = lf
	if err := r.openAt(lf, l, where); err != nil {
		r.fail("life %d: Open: %w", number, err)
		return
	}
	r.model.opened()
	if l.Sweep {
		r.sweep(lf)
	}
	var clients sync.WaitGroup
	for n, ops := range l.Clients {
		clients.Go(func() { r.client(lf, n, ops) })
	}
	clients.Wait()
	close(lf.over)
	r.checkStat(lf)
	r.check(r.closeStore(lf))
	r.model.endLife(true, 0)
	r.settleRegions(lf)
}

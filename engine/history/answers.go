package history

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// Where says on what Answers runs a history.
type Where struct {
	Dir      string // "" is the simulated disk, in virtual time
	IOEngine string // of a real directory; see engine.Options
}

// Answers runs the operations of a history one after the other, without pauses,
// faults or crashes, and returns what the store answered. The same history,
// drawn with Limits.Calm, is answered the same everywhere.
func Answers(t *testing.T, h *History, where Where) (answers []string, err error) {
	if where.Dir != "" {
		return inTurn(h, where)
	}
	synctest.Test(t, func(*testing.T) { answers, err = inTurn(h, where) })
	return answers, err
}

func inTurn(h *History, where Where) ([]string, error) {
	r := newRunner(h)
	answers := []string{}
	for i := range h.Lives {
		l := &h.Lives[i]
		lf := &life{number: i, over: make(chan struct{}), dead: make(chan struct{})}
		r.life = lf
		err := r.openAt(lf, l, where)
		if err != nil {
			return nil, err
		}
		r.model.opened()
		c := &client{r: r, lf: lf, answers: answers}
		for _, ops := range l.Clients {
			for n := range ops {
				c.name = string(ops[n].Kind)
				c.run(&ops[n])
			}
		}
		c.sweep()
		answers = c.answers
		r.check(r.closeStore(lf))
		r.model.endLife(true, 0)
		r.settleRegions(lf)
	}
	return answers, r.err
}

func (r *runner) openAt(lf *life, l *Life, where Where) (err error) {
	if where.Dir == "" {
		return r.tryOpen(lf, l)
	}
	o := r.options(l)
	o.Dir, o.IOEngine, o.IndexFS = where.Dir, where.IOEngine, nil
	o.BufferedIO, o.AnyFileSystem = true, true
	if lf.number == 0 {
		o.CapacityBytes = r.h.Config.CapacityBytes
	}
	r.calls.run("Open", time.Time{}, func() { lf.store, err = engine.Open(o) })
	if err != nil {
		return err
	}
	return lf.openSpaces(&r.h.Config)
}

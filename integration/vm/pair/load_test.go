package pair

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// Bounds of the answers, beyond the deadlines that were given: the machine is slow.
const (
	answerSlack  = 30 * time.Second
	releaseSlack = 60 * time.Second
)

// rows of a reader: those that are not in use are watched.
const rows = 4

// load reads the blocks of a space through one daemon, with deadlines and cancels, through
// whatever happens to both daemons. Its memory is filled with a pattern as soon as it is
// released, and looked at again later: nobody may have written to it.
type load struct {
	t *testing.T
	s space
	d *daemon
	readers
	stop chan struct{}
	all  sync.WaitGroup
	// excused says that the daemon that answers is frozen or gone: deadlines are not its now.
	excused atomic.Int64

	hits, misses, lates, busy, cancels atomic.Int64
}

// readers are how many there are, the bounds of their deadlines, and one of how many gets is
// cancelled.
type readers struct {
	number            int
	shortest, longest time.Duration
	cancelled         int
}

// startLoad starts readers of the blocks through d.
func startLoad(t *testing.T, s space, d *daemon, o readers, seed uint64) *load {
	t.Helper()
	l := &load{t: t, s: s, d: d, readers: o, stop: make(chan struct{})}
	c := d.dial()
	ns := s.open(t, c)
	region, err := c.Allocate(int64(o.number * rows * s.bytes))
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.number {
		r := &reader{l: l, ns: ns, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		for k := range rows {
			place := region.Row(i*rows+k, s.bytes)
			r.rows[k] = row{place: place, b: region.Bytes()[place.OffsetBytes:][:s.bytes]}
			r.rows[k].poison()
		}
		l.all.Go(r.run)
	}
	t.Cleanup(func() {
		l.end()
		c.Close()
	})
	return l
}

// end stops the readers, and looks at all of their memory a last time.
func (l *load) end() {
	select {
	case <-l.stop:
		return
	default:
	}
	close(l.stop)
	l.all.Wait()
	l.t.Logf("readers of %s: %d hits, %d misses, %d late, %d busy, %d cancelled", l.s.name,
		l.hits.Load(), l.misses.Load(), l.lates.Load(), l.busy.Load(), l.cancels.Load())
}

// row is memory for a block.
type row struct {
	place client.Place
	b     []byte
	seed  uint64 // of the pattern in it
}

var patterns atomic.Uint64

func (r *row) poison() {
	r.seed = patterns.Add(2) + 1
	fill(r.b, r.seed)
}

// reader is one of a load's.
type reader struct {
	l    *load
	ns   *client.Namespace
	rng  *rand.Rand
	rows [rows]row
}

func (r *reader) run() {
	for i := 0; ; i++ {
		select {
		case <-r.l.stop:
			for k := range r.rows {
				r.watch(&r.rows[k])
			}
			return
		default:
			r.read(&r.rows[i%rows])
		}
	}
}

// watch looks whether released memory was changed.
func (r *reader) watch(w *row) {
	if at := differs(w.b, w.seed); at >= 0 {
		r.l.t.Errorf("%s: memory was changed after it was released, from byte %d on", r.l.s.name, at)
	}
}

// read gets any block and checks all that was promised of it.
func (r *reader) read(w *row) {
	r.watch(w)
	l := r.l
	i := r.rng.IntN(l.s.blocks)
	timeout := l.shortest + time.Duration(1+r.rng.Int64N(int64(l.longest-l.shortest)))
	excused := l.excused.Load()
	began := time.Now()
	job := r.ns.Get([]client.Block{{Key: l.s.key(i), Places: []client.Place{w.place}}}, client.GetOptions{Timeout: timeout})
	if r.rng.IntN(l.cancelled) == 0 {
		select {
		case <-job.Done():
		case <-time.After(time.Duration(r.rng.IntN(300)) * time.Millisecond):
			job.Cancel()
			l.cancels.Add(1)
		}
	}
	status := job.Wait().Statuses[0]
	took := time.Since(began)
	if calm := excused%2 == 0 && l.excused.Load() == excused; calm && took > timeout+answerSlack {
		l.t.Errorf("%s: an answer took %v, the deadline was %v", l.s.name, took, timeout)
	}
	r.count(status)
	if status == client.Hit {
		if at := differs(w.b, l.s.seed(i)); at >= 0 {
			l.t.Errorf("%s: block %d is wrong from byte %d on", l.s.name, i, at)
		}
	}
	r.released(job)
	w.poison()
	if status != client.Hit {
		time.Sleep(20 * time.Millisecond) // a node that is away answers at once
	}
}

func (r *reader) count(status client.Status) {
	switch status {
	case client.Hit:
		r.l.hits.Add(1)
	case client.Miss:
		r.l.misses.Add(1)
	case client.Late:
		r.l.lates.Add(1)
	case client.Busy:
		r.l.busy.Add(1)
	default:
		r.l.t.Errorf("%s: a get is answered with %v", r.l.s.name, status)
	}
}

func (r *reader) released(job *client.Job) {
	for {
		began, excused := time.Now(), r.l.excused.Load()
		select {
		case <-job.Released():
			return
		case <-time.After(releaseSlack):
			if excused%2 == 0 && r.l.excused.Load() == excused {
				r.l.t.Errorf("%s: memory is not released after %v", r.l.s.name, time.Since(began))
				<-job.Released()
				return
			}
		}
	}
}

// excuse marks a time in which the daemon cannot keep its deadlines; call the result at its
// end.
func (l *load) excuse() (end func()) {
	l.excused.Add(1)
	return func() { l.excused.Add(1) }
}

package node

import (
	"container/heap"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/tiering/admit"
	"github.com/spillway-kv/spillway/tiering/worth"
)

// class tells loads, which somebody waits for, from stores, and those from what is
// fetched ahead of anybody's asking.
type class int

const (
	loads class = iota
	stores
	prefetches
	classes
)

const (
	// A class gets at once what the drive moves within windowTime by the measured rate:
	// that keeps it busy, and who comes anew waits behind these bytes and not long. It is
	// windowMin at least, and at most loadWindow of loads and storeWindow of stores; before
	// anything was measured, the most.
	loadWindow  = 64 << 20
	storeWindow = 32 << 20
	windowMin   = chunkBytes
	windowTime  = 5 * time.Millisecond
	// storeWindowLoaded is that of stores while loads run.
	storeWindowLoaded = 4 << 20
	// chunkBytes is what a request asks for at once, unless a block is larger.
	chunkBytes = 16 << 20
)

// windows are how many bytes a drive gets at once.
type windows struct{ loads, stores, storesLoaded, prefetches, chunk int64 }

// standardWindows are those of a real drive; a test that stands for one in small has
// smaller ones.
var standardWindows = windows{loadWindow, storeWindow, storeWindowLoaded, prefetchWindow, chunkBytes}

// drive shares one store's I/O. Of what waits, loads go first, though a few stores
// always run beside them, and prefetches last. Within a class namespaces get bytes in proportion to their
// weights, and within a namespace all requests the same (start-time fair queueing, twice:
// each is stamped with the time at which it would begin if it had its part of the drive to
// itself, and the earliest goes first). So a short request passes the long ones that came
// before it, whoever sent them.
type drive struct {
	queueBytes int64 // bounds of waiting and running stores together
	queueTime  time.Duration
	windows    windows
	inOrder    bool // everything goes in the order in which it came

	capacityBytes  int64        // of its store
	enduranceBytes int64        // that its drive may still be written; 0: unknown
	budget         admit.Budget // what it may be written
	wear           *admit.Wear  // what it was

	mu       sync.Mutex
	waiting  [classes]lineHeap // namespaces that have something waiting
	running  [classes]int64    // bytes
	clock    [classes]float64
	admitted int64 // bytes of stores that wait or run
	rates    [classes]admit.Rate
	reads    worth.Rates
	waits    [classes]int64 // bytes that wait
	tickets  [classes]int   // transfers that wait
	serial   uint64
}

func newDrive(queueBytes int64, queueTime time.Duration) *drive {
	return &drive{windows: standardWindows, queueBytes: queueBytes, queueTime: queueTime, wear: admit.NewWear(time.Now())}
}

// admit takes bytes of a put into the queue's account, or refuses: more would
// wait than the bounds allow. discharge gives them back.
func (d *drive) admit(bytes int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := d.admitted + bytes
	if d.admitted > 0 && (after > d.queueBytes || d.rates[stores].TimeFor(after) > d.queueTime) {
		return false
	}
	d.admitted = after
	return true
}

func (d *drive) discharge(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.admitted -= bytes
}

// turn is a transfer whose turn has come; leave ends it.
type turn struct {
	class  class
	bytes  int64
	began  time.Time
	beside int64 // bytes that ran when it began, its own included
}

// enter waits for the turn of a transfer of blocks, one of a request's stream, and
// reports whether it came before done closed; then leave must follow.
func (d *drive) enter(f *flow, s *stream, c class, bytes int64, done <-chan struct{}) (turn, bool) {
	t := &ticket{class: c, bytes: bytes, stream: s, turn: make(chan struct{})}
	d.mu.Lock()
	d.serial++
	t.serial = d.serial
	l := &f.lines[c]
	l.add(t, d.inOrder)
	if len(l.waiting) == 1 {
		d.lineUpLocked(f, c)
	}
	d.waits[c] += bytes
	d.tickets[c]++
	d.callLocked()
	d.mu.Unlock()
	select {
	case <-t.turn:
		return t.came, true
	case <-done:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.next -= float64(bytes) // it has moved nothing
	if t.at < 0 {            // its turn had come
		l.next -= float64(bytes) / f.weight
		d.leaveLocked(c, bytes)
		return turn{}, false
	}
	heap.Remove(&l.waiting, t.at)
	if len(l.waiting) == 0 {
		heap.Remove(&d.waiting[c], l.at)
	}
	d.waits[c] -= bytes
	d.tickets[c]--
	return turn{}, false
}

// lineUpLocked lets a namespace wait that has not waited.
func (d *drive) lineUpLocked(f *flow, c class) {
	l := &f.lines[c]
	l.flow, l.stamp, l.serial = f, max(d.clock[c], l.next), l.waiting[0].serial
	if d.inOrder {
		l.stamp = float64(l.serial)
	}
	heap.Push(&d.waiting[c], l)
}

// leave ends a transfer of blocks of blockBytes, of which moved bytes went to or from
// the drive.
func (d *drive) leave(t turn, blockBytes int, moved int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.rates[t.class].Ended(now, moved)
	if t.class == loads && moved == t.bytes {
		d.reads.Observe(now, blockBytes, (t.beside+d.running[loads])/2, now.Sub(t.began))
	}
	d.leaveLocked(t.class, t.bytes)
}

func (d *drive) leaveLocked(c class, bytes int64) {
	d.running[c] -= bytes
	d.callLocked()
}

// callLocked calls everybody whose turn it is.
func (d *drive) callLocked() {
	for c := range classes {
		for len(d.waiting[c]) > 0 && (c != prefetches || d.quietLocked()) {
			l := d.waiting[c][0]
			if bytes := l.waiting[0].bytes; d.running[c] > 0 && d.running[c]+bytes > d.windowLocked(c) {
				break
			}
			d.beginLocked(c, l.take())
			d.clock[c] = l.stamp
			l.next = l.stamp + float64(l.last)/l.flow.weight
			if len(l.waiting) == 0 {
				heap.Pop(&d.waiting[c])
				continue
			}
			if l.stamp, l.serial = l.next, l.waiting[0].serial; d.inOrder {
				l.stamp = float64(l.serial)
			}
			heap.Fix(&d.waiting[c], 0)
		}
	}
}

func (d *drive) beginLocked(c class, t *ticket) {
	now := time.Now()
	if d.running[c] == 0 {
		d.rates[c].Began(now)
	}
	d.waits[c] -= t.bytes
	d.tickets[c]--
	d.running[c] += t.bytes
	t.came = turn{c, t.bytes, now, d.running[c]}
	close(t.turn)
}

func (d *drive) windowLocked(c class) int64 {
	most := d.windows.loads
	switch {
	case c == prefetches:
		return d.prefetchWindowLocked()
	case c == stores && (d.running[loads] > 0 || len(d.waiting[loads]) > 0):
		return d.windows.storesLoaded
	case c == stores:
		most = d.windows.stores
	}
	if t := d.rates[c].TimeFor(1 << 30); t > 0 {
		return min(max(int64(float64(1<<30)*float64(windowTime)/float64(t)), d.windows.chunk), most)
	}
	return most
}

// loadTime is how long a load of so many bytes of a namespace would take now, behind
// what runs and what goes before it, at the measured rate; 0 while there is none.
func (d *drive) loadTime(f *flow, blockBytes int, bytes int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	total := d.running[loads] + d.aheadLocked(f, bytes) + bytes
	rate := d.reads.BytesPerSecond(time.Now(), blockBytes, min(total, d.windowLocked(loads)))
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(total) / rate * float64(time.Second))
}

// aheadLocked is how many of the bytes that wait go before the last of a new load: of
// its own namespace each request's as many as its own, of others by their weights.
func (d *drive) aheadLocked(f *flow, bytes int64) (ahead int64) {
	if d.inOrder {
		return d.waits[loads]
	}
	for _, l := range d.waiting[loads] {
		fair := float64(bytes) * l.flow.weight / f.weight
		own, of := int64(0), map[*stream]int64{}
		for _, t := range l.waiting {
			of[t.stream] += t.bytes
		}
		for _, waits := range of {
			if l.flow == f {
				waits = min(waits, bytes)
			}
			own += waits
		}
		if l.flow != f {
			own = min(own, int64(fair))
		}
		ahead += own
	}
	return ahead
}

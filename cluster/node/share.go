package node

import (
	"container/heap"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/tiering/admit"
)

// class tells loads, which somebody waits for, from stores.
type class int

const (
	loads class = iota
	stores
	classes
)

const (
	// loadWindow is how many bytes of loads a drive gets at once: enough to keep it
	// busy, little enough that a newcomer need not wait long.
	loadWindow = 64 << 20
	// storeWindow is that of stores, storeWindowLoaded while loads run.
	storeWindow       = 32 << 20
	storeWindowLoaded = 4 << 20
	// chunkBytes is what a request asks for at once, unless a block is larger.
	chunkBytes = 16 << 20
)

// drive shares one store's I/O among namespaces. Of what waits, loads go first,
// though a few stores always run beside them; within a class namespaces get bytes in
// proportion to their weights (start-time fair queueing: each transfer is stamped with
// the time at which it would begin if its namespace had a drive to itself, slower by
// its weight, and the earliest goes first).
type drive struct {
	queueBytes int64 // bounds of waiting and running stores together
	queueTime  time.Duration

	capacityBytes  int64        // of its store
	enduranceBytes int64        // that its drive may still be written; 0: unknown
	budget         admit.Budget // what it may be written
	wear           *admit.Wear  // what it was

	mu       sync.Mutex
	waiting  [classes]ticketHeap
	running  [classes]int64 // bytes
	clock    [classes]float64
	admitted int64 // bytes of stores that wait or run
	rates    [classes]rate
	waits    [classes]int64 // bytes that wait
	serial   uint64
}

// flow is a namespace's claim on a drive.
type flow struct {
	weight float64
	next   [classes]float64 // stamp of its next transfer; guarded by drive.mu
}

// ticket waits for its turn.
type ticket struct {
	class  class
	bytes  int64
	stamp  float64
	serial uint64
	turn   chan struct{} // closed when it has come
	at     int           // in the heap; -1 outside
}

func newDrive(queueBytes int64, queueTime time.Duration) *drive {
	return &drive{queueBytes: queueBytes, queueTime: queueTime, wear: admit.NewWear(time.Now())}
}

// admit takes bytes of a put into the queue's account, or refuses: more would
// wait than the bounds allow. discharge gives them back.
func (d *drive) admit(bytes int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := d.admitted + bytes
	if d.admitted > 0 && (after > d.queueBytes || d.rates[stores].timeFor(after) > d.queueTime) {
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

// enter waits for the turn of a transfer and reports whether it came before done
// closed; then leave must follow.
func (d *drive) enter(f *flow, c class, bytes int64, done <-chan struct{}) bool {
	t := &ticket{class: c, bytes: bytes, turn: make(chan struct{})}
	d.mu.Lock()
	cost := float64(bytes) / f.weight
	t.stamp = max(d.clock[c], f.next[c])
	f.next[c] = t.stamp + cost
	d.serial++
	t.serial = d.serial
	heap.Push(&d.waiting[c], t)
	d.waits[c] += bytes
	d.callLocked()
	d.mu.Unlock()
	select {
	case <-t.turn:
		return true
	case <-done:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.next[c] -= cost // it has moved nothing
	if t.at < 0 {     // its turn had come
		d.leaveLocked(c, bytes)
		return false
	}
	heap.Remove(&d.waiting[c], t.at)
	d.waits[c] -= bytes
	return false
}

// leave ends a transfer of so many bytes, of which moved went to or from the drive.
func (d *drive) leave(c class, bytes, moved int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rates[c].ended(time.Now(), moved)
	d.leaveLocked(c, bytes)
}

func (d *drive) leaveLocked(c class, bytes int64) {
	d.running[c] -= bytes
	d.callLocked()
}

// callLocked calls everybody whose turn it is.
func (d *drive) callLocked() {
	for _, c := range []class{loads, stores} {
		for len(d.waiting[c]) > 0 {
			t := d.waiting[c][0]
			if d.running[c] > 0 && d.running[c]+t.bytes > d.windowLocked(c) {
				break
			}
			heap.Pop(&d.waiting[c])
			d.clock[c] = t.stamp
			if d.running[c] == 0 {
				d.rates[c].began(time.Now())
			}
			d.waits[c] -= t.bytes
			d.running[c] += t.bytes
			close(t.turn)
		}
	}
}

func (d *drive) windowLocked(c class) int64 {
	switch {
	case c == loads:
		return loadWindow
	case d.running[loads] > 0 || len(d.waiting[loads]) > 0:
		return storeWindowLoaded
	}
	return storeWindow
}

// ticketHeap has the earliest stamp first, and of equal ones the first that came.
type ticketHeap []*ticket

func (h ticketHeap) Len() int { return len(h) }
func (h ticketHeap) Less(i, j int) bool {
	if h[i].stamp != h[j].stamp {
		return h[i].stamp < h[j].stamp
	}
	return h[i].serial < h[j].serial
}
func (h ticketHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *ticketHeap) Push(x any)   { t := x.(*ticket); t.at = len(*h); *h = append(*h, t) }
func (h *ticketHeap) Pop() any {
	t := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	t.at = -1
	return t
}

// loadTime is how long a load of so many bytes would take now, behind what runs and
// waits, at the measured rate; 0 while none has been measured lately.
func (d *drive) loadTime(bytes int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.rates[loads]
	if d.running[loads] == 0 && time.Since(r.since) > rateFresh {
		return 0
	}
	return r.timeFor(d.running[loads] + d.waits[loads] + bytes)
}

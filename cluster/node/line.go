package node

import "container/heap"

// flow is a namespace's claim on a drive.
type flow struct {
	weight float64
	lines  [classes]line
}

// line is what a namespace has waiting for a drive, guarded by drive.mu.
type line struct {
	flow    *flow
	waiting ticketHeap
	clock   float64 // bytes; the stamp of the newest request that was called
	stamp   float64 // of the line; in the drive's heap while something waits
	next    float64 // stamp from which the line may claim more
	last    int64   // bytes of the newest that was called
	serial  uint64  // of equal stamps the lowest goes first
	at      int     // in the drive's heap
}

// stream is what one request has of a drive; guarded by drive.mu.
type stream struct {
	next float64 // stamp of its next transfer within the line
}

// ticket waits for its turn.
type ticket struct {
	class  class
	bytes  int64
	stream *stream
	start  float64 // stamp: when it would begin
	end    float64 // and end
	serial uint64
	turn   chan struct{} // closed when it has come
	came   turn          // set before
	at     int           // in the line's heap; -1 outside
}

// add stamps a ticket and lets it wait.
func (l *line) add(t *ticket, inOrder bool) {
	t.start = max(l.clock, t.stream.next)
	t.end = t.start + float64(t.bytes)
	t.stream.next = t.end
	if inOrder {
		t.start, t.end = 0, 0
	}
	heap.Push(&l.waiting, t)
}

// take removes the first.
func (l *line) take() *ticket {
	t := heap.Pop(&l.waiting).(*ticket)
	l.clock = max(l.clock, t.start)
	l.last = t.bytes
	return t
}

// ticketHeap has first what would end first, so of two that begin at once the shorter,
// and of equal ones the first that came.
type ticketHeap []*ticket

func (h ticketHeap) Len() int { return len(h) }
func (h ticketHeap) Less(i, j int) bool {
	if h[i].end != h[j].end {
		return h[i].end < h[j].end
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

// lineHeap has the earliest stamp first, and of equal ones who has waited the longest.
type lineHeap []*line

func (h lineHeap) Len() int { return len(h) }
func (h lineHeap) Less(i, j int) bool {
	if h[i].stamp != h[j].stamp {
		return h[i].stamp < h[j].stamp
	}
	return h[i].serial < h[j].serial
}
func (h lineHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *lineHeap) Push(x any)   { l := x.(*line); l.at = len(*h); *h = append(*h, l) }
func (h *lineHeap) Pop() any {
	l := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	l.at = -1
	return l
}

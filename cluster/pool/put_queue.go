package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/tiering/admit"
)

// putWindowBytes is what is pushed to a peer at once, of all puts together; more waits.
const putWindowBytes = 2 * pushBytes

// putQueue is what waits to be pushed to a peer, and what came of it. It is bounded in
// bytes, and in time by the rate at which the peer takes blocks.
type putQueue struct {
	bytesMax int64
	timeMax  time.Duration
	window   *semaphore.Weighted

	mu       sync.Mutex
	admitted int64 // bytes that wait or are pushed
	running  int   // pushes
	rate     admit.Rate

	stored, storedBytes, present atomic.Uint64 // of blocks offered or pushed to it
	refused, wrong, described    atomic.Uint64
	taken                        atomic.Uint64 // blocks stored here that came from it
}

func newPutQueue(o *Options) *putQueue {
	return &putQueue{bytesMax: o.PutQueueBytes, timeMax: o.PutQueueTime, window: semaphore.NewWeighted(putWindowBytes)}
}

// admit takes bytes of a put in, or refuses: more would wait than the bounds allow.
// discharge gives them back.
func (q *putQueue) admit(nBytes int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	after := q.admitted + nBytes
	if q.admitted > 0 && (after > q.bytesMax || q.rate.TimeFor(after) > q.timeMax) {
		return false
	}
	q.admitted = after
	return true
}

func (q *putQueue) discharge(nBytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.admitted -= nBytes
}

// enter waits for the turn of a push; leave ends it.
func (q *putQueue) enter(ctx context.Context, nBytes int64) error {
	if err := q.window.Acquire(ctx, min(nBytes, putWindowBytes)); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running++; q.running == 1 {
		q.rate.Began(time.Now())
	}
	return nil
}

// leave ends a push of nBytes of which storedBytes were stored.
func (q *putQueue) leave(nBytes, storedBytes int64) {
	q.mu.Lock()
	q.running--
	q.rate.Ended(time.Now(), storedBytes)
	q.mu.Unlock()
	q.window.Release(min(nBytes, putWindowBytes))
}

package node

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fluid is a device in virtual time: all blocks in flight share its rate equally, and
// each takes a latency on top.
type fluid struct {
	bytesPerSecond float64
	latency        time.Duration

	mu     sync.Mutex
	jobs   fluidHeap
	weight float64 // blocks in flight
	work   float64 // bytes that each block in flight has moved, so far
	at     time.Time
	wake   chan struct{}
}

type fluidJob struct {
	end, blocks float64
	done        chan struct{}
}

type fluidHeap []*fluidJob

func (h fluidHeap) Len() int           { return len(h) }
func (h fluidHeap) Less(i, j int) bool { return h[i].end < h[j].end }
func (h fluidHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *fluidHeap) Push(x any)        { *h = append(*h, x.(*fluidJob)) }
func (h *fluidHeap) Pop() any {
	j := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return j
}

// move takes as long as the device does.
func (f *fluid) move(bytes int64, blocks int) {
	f.mu.Lock()
	f.forwardLocked()
	j := &fluidJob{f.work + float64(bytes)/float64(blocks), float64(blocks), make(chan struct{})}
	heap.Push(&f.jobs, j)
	f.weight += j.blocks
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	<-j.done
	time.Sleep(f.latency)
}

func (f *fluid) forwardLocked() {
	now := time.Now()
	if f.weight > 0 {
		f.work += f.bytesPerSecond / f.weight * now.Sub(f.at).Seconds()
	}
	f.at = now
}

// run ends jobs until over closes.
func (f *fluid) run(over <-chan struct{}) {
	for {
		f.mu.Lock()
		f.forwardLocked()
		for len(f.jobs) > 0 && f.jobs[0].end <= f.work+1 {
			j := heap.Pop(&f.jobs).(*fluidJob)
			f.weight -= j.blocks
			close(j.done)
		}
		next := time.Hour
		if len(f.jobs) > 0 {
			next = time.Duration((f.jobs[0].end-f.work)*f.weight/f.bytesPerSecond*1e9) + 1
		}
		f.mu.Unlock()
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-f.wake:
		case <-over:
			return
		}
		timer.Stop()
	}
}

// mix is a load of short requests all the time, and of a burst of long ones amid them.
type mix struct {
	inOrder  bool
	apart    bool // the long ones are another namespace's
	longs    int  // requests of the burst
	stores   bool // the burst are puts
	seed     uint64
	perDrive float64 // bytes a second
}

const (
	mixBlock  = 2 << 20       // 16 tokens of Llama-3-8B
	mixShort  = 2             // blocks: what a turn of a chat adds
	mixLong   = 32 << 10 / 16 // blocks: a document of 32,768 tokens, 4 GiB
	mixEvery  = 20 * time.Millisecond
	mixTime   = 10 * time.Second
	mixBefore = time.Second // the burst comes then
)

// p99 runs the load and returns the P99 of the short requests' times, and how long the
// burst took.
func (m mix) p99(t *testing.T) (short, burst time.Duration) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(m.seed, 99))
		d := newDrive(1<<50, time.Hour)
		d.inOrder = m.inOrder
		device := &fluid{bytesPerSecond: m.perDrive, latency: 80 * time.Microsecond, wake: make(chan struct{}, 1), at: time.Now()}
		over := make(chan struct{})
		go device.run(over)
		own, other := &flow{weight: 1}, &flow{weight: 1}
		request := func(f *flow, c class, blocks int) time.Duration {
			began, s := time.Now(), &stream{}
			var all sync.WaitGroup
			for blocks > 0 {
				n := min(blocks, chunkBytes/mixBlock)
				blocks -= n
				all.Go(func() {
					if turn, ok := d.enter(f, s, c, int64(n)*mixBlock, nil); ok {
						device.move(int64(n)*mixBlock, n)
						d.leave(turn, mixBlock, turn.bytes)
					}
				})
			}
			all.Wait()
			return time.Since(began)
		}
		var mu sync.Mutex
		var times []time.Duration
		var all sync.WaitGroup
		for range m.longs {
			all.Go(func() {
				time.Sleep(mixBefore)
				f, c := own, loads
				if m.apart {
					f = other
				}
				if m.stores {
					c = stores
				}
				took := request(f, c, mixLong)
				mu.Lock()
				burst = max(burst, took)
				mu.Unlock()
			})
		}
		for end := time.Now().Add(mixTime); time.Now().Before(end); time.Sleep(time.Duration(rng.ExpFloat64() * float64(mixEvery))) {
			all.Go(func() {
				took := request(own, loads, mixShort)
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
			})
		}
		all.Wait()
		close(over)
		slices.Sort(times)
		short = times[len(times)*99/100]
	})
	return short, burst
}

// TestIsolation: while eight documents load at once, the short requests of chats take
// somewhat longer than alone, not as long as the burst, be it of their own namespace or
// of another's, be it of loads or of puts; and the burst takes hardly longer for it. With
// -v it prints the table of docs/isolation.md.
func TestIsolation(t *testing.T) {
	for _, rate := range []float64{7e9, 1e9} {
		for seed := range uint64(3) {
			m := mix{seed: seed, perDrive: rate, longs: 8}
			alone, _ := mix{seed: seed, perDrive: rate}.p99(t)
			queued := m
			queued.inOrder = true
			without, least := queued.p99(t)
			t.Logf("%.0f GB/s, seed %d: alone %v; in order %v, the burst takes %v", rate/1e9, seed, alone, without, least)
			apart, puts := m, m
			apart.apart, puts.apart, puts.stores = true, true, true
			for what, with := range map[string]mix{"same namespace": m, "another namespace": apart, "puts": puts} {
				short, burst := with.p99(t)
				t.Logf("%.0f GB/s, seed %d: %s: %v, the burst takes %v", rate/1e9, seed, what, short, burst)
				if short > without/100 || short > 10*alone {
					t.Errorf("%s: P99 of the short requests is %v, %v alone, %v in order", what, short, alone, without)
				}
				if float64(burst) > 1.1*float64(least) {
					t.Errorf("%s: the burst takes %v, in order %v", what, burst, least)
				}
			}
		}
	}
}

package pool

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// TestPutQueueBounds: what is admitted is bounded in bytes, and in time once a rate is
// known; one put is admitted to an empty queue however large it is.
func TestPutQueueBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		q := newPutQueue(&Options{PutQueueBytes: 100 * mib, PutQueueTime: time.Second})
		if !q.admit(200*mib) || q.admit(1) {
			t.Error("a queue that is empty takes anything, and nothing then")
		}
		q.discharge(200 * mib)
		if !q.admit(60*mib) || q.admit(41*mib) || !q.admit(40*mib) {
			t.Error("100 MiB are the bound")
		}
		q.discharge(100 * mib)
		for range 4 { // 16 MiB a second
			if err := q.enter(context.Background(), 16*mib); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			q.leave(16*mib, 16*mib)
		}
		if !q.admit(8*mib) || q.admit(9*mib) || !q.admit(7*mib) {
			t.Error("a second is the bound, 16 MiB of work")
		}
		q.discharge(15 * mib)
	})
}

// TestPutWindow: so much is pushed at once and no more, and who waits gives up with its
// context.
func TestPutWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPutQueue(&Options{PutQueueBytes: 1 << 40, PutQueueTime: time.Hour})
		for range 2 {
			if err := q.enter(context.Background(), pushBytes); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := q.enter(ctx, 1); err == nil {
			t.Error("a third push is under way")
		}
		entered := make(chan error)
		go func() { entered <- q.enter(context.Background(), 10*putWindowBytes) }() // a block that is larger goes alone
		q.leave(pushBytes, pushBytes)
		q.leave(pushBytes, 0)
		if err := <-entered; err != nil {
			t.Error(err)
		}
		q.leave(10*putWindowBytes, 0)
	})
}

// TestPutMemory: memory for a Put of any size has room for it, and little more, which is
// counted; one class has one size.
func TestPutMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	sizes := map[int]int{} // of a class
	check := func(nBytes int) {
		class, takes := putClass(nBytes)
		if class < 0 || class >= len(putMemories) || takes < nBytes || takes-nBytes > max(nBytes/8, 4096) {
			t.Fatalf("%d bytes take %d, in class %d", nBytes, takes, class)
		}
		if other, ok := sizes[class]; ok && other != takes {
			t.Fatalf("class %d is of %d and of %d bytes", class, other, takes)
		}
		sizes[class] = takes
	}
	check(0)
	for bit := range 41 {
		for _, n := range []int{1<<bit - 1, 1 << bit, 1<<bit + 1} {
			if n > 0 && n <= 1<<40 {
				check(n)
			}
		}
		for range 1000 {
			check(1 + rng.IntN(1<<bit))
		}
	}
	for range 100 {
		n := 1 + rng.IntN(4<<20)
		memory, free := putMemory(n)
		if _, takes := putClass(n); len(memory) != n || cap(memory) != takes {
			t.Fatalf("%d bytes of %d for %d", len(memory), cap(memory), n)
		}
		free()
	}
}

// TestCountedMemory: of memory for arriving blocks no more is out than its bound, as it is
// in truth; a block as large as the bound fits; and what is given back is there again.
func TestCountedMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 5))
	const most = 1 << 20
	bound := semaphore.NewWeighted(most)
	type out struct {
		bytes int
		free  func()
	}
	var all []out
	sum, refused := 0, 0
	for range 10_000 {
		n := 1 + rng.IntN(most/4)
		_, takes := putClass(n)
		memory, free := countedMemory(bound, n)
		if (memory == nil) != (sum+takes > most) {
			t.Fatalf("%d bytes beside %d of %d: refused %v", takes, sum, most, memory == nil)
		}
		if memory == nil {
			refused++
		} else {
			all, sum = append(all, out{cap(memory), free}), sum+cap(memory)
		}
		for len(all) > 0 && rng.IntN(3) == 0 {
			i := rng.IntN(len(all))
			all[i].free()
			sum -= all[i].bytes
			all = slices.Delete(all, i, i+1)
		}
	}
	for _, one := range all {
		one.free()
	}
	if memory, _ := countedMemory(bound, most); len(memory) != most || refused == 0 {
		t.Errorf("%d bytes of all, %d were refused", len(memory), refused)
	}
}

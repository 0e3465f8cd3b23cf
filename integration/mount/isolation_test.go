package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/engine"
)

// The load of TestIsolationMeasured: chats that read two blocks at a time, and a burst of
// requests that read a document each.
const (
	isolationBlock = 1 << 20
	isolationShort = 2
	isolationLong  = 128 // blocks
	isolationLongs = 16
	isolationEvery = 5 * time.Millisecond
	isolationRows  = 1024 // short requests in flight at most
	isolationDocs  = 4    // that the long requests read, several times
)

// TestIsolationMeasured is the real form of the experiment in docs/isolation.md: node and
// client on a directory of SPILLWAY_ISOLATION_DIR, a fast drive if there is one. It
// only reports, and wants the short requests to be better off with shares than without.
func TestIsolationMeasured(t *testing.T) {
	dir := os.Getenv("SPILLWAY_ISOLATION_DIR")
	if dir == "" {
		t.Skip("SPILLWAY_ISOLATION_DIR names no directory to measure in")
	}
	var p99 [2]time.Duration
	for i, inOrder := range []bool{false, true} {
		r := newRig(t, 1)
		r.dirs[0] = filepath.Join(dir, fmt.Sprint("isolation-", os.Getpid()))
		t.Cleanup(func() { _ = os.RemoveAll(r.dirs[0]) })
		r.store = engine.Options{CapacityBytes: 2 << 30, AnyFileSystem: true, BufferedIO: true}
		r.options.InOrder, r.options.RequestsMax = inOrder, 4096
		r.start()
		alone, _ := isolationRun(t, r, 0)
		var burst time.Duration
		p99[i], burst = isolationRun(t, r, isolationLongs)
		t.Logf("in order %v: P99 of the short requests alone %v, beside the burst %v; the burst takes %v", inOrder, alone, p99[i], burst)
		r.stop()
		must(t, os.RemoveAll(r.dirs[0]))
	}
	if p99[0] >= p99[1] {
		t.Errorf("P99 with shares %v, without %v", p99[0], p99[1])
	}
}

// isolationRun reads short requests until the burst is over, or for two seconds without
// one, and returns their P99 and the time of the burst.
func isolationRun(t *testing.T, r *rig, longs int) (short, burst time.Duration) {
	t.Helper()
	c := r.dial()
	defer c.Close()
	ns, err := c.Namespace(t.Context(), engine.Descriptor{Name: "measured", BlockBytes: isolationBlock}, "")
	must(t, err)
	region, err := c.Allocate(int64(max(longs, isolationDocs)*isolationLong+isolationRows*isolationShort) * isolationBlock)
	must(t, err)
	blocks := func(key, row, n int) []client.Block {
		all := make([]client.Block, n)
		for i := range all {
			all[i] = client.Block{Key: []byte(fmt.Sprint(key + i)), Places: []client.Place{region.Row(row+i, isolationBlock)}}
		}
		return all
	}
	for doc := range isolationDocs {
		wantAll(t, ns.Put(blocks(doc*isolationLong, doc*isolationLong, isolationLong), client.PutOptions{}).Wait(), client.Stored, client.Present)
	}
	over, began := make(chan struct{}), time.Now()
	var all sync.WaitGroup
	for i := range longs {
		all.Go(func() {
			wantAll(t, ns.Get(blocks(i%isolationDocs*isolationLong, i*isolationLong, isolationLong), client.GetOptions{}).Wait(), client.Hit)
		})
	}
	go func() {
		all.Wait()
		if burst = time.Since(began); longs == 0 {
			time.Sleep(2 * time.Second)
		}
		close(over)
	}()
	var mu sync.Mutex
	var times []time.Duration
	var shorts sync.WaitGroup
	for i := 0; ; i++ {
		select {
		case <-over:
			shorts.Wait()
			slices.Sort(times)
			return times[len(times)*99/100], burst
		case <-time.After(isolationEvery):
		}
		shorts.Go(func() {
			row := max(longs, isolationDocs)*isolationLong + i%isolationRows*isolationShort // latest answers may share a row: their bytes are the same
			asked := time.Now()
			wantAll(t, ns.Get(blocks(i*37%(isolationDocs*isolationLong-1), row, isolationShort), client.GetOptions{}).Wait(), client.Hit)
			mu.Lock()
			times = append(times, time.Since(asked))
			mu.Unlock()
		})
	}
}

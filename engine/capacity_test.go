package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// diskBytes is the sum of all file sizes below dir.
func diskBytes(t testing.TB, dir string) (sum int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // removed while we looked
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	return sum
}

// watchDisk measures the directory again and again until stopped, and returns
// the most that it saw.
func watchDisk(t testing.TB, dir string) (stop func() int64) {
	var most int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			most = max(most, diskBytes(t, dir))
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	return func() int64 { close(done); <-ended; return most }
}

// longKey is a key of nBytes that begins with n.
func longKey(n, nBytes int) engine.Key {
	k := key(n)
	for len(k.Bytes) < nBytes {
		k.Bytes = append(k.Bytes, byte('a'+len(k.Bytes)%26))
	}
	return k
}

// TestCapacityHolds: under load, over restarts and kills, everything in the
// directory together stays within CapacityBytes.
func TestCapacityHolds(t *testing.T) {
	for name, c := range map[string]struct {
		blockBytes, keyBytes int
		capacity, segment    int64
	}{
		"4 KiB":     {4096, 14, 24 << 20, 1 << 20},
		"long keys": {4096, 1024, 24 << 20, 1 << 20},
		"64 KiB":    {65536, 36, 48 << 20, 2 << 20},
		"tiny":      {4096, 14, 3 << 20, 64 << 10},
	} {
		if testing.Short() && name != "tiny" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			n := 0
			rounds, times := 2, 1
			switch {
			case long():
				rounds, times = 5, 3
			case testing.Short():
				rounds = 1
			}
			for round := range rounds {
				stop := watchDisk(t, dir)
				s := openTemp(t, dir, engine.Options{CapacityBytes: c.capacity, SegmentBytes: c.segment, SyncInterval: 50 * time.Millisecond})
				ns := namespace(t, s, "a", c.blockBytes)
				total := times * ns.Stat().Slots
				var wg sync.WaitGroup
				for range 2 {
					from := n
					n += total
					wg.Go(func() {
						for i := from; i < from+total; i += 64 {
							items := make([]engine.PutItem, 64)
							for j := range items {
								items[j] = engine.PutItem{Key: longKey(i+j, c.keyBytes), Src: [][]byte{content(i+j, c.blockBytes)}}
							}
							must(t, ns.Put(items, engine.PutOptions{}))
						}
					})
				}
				wg.Wait()
				if st := s.Stat(); st.UsedBytes > c.capacity {
					t.Errorf("round %d: Stat says %d bytes are used", round, st.UsedBytes)
				}
				mustClose(t, s)
				if most := stop(); most > c.capacity {
					t.Errorf("round %d: %d bytes in the directory, the capacity is %d", round, most, c.capacity)
				} else {
					t.Logf("round %d: at most %d bytes of %d", round, most, c.capacity)
				}
			}
		})
	}
}

// TestCapacityLowered: the coldest whole segments go at Open, the hottest
// blocks stay, and the directory is within the new bound when Open returns.
func TestCapacityLowered(t *testing.T) {
	dir := t.TempDir()
	s := openTemp(t, dir, engine.Options{CapacityBytes: 32 << 20, SegmentBytes: 1 << 20})
	ns := namespace(t, s, "a", 65536)
	slots := ns.Stat().Slots
	for n := range slots {
		all(t, put(t, ns, engine.PutOptions{}, n), engine.Stored)
	}
	mustClose(t, s)
	for _, capacity := range []int64{24 << 20, 12 << 20, 20 << 20} {
		s = openTemp(t, dir, engine.Options{CapacityBytes: capacity})
		if now := diskBytes(t, dir); now > capacity {
			t.Errorf("%d bytes in the directory, the capacity is %d", now, capacity)
		}
		ns = namespace(t, s, "a", 65536)
		st := ns.Stat()
		if st.Blocks > slots || st.Slots*65536 > int(capacity) {
			t.Errorf("capacity %d: %+v", capacity, st)
		}
		got := noTouch(t, ns, sequence(0, slots)...)
		kept := 0
		for n := slots - 1; n >= 0 && got[n] == engine.Hit; n-- {
			kept++
		}
		if kept != st.Blocks || kept == 0 {
			t.Errorf("capacity %d: of %d blocks only the newest %d were kept", capacity, st.Blocks, kept)
		}
		if s.Stat().CapacityBytes != capacity {
			t.Errorf("capacity %d", s.Stat().CapacityBytes)
		}
		mustClose(t, s)
	}
	s = openTemp(t, dir, engine.Options{}) // and it was written down
	if s.Stat().CapacityBytes != 20<<20 {
		t.Errorf("capacity %d", s.Stat().CapacityBytes)
	}
	mustClose(t, s)
}

// TestQuota: a namespace stays within its quota, gives up its coldest segments
// when it is lowered, and remembers it.
func TestQuota(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{}))
	ns, other := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
	const file = 64 << 10 // 15 slots
	wantErr(t, ns.SetQuota(file-4096), engine.ErrConfig)
	wantErr(t, ns.SetQuota(-1), engine.ErrConfig)
	press(t, ns, 0, 200)
	all(t, put(t, other, engine.PutOptions{}, sequence(0, 20)...), engine.Stored)
	for _, segments := range []int64{5, 2, 1} {
		must(t, ns.SetQuota(segments*file+100))
		st := ns.Stat()
		if st.Segments > int(segments) || st.QuotaBytes != segments*file+100 {
			t.Errorf("%+v, want at most %d segments", st, segments)
		}
		press(t, ns, int(1000*segments), 300)
		if st := ns.Stat(); st.Segments > int(segments) || st.Blocks > st.Slots || st.Slots >= int(segments)*16 {
			t.Errorf("%+v, want at most %d segments", st, segments)
		}
		all(t, noTouch(t, ns, int(1000*segments)+299), engine.Hit)
	}
	all(t, get(t, other, sequence(0, 20)...), engine.Hit)
	mustClose(t, s)
	s = r.open(engine.Options{})
	ns = namespace(t, s, "a", 4096)
	press(t, ns, 5000, 100)
	if st := ns.Stat(); st.Segments > 1 || st.QuotaBytes != file+100 {
		t.Errorf("after a restart: %+v", st)
	}
	must(t, ns.SetQuota(0))
	press(t, ns, 6000, 100)
	if st := ns.Stat(); st.Segments < 5 || st.QuotaBytes != 0 {
		t.Errorf("without a quota: %+v", st)
	}
	mustClose(t, s)
}

// TestSegmentsMove: room goes to the namespace that uses it, the coldest
// segments first, also to a newcomer on a full disk, of another block size.
func TestSegmentsMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		a := namespace(t, s, "a", 4096)
		full := fill(t, a)
		have := a.Stat().Segments
		b := namespace(t, s, "b", 16384)
		all(t, put(t, b, engine.PutOptions{}, 0), engine.Stored) // the newcomer
		all(t, get(t, b, 0), engine.Hit)
		if st := a.Stat(); st.Segments >= have {
			t.Errorf("the newcomer's segment came from nowhere: %+v", st)
		}
		all(t, noTouch(t, a, full-1), engine.Hit) // the youngest stays
		for n := 1; n < 400; n += 4 {             // a sleeps
			all(t, put(t, b, engine.PutOptions{}, sequence(n, 4)...), engine.Stored)
		}
		stA, stB := a.Stat(), b.Stat()
		if stA.Segments >= have/2 || stB.Segments < have/3 {
			t.Errorf("a namespace that sleeps has %d segments of %d, the busy one %d", stA.Segments, have, stB.Segments)
		}
		for n := 1000; n < 3000; n += 8 { // and back
			all(t, put(t, a, engine.PutOptions{}, sequence(n, 8)...), engine.Stored)
		}
		if st := a.Stat(); st.Segments <= stA.Segments {
			t.Errorf("the room did not come back: %d segments", st.Segments)
		}
		all(t, get(t, a, sequence(2950, 50)...), engine.Hit)
		mustClose(t, s)
	})
}

// TestNoSpaceForASegment: a file system that is full stops the growth and
// nothing else.
func TestNoSpaceForASegment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{CapacityBytes: 4 << 20})
		s := r.open(engine.Options{CapacityBytes: 4 << 20, SegmentBytes: 64 << 10})
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 30)...), engine.Stored)
		dev := r.session
		space, err := dev.Space()
		must(t, err)
		f, err := dev.Create("somebody-else", space.FreeBytes) // not ours
		must(t, err)
		must(t, f.Close())
		press(t, ns, 1000, 400)
		all(t, get(t, ns, sequence(1390, 10)...), engine.Hit)
		if st := s.Stat(); st.Health != "ok" {
			t.Errorf("health %q: %s", st.Health, st.HealthCause)
		}
		before := ns.Stat().Segments
		must(t, dev.Remove("somebody-else"))
		time.Sleep(10 * time.Second)
		press(t, ns, 3000, 400)
		if st := ns.Stat(); st.Segments <= before {
			t.Errorf("%d segments, it does not grow again", st.Segments)
		}
		mustClose(t, s)
	})
}

// TestFullFromTheStart: without room for even one segment puts are dropped with
// the reason, and the store can be closed and opened.
func TestFullFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{CapacityBytes: 4 << 20})
		s := r.open(engine.Options{CapacityBytes: 4 << 20, SegmentBytes: 64 << 10})
		ns := namespace(t, s, "a", 4096)
		dev := r.session
		for {
			space, err := dev.Space()
			must(t, err)
			if space.FreeBytes < 16<<10 {
				break
			}
			f, err := dev.Create("somebody-else"+strings.Repeat("x", int(space.FreeBytes%100)), space.FreeBytes)
			must(t, err)
			must(t, f.Close())
			time.Sleep(2 * time.Second) // the ballast may go
		}
		item := []engine.PutItem{{Key: key(1), Src: [][]byte{content(1, 4096)}}}
		must(t, ns.Put(item, engine.PutOptions{}))
		if item[0].Status != engine.Dropped {
			t.Errorf("%v", item[0].Status)
		}
		wantErr(t, item[0].Err, engine.ErrNoSpace)
		all(t, get(t, ns, 1), engine.Miss)
		mustClose(t, s)
		mustClose(t, r.open(engine.Options{}))
	})
}

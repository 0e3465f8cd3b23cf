package system

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/integration/load"
	"github.com/spillway-kv/spillway/wal"
)

const fullBlockBytes = 4096

// chain is a client of one namespace that remembers what was stored.
type chain struct {
	t      *testing.T
	ns     *engine.Namespace
	next   uint64
	stored []uint64
}

// openChain opens the store in dir and its namespace.
func openChain(t *testing.T, dir string, capacityBytes int64) (*engine.Store, *chain) {
	t.Helper()
	s, err := engine.Open(engine.Options{Dir: dir, CapacityBytes: capacityBytes, SegmentBytes: segmentBytes,
		AnyFileSystem: true, BufferedIO: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := s.Namespace(engine.Descriptor{Name: "chain", BlockBytes: fullBlockBytes})
	if err != nil {
		t.Fatal(err)
	}
	return s, &chain{t: t, ns: ns}
}

// put puts n new blocks, each by its own call, and returns how many were
// stored. A refusal must be of the kind ErrNoSpace or ErrReadOnly.
func (c *chain) put(n int, o engine.PutOptions) (stored int, refusal error) {
	c.t.Helper()
	for range n {
		b := load.Block{Key: c.next, Version: 1}
		c.next++
		data := device.AlignedBuffer(fullBlockBytes, 4096)
		load.Fill(data, b)
		items := []engine.PutItem{{Key: engine.Key{Bytes: b.KeyBytes()}, Src: [][]byte{data}}}
		if err := c.ns.Put(items, o); err != nil {
			c.t.Fatal(err)
		}
		switch items[0].Status {
		case engine.Stored:
			stored++
			c.stored = append(c.stored, b.Key)
		case engine.Dropped:
			if refusal = items[0].Err; refusal == nil {
				c.t.Fatalf("put of %v was dropped without a cause", b)
			}
		default:
			c.t.Fatalf("put of %v answered %v", b, items[0].Status)
		}
	}
	return stored, refusal
}

// get reads keys and returns how many are there; the bytes of all must be right.
func (c *chain) get(keys []uint64) (hits int) {
	c.t.Helper()
	data := device.AlignedBuffer(fullBlockBytes, 4096)
	for _, key := range keys {
		items := []engine.GetItem{{Key: engine.Key{Bytes: load.Block{Key: key}.KeyBytes()}, Dst: [][]byte{data}}}
		if err := c.ns.Get(items, engine.GetOptions{NoTouch: true}); err != nil {
			c.t.Fatal(err)
		}
		if items[0].Status != engine.Hit {
			continue
		}
		if _, err := load.Read(data, key); err != nil {
			c.t.Fatalf("WRONG BYTES: %v", err)
		}
		hits++
	}
	return hits
}

// TestFullDisk: another file takes all the room, again and again, while a store
// is written. The store goes on with what it has, answers gets, refuses puts by
// type when it must, stores again when there is room, without a restart, and
// opens and closes on the full file system.
func TestFullDisk(t *testing.T) {
	d := newDisk(t, "ext4", 200, "")
	dir := filepath.Join(d.dir, "store")
	s, c := openChain(t, dir, 96<<20)
	if n, err := c.put(2000, engine.PutOptions{Durability: engine.Durable}); n != 2000 {
		t.Fatalf("%d of 2000 stored: %v", n, err)
	}
	if hits := c.get(c.stored); hits != 2000 {
		t.Fatalf("%d of 2000 hits", hits)
	}
	var filler string
	logFull := false
	for round := 0; round < 2000 && !logFull; round++ {
		filler = d.fillUp(t) // also what the store has just given up
		n, err := c.put(100, engine.PutOptions{DropIfBusy: true})
		if err != nil && !errors.Is(err, engine.ErrNoSpace) {
			t.Fatalf("round %d: refused because of %v, which is not %v", round, err, engine.ErrNoSpace)
		}
		if logFull = errors.Is(err, wal.ErrFull); logFull {
			t.Logf("round %d: %d stored, then %v", round, n, err)
		}
	}
	st := s.Stat()
	t.Logf("full: %d segments, %d blocks, log full: %t", st.Segments, st.Blocks, logFull)
	newest := c.stored[len(c.stored)-200:]
	if st.Health != "ok" || st.Counters.WrittenBytes == 0 || c.get(newest) == 0 {
		t.Errorf("health %s (%s), %d of the 200 newest blocks", st.Health, st.HealthCause, c.get(newest))
	}
	shell(t, "rm", filler)
	waitFor(t, "store that takes all puts again", func() bool {
		n, _ := c.put(100, engine.PutOptions{DropIfBusy: true})
		return n == 100
	})
	c.wantNewest(100)
	d.fillUp(t)
	c.put(300, engine.PutOptions{DropIfBusy: true})
	mustClose(t, s)

	d.fillUp(t)
	s, again := openChain(t, dir, 0)
	again.next, again.stored = c.next, c.stored
	if hits := again.get(c.stored[len(c.stored)-200:]); hits == 0 {
		t.Error("no block is there after opening on a full file system")
	}
	again.put(100, engine.PutOptions{DropIfBusy: true})
	shell(t, "rm", filler)
	waitFor(t, "store that takes all puts again", func() bool {
		n, _ := again.put(100, engine.PutOptions{DropIfBusy: true})
		return n == 100
	})
	again.wantNewest(100)
	mustClose(t, s)
}

// wantNewest wants the n blocks stored last to be there.
func (c *chain) wantNewest(n int) {
	c.t.Helper()
	if hits := c.get(c.stored[len(c.stored)-n:]); hits != n {
		c.t.Errorf("%d of the %d newest blocks are there", hits, n)
	}
}

// mustClose closes a store; one that hangs fails the test instead of it.
func mustClose(t *testing.T, s *engine.Store) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("close: %v", err)
		}
	case <-time.After(hangLimit):
		t.Fatal("close hangs")
	}
}

// TestFullDiskCommands: the commands on a full file system end with the
// documented codes, and so does a replay whose file system fills up meanwhile.
func TestFullDiskCommands(t *testing.T) {
	d := newDisk(t, "ext4", 200, "")
	dir := filepath.Join(d.dir, "store")
	run(t, block(1, 4096), "put", "--dir", dir, "--capacity", "64MiB", "key").want(t, exitPass)
	h := hold(t, filepath.Join(d.dir, "held"))
	filler := d.fillUp(t)
	run(t, nil, "get", "--dir", dir, "key").want(t, exitPass)
	run(t, nil, "stat", "--dir", dir).want(t, exitPass)
	if o := run(t, block(2, 4096), "put", "--dir", dir, "key-2"); o.code != exitPass && o.code != exitError {
		t.Errorf("put: exit code %d: %s", o.code, o.stderr)
	}
	run(t, block(1, 4096), "put", "--dir", filepath.Join(d.dir, "other"), "--capacity", "64MiB", "key").
		want(t, exitError, "other", "no")
	wantNumbers(t, h.interrupt(t), "wrong_bytes", 0, "corrupt", 0, "missed_after_match", 0)
	shell(t, "rm", filler)
	run(t, block(3, 4096), "put", "--dir", dir, "key-3").want(t, exitPass)
	for n, key := range []string{1: "key", 3: "key-3"} {
		if key == "" {
			continue
		}
		if o := run(t, nil, "get", "--dir", dir, key).want(t, exitPass); o.stdout != string(block(uint64(n), 4096)) {
			t.Errorf("%s has other bytes", key)
		}
	}
}

// TestCapacityAboveFileSystem: more capacity than there is room is refused in
// numbers before anything is made, or the store goes on with what fits.
func TestCapacityAboveFileSystem(t *testing.T) {
	d := newDisk(t, "ext4", 200, "")
	dir := filepath.Join(d.dir, "store")
	run(t, nil, "replay", "--dir", dir, "--generate", "--requests", "100", "--quiet", "--capacity", "1GiB").
		want(t, exitError, "cannot reserve 1073741824 bytes", dir)
	// With room at the start and none later it goes on with what fits.
	run(t, block(1, 65536), "put", "--dir", dir, "--capacity", "150MiB", "--namespace", "other", "key").want(t, exitPass)
	d.fillAllBut(t, 60<<20)
	v := run(t, nil, "replay", "--dir", dir, "--generate", "--requests", "300", "--quiet", "--json").want(t, exitPass).object(t)
	wantNumbers(t, v, "requests", 300, "wrong_bytes", 0, "corrupt", 0, "missed_after_match", 0)
	if v["evicted"] == 0.0 || v["hits"] == 0.0 {
		t.Errorf("evicted %v, hits %v", v["evicted"], v["hits"])
	}
}

package system

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/integration/load"
)

// segmentBytes is small, so that small stores have several segments.
const segmentBytes = 4 << 20

// killLoad is one shape of load whose process is killed.
type killLoad struct {
	capacityBytes int64
	blockBytes    int
	workers       int
	keys          int // of each worker
	pressure      bool
}

// TestKill kills a loaded process again and again and looks at its store after
// each time: what was acknowledged is there, what was deleted or dropped is
// not, nothing healthy is called damaged, nothing leaks.
func TestKill(t *testing.T) {
	rounds := 5
	if long {
		rounds = 50
	}
	for name, shape := range map[string]killLoad{
		"room":      {capacityBytes: 96 << 20, blockBytes: 64 << 10, workers: 4, keys: 64},
		"pressure":  {capacityBytes: 48 << 20, blockBytes: 64 << 10, workers: 4, keys: 400, pressure: true},
		"small":     {capacityBytes: 96 << 20, blockBytes: 5000, workers: 4, keys: 200},
		"log-bound": {capacityBytes: 24 << 20, blockBytes: 4096, workers: 4, keys: 1500, pressure: true},
	} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(len(name)) * 7919
			t.Logf("seed %d, %d kills", seed, rounds)
			rng := rand.New(rand.NewPCG(seed, 1))
			dir := filepath.Join(t.TempDir(), "store")
			if shape.pressure {
				fillStore(t, dir, shape)
			}
			l := newLedger()
			for round := range rounds {
				killOnce(t, dir, shape, l, rng, uint64(round))
				checkStore(t, dir, shape, l)
				if t.Failed() {
					t.Fatalf("after kill %d", round+1)
				}
			}
			t.Logf("acknowledged: %d durable puts, %d relaxed, %d deletes, %d drops; refused puts: %d",
				l.counts[load.PutDurable], l.counts[load.PutRelaxed], l.counts[load.DeleteEnd], l.counts[load.DropEnd], l.counts[load.PutDropped])
			if l.counts[load.PutDurable] == 0 || l.counts[load.DeleteEnd] == 0 {
				t.Error("the load did too little to prove anything")
			}
			checkLeaks(t, dir, shape)
		})
	}
}

// killOnce starts the load and kills it at a random moment, counted from its
// start or, more often, from when the store is open.
func killOnce(t *testing.T, dir string, shape killLoad, l *ledger, rng *rand.Rand, round uint64) {
	t.Helper()
	args := []string{"-dir", dir, "-capacity", fmt.Sprint(shape.capacityBytes), "-segment", fmt.Sprint(segmentBytes),
		"-block", fmt.Sprint(shape.blockBytes), "-workers", fmt.Sprint(shape.workers), "-keys", fmt.Sprint(shape.keys),
		"-seed", fmt.Sprint(round), "-base", fmt.Sprint(l.newest)}
	if shape.pressure {
		args = append(args, "-pressure")
	}
	cmd := exec.Command(loadgen, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	report, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	delay := time.Duration(rng.Int64N(int64(700 * time.Millisecond)))
	if round == 0 {
		delay += 500 * time.Millisecond // the first round fills the store
	}
	killer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() }) // it may have ended by itself
	err = l.follow(report)
	killer.Stop()
	_ = cmd.Wait() // killed
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if cmd.ProcessState.Exited() {
		t.Fatalf("the load program ended before it was killed: %v\n%s", cmd.ProcessState, stderr.String())
	}
}

// openAtOnce opens a store whose process has just died. Its lock dies with it,
// or, where the kernel still has I/O of the process in flight, with the last of
// that: the ordinary wait for the lock is enough.
func openAtOnce(t *testing.T, dir string) *engine.Store {
	t.Helper()
	s, err := engine.Open(engine.Options{Dir: dir, MustExist: true, BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatalf("open after a kill: %v", err)
	}
	return s
}

// checkStore opens the store twice and compares it with the ledger.
func checkStore(t *testing.T, dir string, shape killLoad, l *ledger) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "SPILLWAY")); err != nil {
		if l.ready {
			t.Fatal(err)
		}
		return // killed before there was a store
	}
	for range 2 {
		s := openAtOnce(t, dir)
		checkPromises(t, s, shape, l)
		checkFiles(t, dir, s)
		c := s.Stat().Counters
		if c.TornBlocks != 0 || c.QuarantinedSlots != 0 || c.ReadErrors != 0 || c.WriteErrors != 0 || c.LostBlocks != 0 {
			t.Errorf("a kill is no damage: torn %d, quarantined %d, read errors %d, write errors %d, lost %d",
				c.TornBlocks, c.QuarantinedSlots, c.ReadErrors, c.WriteErrors, c.LostBlocks)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func checkPromises(t *testing.T, s *engine.Store, shape killLoad, l *ledger) {
	t.Helper()
	found := 0
	data := device.AlignedBuffer(shape.blockBytes, 4096)
	for at := range l.keys {
		ns, err := s.Namespace(load.Descriptor(at.space, shape.blockBytes))
		if err != nil {
			t.Fatal(err)
		}
		items := []engine.GetItem{{Key: engine.Key{Bytes: load.Block{Key: at.key}.KeyBytes()}, Dst: [][]byte{data}}}
		if err := ns.Get(items, engine.GetOptions{NoTouch: true}); err != nil {
			t.Fatal(err)
		}
		version := uint64(0)
		switch items[0].Status {
		case engine.Hit:
			b, err := load.Read(data, at.key)
			if err != nil {
				t.Errorf("WRONG BYTES: %v", err)
				continue
			}
			version = b.Version
			found++
		case engine.Miss:
			if items[0].Err != nil {
				t.Errorf("key %d is a miss because of %v", at.key, items[0].Err)
			}
		default:
			t.Fatalf("key %d: %v %v", at.key, items[0].Status, items[0].Err)
		}
		if err := l.judge(at, version, shape.pressure); err != nil {
			t.Error(err)
		}
	}
	if blocks := s.Stat().Blocks; blocks < found || blocks > found && !shape.pressure {
		t.Errorf("the store counts %d blocks, %d of all keys are there", blocks, found)
	}
}

// fillStore makes a store whose every slot holds a block that the load never
// asks for, so that each of its puts has to evict.
func fillStore(t *testing.T, dir string, shape killLoad) {
	t.Helper()
	s, err := engine.Open(engine.Options{Dir: dir, CapacityBytes: shape.capacityBytes, SegmentBytes: segmentBytes,
		BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ns, err := s.Namespace(load.Descriptor(0, shape.blockBytes))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, ns, 1<<40)
}

// fill puts as many blocks as the namespace says it can hold, from this key on.
func fill(t *testing.T, ns *engine.Namespace, first uint64) (slots int) {
	t.Helper()
	slots = ns.Stat().Slots
	blockBytes := ns.Descriptor().BlockBytes
	for n := range uint64(slots) {
		data := device.AlignedBuffer(blockBytes, 4096)
		b := load.Block{Key: first + n, Version: 1}
		load.Fill(data, b)
		items := []engine.PutItem{{Key: engine.Key{Bytes: b.KeyBytes()}, Src: [][]byte{data}}}
		if err := ns.Put(items, engine.PutOptions{}); err != nil || items[0].Status != engine.Stored {
			t.Fatalf("block %d of %d: %v %v %v", n, slots, items[0].Status, items[0].Err, err)
		}
	}
	return slots
}

// ownFiles are those of a store beside segments and log.
var ownFiles = []string{"LOCK", "SPILLWAY", "BALLAST", "DELETES", "index"}

// checkFiles: the directory holds what the store knows and nothing else, within
// the capacity.
func checkFiles(t *testing.T, dir string, s *engine.Store) {
	t.Helper()
	st := s.Stat()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var segments int
	var logBytes, allBytes int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		allBytes += info.Size()
		switch name := e.Name(); {
		case strings.HasPrefix(name, "seg-"):
			segments++
		case strings.HasPrefix(name, "wal-"):
			logBytes += info.Size()
		case !slices.Contains(ownFiles, name):
			t.Errorf("nobody knows the file %s", name)
		}
	}
	if segments != st.Segments || logBytes != st.LogBytes {
		t.Errorf("%d segment files and %d bytes of log, the store knows %d and %d", segments, logBytes, st.Segments, st.LogBytes)
	}
	if st.UsedBytes > st.CapacityBytes || allBytes > st.CapacityBytes {
		t.Errorf("%d bytes used, %d in the directory, capacity %d", st.UsedBytes, allBytes, st.CapacityBytes)
	}
}

// checkLeaks: after all kills the namespace can still hold as many new blocks
// as it says it has slots, all of them at once.
func checkLeaks(t *testing.T, dir string, shape killLoad) {
	t.Helper()
	s := openAtOnce(t, dir)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	other, err := s.Namespace(load.Descriptor(load.DroppedSpace, shape.blockBytes))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Drop(); err != nil { // its room would move over while we count
		t.Fatal(err)
	}
	ns, err := s.Namespace(load.Descriptor(0, shape.blockBytes))
	if err != nil {
		t.Fatal(err)
	}
	const first = 1 << 41
	slots := fill(t, ns, first)
	keys := make([]engine.Key, slots)
	for n := range keys {
		keys[n].Bytes = load.Block{Key: first + uint64(n)}.KeyBytes()
	}
	found, err := ns.Match(keys, engine.MatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if st := ns.Stat(); found.Prefix != slots || st.Blocks != slots || st.Slots != slots {
		t.Errorf("of %d slots %d hold the newest blocks; %d blocks, %d slots now", slots, found.Prefix, st.Blocks, st.Slots)
	}
}

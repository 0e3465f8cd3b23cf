package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The store of the damage tests: a replay of this many requests with these
// blocks, and one key of its own.
const (
	damageRequests   = "120"
	damageBlockBytes = 8192
	damageKeyBytes   = 8192
)

// damagedStore makes a store and returns what a replay of the same requests
// finds in it.
func damagedStore(t *testing.T) (dir string, before map[string]any) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	run(t, block(7, damageKeyBytes), onDir(dir, "put", "--capacity", "96MiB", "mine")...).want(t, exitPass)
	replayAgain(t, dir).want(t, exitPass)
	before = replayAgain(t, dir).want(t, exitPass).object(t)
	if before["hits"] != before["block_refs"] || before["hits"] == 0.0 {
		t.Fatalf("hits %v of %v", before["hits"], before["block_refs"])
	}
	return dir, before
}

func replayAgain(t *testing.T, dir string) outcome {
	t.Helper()
	return run(t, nil, onDir(dir, "replay", "--generate", "--seed", "9", "--requests", damageRequests, "--block-bytes",
		fmt.Sprint(damageBlockBytes), "--quiet", "--json")...)
}

// flip changes one bit of a file at an offset; a negative one counts from the end.
func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if offset < 0 {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		offset += info.Size()
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
}

// files lists those of a pattern in a store, in order.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s in %s (%v)", pattern, dir, err)
	}
	return found
}

// TestDamagedSlots: blocks whose bytes changed while the store was stopped are
// misses and counted, the others hit, and the next replay has put them again.
func TestDamagedSlots(t *testing.T) {
	dir, before := damagedStore(t)
	const seed, damaged = 3, 40
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	name := replaySegment(t, dir)
	blocks := int64(before["writes"].(float64) + before["present"].(float64))
	slots := map[int64]bool{}
	for len(slots) < damaged {
		slot := rng.Int64N(min(blocks/8, 1000))
		if !slots[slot] {
			slots[slot] = true
			flip(t, name, 4096+slot*damageBlockBytes+rng.Int64N(damageBlockBytes))
		}
	}
	v := replayAgain(t, dir).want(t, exitDamage, "damage").object(t)
	wantNumbers(t, v, "wrong_bytes", 0, "corrupt", damaged, "missed_after_match", damaged, "lost", 0)
	v = replayAgain(t, dir).want(t, exitPass).object(t)
	wantNumbers(t, v, "wrong_bytes", 0, "corrupt", 0, "missed_after_match", 0, "hits", int(before["hits"].(float64)))
}

// replaySegment is the first segment of the replay's namespace: the first one
// of all holds the key put by hand.
func replaySegment(t *testing.T, dir string) string {
	t.Helper()
	return files(t, dir, "seg-*")[1]
}

// TestDamagedKey: get tells damage from absence, and drops the block; a put
// stores it again.
func TestDamagedKey(t *testing.T) {
	dir, _ := damagedStore(t)
	flip(t, files(t, dir, "seg-*")[0], 4096+17)
	out := filepath.Join(t.TempDir(), "out")
	o := run(t, nil, onDir(dir, "get", "--json", "-o", out, "mine")...).want(t, exitDamage, "damaged")
	if _, err := os.Stat(out); !os.IsNotExist(err) || o.stdout != "" {
		t.Errorf("a damaged block was given out: %v, %d bytes", err, len(o.stdout))
	}
	run(t, nil, onDir(dir, "get", "mine")...).want(t, exitError, "not in namespace")
	run(t, block(7, damageKeyBytes), onDir(dir, "put", "mine")...).want(t, exitPass)
	if got := run(t, nil, onDir(dir, "get", "mine")...).want(t, exitPass); got.stdout != string(block(7, damageKeyBytes)) {
		t.Error("other bytes came back")
	}
}

// damage is one way to hurt a stopped store.
type damage struct {
	hurt func(t *testing.T, dir string)
	// codes are the exit codes that the next replay may have. A code other than
	// pass and damage means that the store cannot be opened: then every command
	// says so, and leaves the files as they are.
	codes []int
}

// TestDamagedFiles: whatever is damaged, no command answers a wrong byte,
// crashes, or ends with a code that the help does not list for it.
func TestDamagedFiles(t *testing.T) {
	opens, damages := []int{exitPass}, []int{exitPass, exitDamage}
	refuses := []int{exitDamage}
	for name, d := range map[string]damage{
		"segment header": {func(t *testing.T, dir string) { flip(t, replaySegment(t, dir), 70) }, opens},
		"segment header beyond its mirror": {func(t *testing.T, dir string) {
			flip(t, replaySegment(t, dir), 2000)
		}, opens},
		"segment cut": {func(t *testing.T, dir string) { truncate(t, replaySegment(t, dir), 3) }, damages},
		"segment emptied": {func(t *testing.T, dir string) {
			writeFile(t, replaySegment(t, dir), nil)
		}, damages},
		"segment gone":     {func(t *testing.T, dir string) { remove(t, replaySegment(t, dir)) }, opens},
		"segments swapped": {func(t *testing.T, dir string) { swap(t, files(t, dir, "seg-*")[:2]) }, damages},
		"slots swapped":    {swapSlots, damages},
		"log":              {everyFile("wal-*", 4096+100), damages},
		"log headers":      {everyFile("wal-*", 20), damages},
		"log gone": {func(t *testing.T, dir string) {
			for _, f := range files(t, dir, "wal-*") {
				remove(t, f)
			}
		}, opens},
		"store file":         {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "SPILLWAY"), 60) }, refuses},
		"store file's magic": {func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "SPILLWAY"), 0) }, []int{exitError}},
		"store file cut":     {func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, "SPILLWAY"), 2) }, refuses},
		"index table":        {everyFile("index/*.sst", 40), refuses},
		"index table's end":  {everyFile("index/*.sst", -20), refuses},
		"index manifest":     {everyFile("index/MANIFEST-*", 30), refuses},
		"index gone": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
				t.Fatal(err)
			}
		}, refuses},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := damagedStore(t)
			d.hurt(t, dir)
			d.check(t, dir)
		})
	}
}

func (d damage) check(t *testing.T, dir string) {
	first := replayAgain(t, dir)
	if !contains(d.codes, first.code) {
		t.Errorf("exit code %d, want one of %v: %s", first.code, d.codes, first.stderr)
	}
	first.want(t, first.code)
	t.Logf("exit code %d %s", first.code, firstLine(first.stderr))
	for _, o := range []outcome{first, replayAgain(t, dir)} {
		o.want(t, o.code)
		if o.stdout == "" { // the store cannot be opened
			if first.stdout != "" {
				t.Errorf("opened once and not again: %s", o.stderr)
			}
			continue
		}
		wantNumbers(t, o.object(t), "wrong_bytes", 0)
	}
	get := run(t, nil, onDir(dir, "get", "mine")...)
	get.want(t, get.code)
	switch get.code {
	case exitPass:
		if get.stdout != string(block(7, damageKeyBytes)) {
			t.Error("WRONG BYTES of key mine")
		}
	case exitError, exitDamage:
		if get.stdout != "" {
			t.Errorf("exit code %d and yet %d bytes", get.code, len(get.stdout))
		}
	default:
		t.Errorf("get: exit code %d: %s", get.code, get.stderr)
	}
	if first.stdout == "" {
		return
	}
	// A store that opens heals: what was lost is stored and served again.
	run(t, block(8, damageKeyBytes), onDir(dir, "put", "after")...).want(t, exitPass)
	if o := run(t, nil, onDir(dir, "get", "after")...).want(t, exitPass); o.stdout != string(block(8, damageKeyBytes)) {
		t.Error("WRONG BYTES of key after")
	}
	last := replayAgain(t, dir).want(t, exitPass).object(t)
	if last["hits"] != last["block_refs"] {
		t.Errorf("after healing %v hits of %v", last["hits"], last["block_refs"])
	}
}

func contains(codes []int, code int) bool {
	for _, c := range codes {
		if c == code {
			return true
		}
	}
	return false
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func everyFile(pattern string, offset int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, f := range files(t, dir, pattern) {
			flip(t, f, offset)
		}
	}
}

// truncate leaves one part of so many.
func truncate(t *testing.T, path string, parts int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/parts)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// swap exchanges the names of two files.
func swap(t *testing.T, two []string) {
	t.Helper()
	for _, move := range [][2]string{{two[0], two[0] + "x"}, {two[1], two[0]}, {two[0] + "x", two[1]}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
}

// swapSlots exchanges the bytes of two blocks: both are intact, neither is what
// its key says.
func swapSlots(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(replaySegment(t, dir), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, b := make([]byte, damageBlockBytes), make([]byte, damageBlockBytes)
	const offsetA, offsetB = 4096 + 3*damageBlockBytes, 4096 + 5*damageBlockBytes
	for _, step := range []func() (int, error){
		func() (int, error) { return f.ReadAt(a, offsetA) }, func() (int, error) { return f.ReadAt(b, offsetB) },
		func() (int, error) { return f.WriteAt(a, offsetB) }, func() (int, error) { return f.WriteAt(b, offsetA) },
	} {
		if _, err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

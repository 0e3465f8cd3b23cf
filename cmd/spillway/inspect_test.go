package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine"
)

// lines decodes JSON objects, one a line.
func lines(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["type"] == "" {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, v)
	}
	return all
}

// ofType counts lines by type.
func ofType(all []map[string]any) map[string]int {
	n := map[string]int{}
	for _, v := range all {
		n[v["type"].(string)]++
	}
	return n
}

// TestInspectStore shows every file of a store and changes none.
func TestInspectStore(t *testing.T) {
	dir, _ := newStore(t)
	sh(t, dir, "ns", "quota", "default", "64MiB").want(t, exitPass, "", "")
	before := tree(t, dir)
	got := process{t: t}.run("inspect", dir).want(t, exitPass, "SPILLWAY: store file", "")
	for _, want := range []string{"capacity 256 MiB", `namespace 1 "default": incarnation 1, quota 64 MiB`, "seg-00000001: segment", "slots of 4096 bytes",
		"header: version 1", "index: index", "block of namespace 1.1", "key key-1", "LOCK: lock file", "BALLAST: ballast", "DELETES: deletions", "newest deletion at position 0", "held by nobody; the last holder was pid"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("nothing says %q:\n%s", want, got.stdout)
		}
	}
	all := lines(t, process{t: t}.run("inspect", "--json", dir).want(t, exitPass, "", "").stdout)
	n := ofType(all)
	if n["file"] != n["end"] || n["file"] < 5 || n["damage"] != 0 || n["store"] != 1 || n["namespace"] != 1 || n["segment"] == 0 || n["log header"] == 0 || n["index entry"] < 3 || n["lock"] != 1 {
		t.Errorf("got %v", n)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("inspection changed the store:\n%s\nto\n%s", before, after)
	}
}

// tree lists a directory's files with size and time.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			b.WriteString(path + " " + info.ModTime().String() + " " + info.Mode().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestInspectLive looks at the files of a store in use.
func TestInspectLive(t *testing.T) {
	dir, block := newStore(t)
	s, err := engine.Open(engine.Options{Dir: dir, BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ns, err := s.FindNamespace("default")
	if err != nil {
		t.Fatal(err)
	}
	puts := []engine.PutItem{{Key: engine.Key{Bytes: []byte("live\x00")}, Src: [][]byte{[]byte(block)}}}
	if err := ns.Put(puts, engine.PutOptions{Durability: engine.Durable}); err != nil || puts[0].Status != engine.Stored {
		t.Fatal(err, puts[0].Status)
	}
	if _, err := ns.Delete([]engine.Key{{Bytes: []byte("key-1")}}); err != nil {
		t.Fatal(err)
	}
	got := process{t: t}.run("inspect", dir).want(t, exitError, "held by pid", "belongs to a store in use by pid")
	for _, want := range []string{": put namespace 1.1", "key hex:6c69766500", ": delete namespace 1.1", "frame, 4096 bytes"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("nothing says %q:\n%s", want, got.stdout)
		}
	}
	gets := []engine.GetItem{{Key: puts[0].Key, Dst: [][]byte{make([]byte, 4096)}}}
	if err := ns.Get(gets, engine.GetOptions{}); err != nil || gets[0].Status != engine.Hit {
		t.Errorf("the store is disturbed: %v, %v", err, gets[0])
	}
	sh(t, dir, "stat", "--lock-wait", "1ms").want(t, exitError, "", "in use by pid")
}

// TestInspectDamage: damage is named with its place, the rest is shown all the
// same, and the exit code is 5.
func TestInspectDamage(t *testing.T) {
	damage := func(change func(b []byte) []byte) func(path string) {
		return func(path string) {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(at int) func(path string) {
		return damage(func(b []byte) []byte { b[at] ^= 1; return b })
	}
	for _, c := range []struct {
		name, file string
		change     func(path string)
		offset     float64
		text       string
		shows      string // type that is shown all the same
	}{
		{"store file", "SPILLWAY", flip(40), 8, "checksum", "store"},
		{"store file cut", "SPILLWAY", damage(func(b []byte) []byte { return b[:15] }), 15, "cut short", "end"},
		{"store file of zeros", "SPILLWAY", damage(func(b []byte) []byte { return make([]byte, len(b)) }), 0, "not a spillway store", "end"},
		{"segment header", "seg-00000001", flip(70), 0, "checksum", "segment"},
		{"segment cut", "seg-00000001", damage(func(b []byte) []byte { return b[:8192] }), 8192, "blocks past the end", "segment"},
		{"log header", "wal-*", flip(20), 0, "no header", "log place"},
		{"deletions", "DELETES", flip(33), 0, "fails its checksum", "deletions"},
		{"index", "index/*.sst", damage(func(b []byte) []byte { return b[:len(b)/2] }), 0, "damaged: index", "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := newStore(t)
			paths, err := filepath.Glob(filepath.Join(dir, c.file))
			if err != nil || len(paths) == 0 {
				t.Fatalf("%v, no %s", err, c.file)
			}
			path := paths[len(paths)-1]
			if c.file == "wal-*" {
				path = usedLog(t, paths)
			}
			c.change(path)
			if strings.HasPrefix(c.file, "index/") {
				path = filepath.Dir(path)
			}
			got := process{t: t}.run("inspect", "--json", path).want(t, exitDamage, c.text, `"code":5`)
			all := lines(t, got.stdout)
			n := ofType(all)
			for _, v := range all {
				if v["type"] == "damage" && v["offset"] != c.offset {
					t.Errorf("damage at %v, want %v: %v", v["offset"], c.offset, v["text"])
				}
			}
			if n["damage"] != 1 || n[c.shows] == 0 || n["end"] != 1 {
				t.Errorf("got %v", n)
			}
			process{t: t}.run("inspect", path).want(t, exitDamage, "damage at offset", "damages")
		})
	}
}

// usedLog is a log file with a header.
func usedLog(t *testing.T, paths []string) string {
	t.Helper()
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(b), "SPILLWAL") {
			return path
		}
	}
	t.Fatal("no log file is in use")
	return ""
}

func TestInspectOthers(t *testing.T) {
	other := write(t, "other", "something else")
	process{t: t}.run("inspect", other).want(t, exitError, "", "other is none of our files")
	process{t: t}.run("inspect", t.TempDir()).want(t, exitError, "", "is none of our files")
	process{t: t}.run("inspect", "/does/not/exist").want(t, exitError, "", "no such file")
	process{t: t}.run("inspect", "/dev/null").want(t, exitError, "", "is none of our files")
	process{t: t}.run("inspect").want(t, exitUsage, "", "expected")
	process{t: t}.run("inspect", "--limit=-1", other).want(t, exitUsage, "", "is negative")

	dir, _ := newStore(t)
	store := filepath.Join(dir, "SPILLWAY")
	got := process{t: t}.run("inspect", other, store).want(t, exitError, "capacity", "none of our files")
	if strings.Contains(got.stdout, "other") {
		t.Errorf("got %s", got.stdout)
	}
	// A copy under any name is known by its content.
	b, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	process{t: t}.run("inspect", write(t, "copy", string(b))).want(t, exitPass, "copy: store file", "")

	all := lines(t, process{t: t}.run("inspect", "--json", "--limit", "1", store).want(t, exitPass, "", "").stdout)
	if n := ofType(all); n["store"] != 1 || n["namespace"] != 0 || all[len(all)-1]["left_out"] != 1.0 {
		t.Errorf("got %v, %v", n, all[len(all)-1])
	}
	process{t: t}.run("inspect", "--limit", "1", store).want(t, exitPass, "1 lines more, --limit is 1", "")
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checked runs spillway check on dir, on any file system.
func checked(t *testing.T, args ...string) outcome {
	t.Helper()
	return process{t: t}.run(append([]string{"check", "--buffered-io", "--any-filesystem"}, args...)...)
}

func TestCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	block := write(t, "block", strings.Repeat("x", 8192))
	for _, key := range []string{"a", "b"} {
		sh(t, dir, "put", "--capacity", "64MiB", key, block).want(t, exitPass, "STORED", "")
	}
	checked(t, dir).want(t, exitPass, "0 damage, 0 notices", "")
	checked(t, "--dir", dir, "--no-data").want(t, exitPass, "0 damage, 0 notices", "")
	if o := checked(t, dir, "-q").want(t, exitPass, "", ""); o.stdout+o.stderr != "" {
		t.Errorf("a quiet check of a healthy store says %q, %q", o.stdout, o.stderr)
	}
	v := checked(t, dir, "--json").want(t, exitPass, "", "").object(t, "check")
	if v["blocks"] != 2.0 || v["read"] != 2.0 || v["clean"] != true || len(v["faults"].([]any)) != 0 {
		t.Errorf("%v", v)
	}

	flip(t, filepath.Join(dir, "seg-00000001"), 4096+77)
	checked(t, dir).want(t, exitDamage, "damage: seg-00000001, slot 0, offset 4096: the block fails its checksum", "damage was found: 1")
	v = checked(t, dir, "--json").want(t, exitDamage, "", `"code":5`).object(t, "check")
	if f := v["faults"].([]any); len(f) != 1 || f[0].(map[string]any)["severity"] != "damage" {
		t.Errorf("%v", v)
	}
	flip(t, filepath.Join(dir, "seg-00000001"), 4096+77)

	if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
		t.Fatal(err)
	}
	checked(t, dir).want(t, exitDamage, "the index is missing", "docs/operations.md")
	v = checked(t, dir, "--rebuild", "--json").want(t, exitDamage, "", "").object(t, "check")
	if r := v["rebuilt"].(map[string]any); r["restored"] != 2.0 || v["seconds_per_gib"].(float64) <= 0 {
		t.Errorf("%v", v)
	}
	checked(t, dir).want(t, exitPass, "0 damage", "")
	sh(t, dir, "get", "b").want(t, exitPass, strings.Repeat("x", 8192), "")
	checked(t, dir, "--rebuild").want(t, exitPass, "index.damaged-1", "")
}

func TestCheckUsage(t *testing.T) {
	checked(t).want(t, exitUsage, "", "no directory")
	checked(t, "x", "--dir", "y").want(t, exitUsage, "", "given twice")
	checked(t, t.TempDir()).want(t, exitError, "", "not a spillway store")
	checked(t, filepath.Join(t.TempDir(), "missing")).want(t, exitError, "", "not a spillway store")
}

// flip changes one bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 4
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

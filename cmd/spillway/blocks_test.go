package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newStore makes a store with one block of 4096 bytes, key-1, in default.
func newStore(t *testing.T) (dir, block string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	block = strings.Repeat("0123456789abcdef", 256)
	process{t: t, stdin: block}.run(anywhere(dir, "put", "--capacity", "256MiB", "key-1")...).want(t, exitPass, "STORED\n", "")
	return dir, block
}

func TestPutGet(t *testing.T) {
	dir, block := newStore(t)
	if got := sh(t, dir, "get", "key-1").want(t, exitPass, "", ""); got.stdout != block {
		t.Errorf("%d other bytes came back", len(got.stdout))
	}
	other := strings.Repeat("x", 4096)
	file := write(t, "other", other)
	sh(t, dir, "put", "key-1", file).want(t, exitPass, "PRESENT\n", "")
	if got := sh(t, dir, "get", "key-1").want(t, exitPass, "", ""); got.stdout != block {
		t.Error("the second put changed the first one's bytes")
	}
	sh(t, dir, "put", "--group", "1", "key-1", file).want(t, exitPass, "STORED\n", "")
	if got := sh(t, dir, "get", "--group", "1", "key-1").want(t, exitPass, "", ""); got.stdout != other {
		t.Error("group 1 has other bytes")
	}
	sh(t, dir, "put", "--json", "hex:00ff", file).want(t, exitPass, `"status":"STORED"`, "").object(t, "put")
	out := filepath.Join(t.TempDir(), "out")
	v := sh(t, dir, "get", "--json", "-o", out, "hex:00ff").want(t, exitPass, "", "").object(t, "get")
	if got, err := os.ReadFile(out); err != nil || string(got) != other || v["key"] != "hex:00ff" || v["status"] != "HIT" {
		t.Errorf("got %v, error %v, %d bytes", v, err, len(got))
	}
}

// TestPutSizes: a block is exactly its size, or the error names both numbers.
func TestPutSizes(t *testing.T) {
	dir, _ := newStore(t)
	put := func(dataBytes int, args ...string) outcome {
		return process{t: t, stdin: strings.Repeat("d", dataBytes)}.run(anywhere(dir, append([]string{"put"}, args...)...)...)
	}
	put(4095, "short").want(t, exitUsage, "", "the data has 4095 bytes but a block of namespace default has 4096; give exactly one block, or --pad")
	put(4097, "long", "--pad").want(t, exitUsage, "", "the data has 4097 bytes but a block of namespace default has 4096")
	put(0, "none").want(t, exitUsage, "", "the data has 0 bytes")
	put(64<<20+1, "huge").want(t, exitUsage, "", "more than 67108864 bytes")
	put(5, "padded", "--pad").want(t, exitPass, "STORED", "")
	if got := sh(t, dir, "get", "padded").want(t, exitPass, "", "").stdout; got != "ddddd"+strings.Repeat("\x00", 4091) {
		t.Errorf("padded block has %d bytes, starts %.10q", len(got), got)
	}
	put(4096, "k", "--block-bytes", "8KiB").want(t, exitUsage, "", "--block-bytes is 8192 but namespace default has blocks of 4096 bytes")
	put(5000, "k", "--namespace", "own").want(t, exitPass, "STORED", "")
	put(5, "k", "--namespace", "own2", "--block-bytes", "8KiB", "--pad").want(t, exitPass, "STORED", "")
	put(5, "k", "--namespace", "own3", "--pad").want(t, exitPass, "STORED", "")
	put(5, "k", "--namespace", "own4").want(t, exitUsage, "", "a block of 5 bytes: a block holds 4096 to 67108864 bytes")
	list := sh(t, dir, "ns", "list", "--json").want(t, exitPass, "", "").object(t, "namespaces")
	got := map[string]float64{}
	for _, n := range list["namespaces"].([]any) {
		n := n.(map[string]any)
		got[n["name"].(string)] = n["block_bytes"].(float64)
	}
	want := map[string]float64{"default": 4096, "own": 5000, "own2": 8192, "own3": 4096}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("namespaces %v, want %v", got, want)
	}
}

// TestPutMakesNothing: a put that cannot succeed leaves no directory behind.
func TestPutMakesNothing(t *testing.T) {
	for name, args := range map[string][]string{
		"too small": {"--capacity", "256MiB", "key"},
		"no such":   {"--capacity", "256MiB", "--pad", "key", "/does/not/exist"},
		"zero":      {"--capacity", "0", "--pad", "key"},
		"no room":   {"--pad", "key"},
		"tiny":      {"--pad", "--capacity", "1k", "key"},
		"bad block": {"--capacity", "256MiB", "--pad", "--block-bytes", "1k", "key"},
		"bad key":   {"--capacity", "256MiB", "--pad", "hex:0"},
		"long key":  {"--capacity", "256MiB", "--pad", strings.Repeat("k", 1025)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			got := process{t: t, stdin: "short"}.run(anywhere(dir, append([]string{"put"}, args...)...)...)
			if want := map[bool]exitCode{true: exitError, false: exitUsage}[name == "no such"]; got.code != want {
				t.Errorf("exit code %d, want %d: %s", got.code, want, got.stderr)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the directory was made (%v): %s", err, got.stderr)
			}
		})
	}
}

func TestGetMisses(t *testing.T) {
	dir, _ := newStore(t)
	out := filepath.Join(t.TempDir(), "out")
	sh(t, dir, "get", "key-2", "-o", out).want(t, exitError, "", "key key-2 is not in namespace default; spillway ls shows what is")
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Error("a miss left a file")
	}
	sh(t, dir, "get", "--namespace", "nobody", "key-1").want(t, exitError, "", "nobody")
	sh(t, dir, "get", "--json", "key-1").want(t, exitUsage, "", "--json needs standard output")
	got := sh(t, dir, "get", "--json", "-o", out, "key-2").want(t, exitError, "", "")
	if e := object(t, got.stderr, "error"); e["code"] != float64(exitError) || got.stdout != "" {
		t.Errorf("got %v and stdout %q", e, got.stdout)
	}
}

func TestLs(t *testing.T) {
	dir, block := newStore(t)
	for i := 2; i < 6; i++ {
		process{t: t, stdin: block}.run(anywhere(dir, "put", fmt.Sprint("key-", i))...).want(t, exitPass, "STORED", "")
	}
	got := sh(t, dir, "ls").want(t, exitPass, "KEY", "")
	for i := 1; i < 6; i++ {
		if !strings.Contains(got.stdout, fmt.Sprintf("\nkey-%d ", i)) {
			t.Errorf("key-%d is not listed:\n%s", i, got.stdout)
		}
	}
	v := sh(t, dir, "ls", "--json", "--limit", "2").want(t, exitPass, "", "").object(t, "ls")
	if n := len(v["entries"].([]any)); n != 2 || v["more"] != true || v["block_bytes"] != 4096.0 {
		t.Errorf("got %v", v)
	}
	v = sh(t, dir, "ls", "--json", "--limit", "0").want(t, exitPass, "", "").object(t, "ls")
	if n := len(v["entries"].([]any)); n != 5 || v["more"] != false {
		t.Errorf("got %v", v)
	}
	sh(t, dir, "ls", "--limit", "2").want(t, exitPass, "", "there are more; --limit is 2")
	sh(t, dir, "ls", "--limit=-1").want(t, exitUsage, "", "--limit -1 is negative")
	sh(t, dir, "ls", "--namespace", "nobody").want(t, exitError, "", "spillway ns list shows the namespaces")
}

func TestStat(t *testing.T) {
	dir, _ := newStore(t)
	sh(t, dir, "stat").want(t, exitPass, "health", "")
	v := sh(t, dir, "stat", "--json").want(t, exitPass, "", "").object(t, "stat")
	if v["blocks"] != 1.0 || v["health"] != "ok" || v["dir"] == "" {
		t.Errorf("got %v", v)
	}
}

func TestNamespaces(t *testing.T) {
	dir, block := newStore(t)
	process{t: t, stdin: block}.run(anywhere(dir, "put", "--namespace", "second", "k")...).want(t, exitPass, "STORED", "")
	sh(t, dir, "ns", "list").want(t, exitPass, "second", "")

	sh(t, dir, "ns", "quota", "second", "64MiB").want(t, exitPass, "", "")
	v := sh(t, dir, "ns", "quota", "second", "128MiB", "--json").want(t, exitPass, "", "").object(t, "quota")
	if v["quota_bytes"] != float64(128<<20) {
		t.Errorf("got %v", v)
	}
	sh(t, dir, "ns", "list").want(t, exitPass, "128 MiB", "")
	v = sh(t, dir, "ns", "quota", "second", "none", "--json").want(t, exitPass, "", "").object(t, "quota")
	if v["quota_bytes"] != 0.0 {
		t.Errorf("got %v", v)
	}
	sh(t, dir, "ns", "quota", "second", "12X").want(t, exitUsage, "", `unknown suffix "X"`)
	sh(t, dir, "ns", "quota", "nobody", "64MiB").want(t, exitError, "", "nobody")

	sh(t, dir, "ns", "drop", "second").want(t, exitUsage, "", "give --yes")
	process{t: t, tty: true, stdin: "n\n"}.run(anywhere(dir, "ns", "drop", "second")...).want(t, exitError, "", "nothing was dropped")
	process{t: t, tty: true}.run(anywhere(dir, "ns", "drop", "second")...).want(t, exitError, "", "nothing was dropped")
	sh(t, dir, "get", "--namespace", "second", "k").want(t, exitPass, block, "")
	process{t: t, tty: true, stdin: "Yes\n"}.run(anywhere(dir, "ns", "drop", "second")...).want(t, exitPass, "", "Drop namespace second with its 1 blocks? [y/N]")
	sh(t, dir, "get", "--namespace", "second", "k").want(t, exitError, "", "")
	v = sh(t, dir, "ns", "drop", "--yes", "--json", "default").want(t, exitPass, "", "").object(t, "drop")
	if v["blocks"] != 1.0 {
		t.Errorf("got %v", v)
	}
	sh(t, dir, "get", "key-1").want(t, exitError, "", "")
}

func TestKeys(t *testing.T) {
	for _, key := range []string{"a", "key-1", "\x00\xff", "hex:00", "with space", "é", "hex:"} {
		back, err := readKey(showKey([]byte(key)))
		if err != nil || string(back) != key {
			t.Errorf("%q is shown as %q and read as %q, %v", key, showKey([]byte(key)), back, err)
		}
	}
	for _, text := range []string{"", "hex:", "hex:0", "hex:zz"} {
		if key, err := readKey(text); err == nil {
			t.Errorf("readKey(%q) = %q", text, key)
		}
	}
}

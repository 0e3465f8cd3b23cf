package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spillway-kv/spillway/cmd/spillway/replay"
	"github.com/spillway-kv/spillway/engine"
)

const smallTrace = `{"timestamp": 0, "input_length": 1500, "output_length": 1, "hash_ids": [0, 1, 2]}
{"timestamp": 1000, "input_length": 1500, "output_length": 1, "hash_ids": [0, 1, 3]}
{"timestamp": 1000, "input_length": 0, "output_length": 1, "hash_ids": []}
{"timestamp": 2000, "input_length": 1500, "output_length": 1, "hash_ids": [4, 1]}
`

// counts picks what a replay's JSON counted.
func counts(v map[string]any, names ...string) string {
	out := ""
	for _, name := range names {
		out += fmt.Sprintf("%s=%v ", name, v[name])
	}
	return strings.TrimSpace(out)
}

func TestReplaySmall(t *testing.T) {
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(smallTrace)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	plain, compressed := write(t, "trace.jsonl", smallTrace), write(t, "trace.jsonl.zst", packed.String())
	for name, args := range map[string][]string{
		"plain":      {plain},
		"compressed": {compressed},
		"durable":    {plain, "--durable"},
		"timed":      {plain, "--speed", "1e9"},
		"one by one": {plain, "--depth", "1"},
		"odd blocks": {plain, "--block-bytes", "5000"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			args := append([]string{"replay", "--json", "--capacity", "256MiB"}, args...)
			v := sh(t, dir, args...).want(t, exitPass, "", "").object(t, "replay")
			names := []string{"requests", "block_refs", "hits", "prefix_hits", "reads", "writes", "present",
				"dropped", "wrong_bytes", "corrupt", "lost", "missed_after_match"}
			want := "requests=4 block_refs=8 hits=3 prefix_hits=2 reads=3 writes=5 present=3 dropped=0 wrong_bytes=0 corrupt=0 lost=0 missed_after_match=0"
			if got := counts(v, names...); got != want {
				t.Errorf("first run:\n got %s\nwant %s", got, want)
			}
			if latency := v["read_latency_ns"].(map[string]any); latency["samples"] != 3.0 || latency["max"].(float64) < latency["min"].(float64) {
				t.Errorf("latency %v", latency)
			}
			v = sh(t, dir, args...).want(t, exitPass, "", "").object(t, "replay")
			want = "hits=8 prefix_hits=8 reads=8 writes=0 present=8"
			if got := counts(v, "hits", "prefix_hits", "reads", "writes", "present"); got != want {
				t.Errorf("second run:\n got %s\nwant %s", got, want)
			}
			v = sh(t, dir, append(args, "--requests", "2")...).want(t, exitPass, "", "").object(t, "replay")
			if got := counts(v, "requests", "block_refs"); got != "requests=2 block_refs=6" {
				t.Errorf("limited run: %s", got)
			}
		})
	}
}

func TestReplayTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	got := sh(t, dir, "replay", "--capacity", "256MiB", "--budget", "30ms", write(t, "trace", smallTrace))
	got.want(t, exitCannotJudge, "verdict", "cannot judge: 3 samples are too few to judge P99; at least 299 are needed")
	for _, line := range []string{"requests", "block_refs", "hits                3 (37.5 %)", "prefix_hits         2 (25.0 %)", "writes", "slots",
		"wrong_bytes         0", "corrupt", "lost", "IOPS", "/s", "min ", "P50", "P90", "P99", "P99.9", "max", "depth 16"} {
		if !strings.Contains(got.stdout, line) {
			t.Errorf("no %q in\n%s", line, got.stdout)
		}
	}
}

func TestReplayVerdicts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	run := func(budget string) outcome {
		return sh(t, dir, "replay", "--generate", "--requests", "120", "--seed", "7", "--block-bytes", "4KiB",
			"--capacity", "256MiB", "--json", "--budget", budget)
	}
	run("1h").want(t, exitPass, `"judgement":"pass"`, "").object(t, "replay")
	// No read with a checksum of 4 KiB and a system call takes less.
	got := run("1us").want(t, exitOverBudget, `"judgement":"over budget"`, "")
	got.object(t, "replay")
	if e := object(t, got.stderr, "error"); e["code"] != 3.0 {
		t.Errorf("got %v", e)
	}
}

// TestReplayWrongBytes: bytes that are not the id's end in damage, whatever
// the budget says.
func TestReplayWrongBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := engine.Open(engine.Options{Dir: dir, CapacityBytes: 256 << 20, BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := s.Namespace(replay.Descriptor(4096))
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	replay.Fill(block, 1)
	block[4095] ^= 1
	if err := ns.Put([]engine.PutItem{{Key: engine.Key{Bytes: []byte("1")}, Src: [][]byte{block}}}, engine.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := sh(t, dir, "replay", "--block-bytes", "4KiB", "--json", "--budget", "1h", write(t, "trace", smallTrace))
	v := got.want(t, exitDamage, "", "damage: 3 blocks read with wrong bytes, 0 corrupt").object(t, "replay")
	if got := counts(v, "wrong_bytes", "reads", "corrupt"); got != "wrong_bytes=3 reads=4 corrupt=0" {
		t.Error(got)
	}
}

// TestReplayCorrupt flips one byte of one block on the disk: that block is
// never answered, the run says so and ends in damage, and the block is put anew.
func TestReplayCorrupt(t *testing.T) {
	dir, trace := filepath.Join(t.TempDir(), "store"), write(t, "trace", smallTrace)
	args := []string{"replay", "--json", "--durable", "--block-bytes", "4KiB", "--capacity", "256MiB", trace}
	sh(t, dir, args...).want(t, exitPass, "", "")
	flipBlock(t, dir, 3)
	v := sh(t, dir, args...).want(t, exitDamage, "", "1 corrupt").object(t, "replay")
	want := "hits=8 reads=7 missed_after_match=1 corrupt=1 wrong_bytes=0 writes=1"
	if got := counts(v, "hits", "reads", "missed_after_match", "corrupt", "wrong_bytes", "writes"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	sh(t, dir, args...).want(t, exitPass, `"reads":8`, "")
	flipBlock(t, dir, 3)
	out := filepath.Join(t.TempDir(), "out")
	sh(t, dir, "get", "--namespace", "replay", "-o", out, "3").want(t, exitDamage, "", "damaged")
}

// flipBlock changes a byte in every copy of the content of this id on the disk.
func flipBlock(t *testing.T, dir string, id uint64) {
	t.Helper()
	content, found := make([]byte, 4096), 0
	replay.Fill(content, id)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(data, content)
		if at < 0 {
			return nil
		}
		found++
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte{content[1000] ^ 0x40}, int64(at)+1000)
		return err
	})
	if err != nil || found != 1 {
		t.Fatalf("flipped in %d files, error %v", found, err)
	}
}

func TestReplayBadTrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	bad := write(t, "bad.jsonl", smallTrace+"{\"timestamp\": oops\n")
	got := sh(t, dir, "replay", "--json", "--capacity", "256MiB", bad).want(t, exitError, `"requests":4`, "bad.jsonl line 5: malformed JSON")
	got.object(t, "replay")
	object(t, got.stderr, "error")

	for content, want := range map[string]string{"{}\n": "line 1: no timestamp", "": "is empty", "\x1f\x8b\x08": "gzip"} {
		dir := filepath.Join(t.TempDir(), "store")
		sh(t, dir, "replay", "--capacity", "256MiB", write(t, "trace", content)).want(t, exitError, "", want)
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("trace %q: the directory was made (%v)", content, err)
		}
	}
}

// TestReplayStops covers the two ways to stop before the trace ends.
func TestReplayStops(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	args := anywhere(dir, "replay", "--generate", "--block-bytes", "4KiB", "--capacity", "256MiB", "--json")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := &steppedClock{at: time.Unix(1e9, 0), step: time.Millisecond, onTick: func(n int) {
		if n == 3000 {
			cancel()
		}
	}}
	got := process{t: t, ctx: ctx, now: clock.now}.run(args...).want(t, exitError, "", `"interrupted"`)
	if v := got.object(t, "replay"); v["requests"].(float64) < 1 || v["requests"].(float64) > 3000 {
		t.Errorf("%v requests done", v["requests"])
	}
	sh(t, dir, "stat").want(t, exitPass, "ok", "") // closed cleanly

	clock = &steppedClock{at: time.Unix(1e9, 0), step: time.Millisecond}
	got = process{t: t, now: clock.now}.run(append(args, "--for", "2s")...).want(t, exitPass, "", "")
	if v := got.object(t, "replay"); v["requests"].(float64) < 1 || v["requests"].(float64) > 2000 {
		t.Errorf("%v requests done", v["requests"])
	}
}

func TestReplayProgress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	run := func(tty bool, extra ...string) string {
		clock := &steppedClock{at: time.Unix(1e9, 0), step: 100 * time.Millisecond}
		args := append([]string{"replay", "--capacity", "256MiB", "--block-bytes", "4KiB", "--generate", "--requests", "30"}, extra...)
		return process{t: t, tty: tty, now: clock.now}.run(anywhere(dir, args...)...).want(t, exitPass, "", "").stderr
	}
	if got := run(false); !strings.Contains(got, "requests, ") || !strings.Contains(got, " left\n") || strings.Contains(got, "\r") {
		t.Errorf("log: %q", got)
	}
	if got := run(true); !strings.Contains(got, "\r") || strings.Contains(got, "\n") || !strings.HasSuffix(got, " \r") {
		t.Errorf("terminal: %q", got)
	}
	if got := run(true, "--quiet"); got != "" {
		t.Errorf("quiet: %q", got)
	}
}

// steppedClock moves on by step at every look.
type steppedClock struct {
	mu     sync.Mutex
	at     time.Time
	step   time.Duration
	ticks  int
	onTick func(n int)
}

func (c *steppedClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(c.step)
	c.ticks++
	if c.onTick != nil {
		c.onTick(c.ticks)
	}
	return c.at
}

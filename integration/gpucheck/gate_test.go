package gpucheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/budget"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/tiering/model"
)

// The gate's blocks, in tokens, and how many are in flight.
const (
	gateBlockTokens = 16
	gateDepth       = 4
)

// gateStore bounds the store of the gate and each of its runs.
type gateStore struct {
	bytes   int64
	seconds int
}

// TestGate judges reads of blocks of the model, from a store in the directory of the
// check, against each measured time. A verdict of any kind is an answer; an error is none.
func TestGate(t *testing.T) {
	if testing.Short() && os.Getenv(spillwayPath) == "" {
		t.Skip("it builds the command")
	}
	path := filepath.Join(output(t), measurement)
	if !real {
		path = filepath.Join(t.TempDir(), measurement)
		kept := &budget.Stored{Model: "Llama-3.1-8B", GPU: "a stand-in", TP: 1, PP: 1, Weights: "bf16", KV: "bf16", Measured: time.Now().UTC(), By: "a test",
			Points: []budget.StoredPoint{{Batch: 1, Context: 4096, MS: 60000}, {Batch: 32, Context: 4096, MS: 0.001}}}
		if err := kept.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := budget.ReadStored(path)
	if err != nil {
		t.Fatalf("the step decode left no measurement: %v", err)
	}
	m, err := model.Find(kept.Model)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(directory(t), "gpucheck-gate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := gateStore{bytes: 2 * gib, seconds: 8}
	if !real {
		g = gateStore{bytes: 256 * mib, seconds: 1}
	}
	verdicts := g.run(t, spillway(t), dir, path, kept, m.BlockBytes(gateBlockTokens, model.BF16))
	if !real && (verdicts[0] != "pass" || verdicts[1] != "over budget") {
		t.Errorf("a minute and a microsecond for each token gave %q", verdicts)
	}
}

// run fills a store and reads it at random, once for each measured time.
func (g gateStore) run(t *testing.T, spillway, dir, path string, kept *budget.Stored, blockBytes int64) (verdicts []string) {
	t.Helper()
	ctx, _ := stepContext(t)
	for _, p := range kept.Points {
		args := []string{"fio", "--ioengine=store", "--directory=" + filepath.Join(dir, strconv.Itoa(p.Batch)), fmt.Sprintf("--size=%d", g.bytes),
			fmt.Sprintf("--bs=%d", blockBytes), "--output-format=json", "--quiet", "--budget-from=" + path, fmt.Sprintf("--batch=%d", p.Batch), fmt.Sprintf("--context=%d", p.Context),
			"--name=fill", "--rw=write", "--iodepth=8",
			"--name=read", "--stonewall", "--rw=randread", "--norandommap=1", "--time_based", fmt.Sprintf("--runtime=%d", g.seconds), fmt.Sprintf("--iodepth=%d", gateDepth)}
		cmd := exec.CommandContext(ctx, spillway, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3 && exit.ExitCode() != 4) {
			t.Fatalf("spillway fio: %v\n%s", err, stderr.Bytes())
		}
		var found struct {
			Spillway struct {
				Verdict *result.Gate `json:"verdict"`
			} `json:"spillway"`
		}
		if err := json.Unmarshal(stdout.Bytes(), &found); err != nil || found.Spillway.Verdict == nil {
			t.Fatalf("%v: no verdict in %s", err, stdout.Bytes())
		}
		v := found.Spillway.Verdict
		verdicts = append(verdicts, v.Verdict)
		report(t, finding{Name: fmt.Sprintf("gate at batch %d, context %d, blocks of %d bytes, depth %d", p.Batch, p.Context, blockBytes, gateDepth),
			Text: fmt.Sprintf("%s: %s, over %d reads", v.Verdict, v.Reason, v.Samples)})
		if err := os.RemoveAll(filepath.Join(dir, strconv.Itoa(p.Batch))); err != nil {
			t.Fatal(err)
		}
	}
	return verdicts
}

// spillway is the command: the one that is named, of a check on a GPU the one beside the
// check, else one that is built for the test.
func spillway(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(spillwayPath); path != "" {
		return path
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if real {
		return filepath.Join(filepath.Dir(self), "spillway")
	}
	path := filepath.Join(t.TempDir(), "spillway")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/spillway")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

package system

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestKillFirstStart kills the first start on an empty directory at any
// moment: half made is never made, the next start works.
func TestKillFirstStart(t *testing.T) {
	rounds := 5
	if long {
		rounds = 50
	}
	const seed = 11
	t.Logf("seed %d, %d kills", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 0))
	const blockBytes = 8192
	killed := 0
	for round := range rounds {
		dir := filepath.Join(t.TempDir(), "store")
		put := onDir(dir, "put", "--capacity", "64MiB", "key")
		first := exec.Command(spillway, put...)
		first.Stdin = bytes.NewReader(block(1, blockBytes))
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		delay := time.Duration(rng.Int64N(int64(300 * time.Millisecond)))
		if round%2 == 0 { // dense where a start does its work
			delay /= 8
		}
		killer := time.AfterFunc(delay, func() { _ = first.Process.Kill() }) // it may have ended
		_ = first.Wait()                                                     // killed
		killer.Stop()
		if !first.ProcessState.Exited() {
			killed++
		}
		second := run(t, block(1, blockBytes), put...).want(t, exitPass)
		if second.stdout != "STORED\n" && second.stdout != "PRESENT\n" {
			t.Errorf("after a kill at %v: %q", delay, second.stdout)
		}
		if got := run(t, nil, onDir(dir, "get", "key")...).want(t, exitPass); got.stdout != string(block(1, blockBytes)) {
			t.Errorf("after a kill at %v other bytes came back", delay)
		}
		v := run(t, nil, onDir(dir, "stat", "--json")...).want(t, exitPass).object(t)
		wantNumbers(t, v, "blocks", 1, "segments", 1)
		if t.Failed() {
			t.Fatalf("round %d, killed after %v", round, delay)
		}
	}
	if killed == 0 {
		t.Error("no start was slow enough to be killed")
	}
}

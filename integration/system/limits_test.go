package system

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/integration/load"
)

// TestOpenFiles: a limit of open files below the number of segments is refused
// in numbers and costs no block; under a limit that is low but enough the store
// grows no further than it allows.
func TestOpenFiles(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("prlimit is not installed")
	}
	dir := filepath.Join(t.TempDir(), "store")
	shape := killLoad{capacityBytes: 24 << 20, blockBytes: 4096}
	s, err := engine.Open(engine.Options{Dir: dir, CapacityBytes: shape.capacityBytes, SegmentBytes: 64 << 10,
		BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := s.Namespace(load.Descriptor(0, shape.blockBytes))
	if err != nil {
		t.Fatal(err)
	}
	blocks := fill(t, ns, 0)
	segments := s.Stat().Segments
	mustClose(t, s)
	if segments < 150 {
		t.Fatalf("only %d segments", segments)
	}
	for _, limit := range []int{32, 128, segments} {
		o := runCommand(t, nil, "prlimit", append([]string{fmt.Sprintf("--nofile=%d:%d", limit, limit), spillway},
			onDir(dir, "stat")...)...)
		o.want(t, exitError, fmt.Sprintf("this process may have %d", limit), "raise the limit")
	}
	o := runCommand(t, nil, "prlimit", append([]string{fmt.Sprintf("--nofile=%d:%d", segments+150, segments+150), spillway},
		onDir(dir, "stat", "--json")...)...)
	wantNumbers(t, o.want(t, exitPass).object(t), "segments", segments, "blocks", blocks)

	small := filepath.Join(t.TempDir(), "small")
	o = runCommand(t, nil, "prlimit", append([]string{"--nofile=140:140", spillway},
		onDir(small, "replay", "--generate", "--requests", "60", "--block-bytes", "1MiB", "--capacity", "1GiB", "--quiet", "--json")...)...)
	wantNumbers(t, o.want(t, exitPass).object(t), "requests", 60, "wrong_bytes", 0, "corrupt", 0, "dropped", 0)
	if found, _ := filepath.Glob(filepath.Join(small, "seg-*")); len(found) > 40 { // the pattern is well formed
		t.Errorf("%d segments under a limit of 140 open files", len(found))
	}
	if strings.Contains(o.stderr, "too many open files") && !strings.Contains(o.stderr, "psync") {
		t.Errorf("ran into the limit:\n%s", o.stderr)
	}
}

package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/spillway-kv/spillway/engine"
)

// TestOptionsCut: a file of the index's options that lost its end is found by a
// check, whatever is left of it, and written anew by an open.
func TestOptionsCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := engine.Options{Dir: dir, CapacityBytes: 64 << 20, AnyFileSystem: true, BufferedIO: true}
	for _, left := range []float64{0, 0.1, 0.5, 0.9, 0.98, 0.99, 1} {
		s, err := engine.Open(o)
		must(t, err)
		must(t, s.Close())
		found, err := filepath.Glob(filepath.Join(dir, "index", "OPTIONS-*"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		info, err := os.Stat(found[0])
		must(t, err)
		must(t, os.Truncate(found[0], int64(left*float64(info.Size()))))
		report, err := engine.Check(context.Background(), engine.CheckOptions{Dir: dir, AnyFileSystem: true, BufferedIO: true})
		must(t, err)
		if said := report.Damage+report.Notices > 0; said != (left < 1) {
			t.Errorf("%v of %d bytes left: damage %d, notices %d", left, info.Size(), report.Damage, report.Notices)
		}
	}
}

package engine_test

import (
	"errors"
	"testing"

	"github.com/spillway-kv/spillway/engine"
)

// TestIOEngine: the choice reaches the device and shows in Stat; a wrong one is
// a bad configuration.
func TestIOEngine(t *testing.T) {
	open := func(name string, rings int) (*engine.Store, error) {
		return engine.Open(engine.Options{Dir: t.TempDir(), CapacityBytes: 256 << 20, IOEngine: name, Rings: rings,
			AnyFileSystem: true, BufferedIO: true})
	}
	for _, c := range []struct {
		name  string
		rings int
	}{{"magic", 1}, {"auto", 17}, {"auto", -1}} {
		if _, err := open(c.name, c.rings); !errors.Is(err, engine.ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, name := range []string{"", "auto", "uring", "psync"} {
		s, err := open(name, 2)
		if name == "uring" && errors.Is(err, errors.ErrUnsupported) {
			t.Logf("no io_uring here: %v", err)
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		got := s.Stat().Device
		if got != "uring" && got != "psync" || (name == "uring" || name == "psync") && got != name {
			t.Errorf("engine %q came to %q", name, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// rename gives a file of the rig another name.
func (m simMedium) rename(from, to string) {
	if strings.Contains(from, "/") {
		folder, err := m.fs.OpenDir(m.fs.PathDir(from))
		must(m.t, err)
		must(m.t, errors.Join(m.fs.Rename(from, to), folder.Sync(), folder.Close()))
		return
	}
	m.offline(func(dev device.Device) {
		must(m.t, errors.Join(dev.Rename(from, to), dev.SyncDir()))
	})
}

// nameHoldsNothing reports whether a change of a file's name may go unnoticed: its
// number only keeps it apart from others of its kind.
func nameHoldsNothing(name, changed string, spare bool) bool {
	numberOnly := func(prefix, suffix string) bool {
		return strings.HasPrefix(name, prefix) && strings.HasPrefix(changed, prefix) && strings.HasSuffix(name, suffix) && strings.HasSuffix(changed, suffix)
	}
	switch {
	case isLog(name) && spare:
		return numberOnly("wal-", "")
	case strings.HasPrefix(name, "index/marker.manifest."): // its count
		return numberOnly("index/marker.manifest.", name[strings.LastIndex(name, "."):])
	case strings.HasPrefix(name, "index/marker.format-version."):
		return numberOnly("index/marker.format-version.", name[strings.LastIndex(name, "."):])
	case strings.HasPrefix(name, "index/OPTIONS-"):
		return numberOnly("index/OPTIONS-", "")
	case strings.HasSuffix(name, ".log"):
		return numberOnly("index/", ".log")
	}
	return false
}

// TestEveryName: one changed byte in the name of a file is found by a check,
// unless the name says nothing there; whatever opens then answers nothing wrong.
func TestEveryName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{Seed: flipSeed})
		livedStore(t, r.open, func(s *engine.Store) { mustClose(t, s) })
		m := simMedium{r}
		f := newFlips(t, m, false)
		for _, name := range m.names() {
			if strings.Contains(name, "#") {
				continue
			}
			groups := f.groups(name)
			unused := len(groups) > 0
			for _, g := range groups {
				unused = unused && g.nothing
			}
			for at := strings.LastIndex(name, "/") + 1; at < len(name); at++ {
				if !testing.Short() || f.rng.IntN(3) == 0 {
					f.changeName(name, at, unused)
				}
			}
		}
		if report, faults := m.check(engine.CheckOptions{}); len(faults) > 0 {
			t.Errorf("after: %+v\n%s", report, show(faults))
		}
	})
}

// changeName changes one byte of a name.
func (f *flips) changeName(name string, at int, unused bool) {
	m := f.m.(simMedium)
	changed := []byte(name)
	for changed[at] == name[at] || changed[at] < ' ' || changed[at] == '/' || changed[at] > '~' {
		changed[at] = name[at] ^ 1<<f.rng.IntN(7)
	}
	for _, other := range m.names() {
		if other == string(changed) {
			return
		}
	}
	m.rename(name, string(changed))
	defer m.rename(string(changed), name)
	dev, err := m.disk.Open()
	must(f.t, err)
	report, err := engine.Check(f.t.Context(), engine.CheckOptions{Device: dev, IndexFS: m.fs})
	found := err != nil || report.Damage+report.Notices > 0
	if !found && !unused && !nameHoldsNothing(name, string(changed), unused) {
		f.t.Errorf("%s, named %s: not found", name, changed)
	}
	fork := m.fork()
	s, err := fork.open()
	if err != nil {
		if f.opened[err.Error()]++; !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrNotAStore) && !errors.Is(err, engine.ErrVersion) {
			f.t.Errorf("%s, named %s: %v", name, changed, err)
		}
		return
	}
	a := namespace(f.t, s, "a", 4096)
	if got := get(f.t, a, sequence(0, flipBlocks)...); got[flipDeleted] == engine.Hit { // compares the bytes of hits
		f.t.Errorf("%s, named %s: the deleted block came back", name, changed)
	}
	must(f.t, s.Close())
}

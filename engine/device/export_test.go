package device

import "github.com/spillway-kv/spillway/engine/device/iouring"

// SetUp is what tests change about rings.
type SetUp struct {
	Calls    iouring.Calls
	Entries  uint32
	BytesMax int
}

func (s SetUp) internal() ringSetup {
	return ringSetup{calls: s.Calls, entries: s.Entries, bytesMax: s.BytesMax}
}

// OpenDirWith is OpenDir with rings that are set up otherwise.
func OpenDirWith(dir string, o Options, s SetUp) (Device, error) {
	return openDir(dir, o, s.internal())
}

// NewNullWith is NewNull with rings that are set up otherwise.
func NewNullWith(o Options, s SetUp) (Device, error) { return newNull(o, s.internal()) }

// Refusal explains an error of opening a ring.
func Refusal(err error, disabled string) (problem, remedy string) { return refusal(err, disabled) }

// LoneBytes is the bound of what EngineAuto gives to a worker.
const LoneBytes = loneBytes

// FilePlaces is how many files a table of registered files holds.
const FilePlaces = filePlaces

// Counts are the sums over a device's rings.
type Counts struct{ Enters, Wakeups, Fixed uint64 }

// RingCounts returns them; without rings all are 0.
func RingCounts(d Device) (c Counts) {
	var rs *rings
	switch x := d.(type) {
	case *uring:
		rs = x.rings
	case *psync:
		rs = x.rings
	case *null:
		rs = x.rings
	}
	if rs == nil {
		return c
	}
	for _, r := range rs.all {
		c.Enters += r.enters.Load()
		c.Wakeups += r.wakeups.Load()
		c.Fixed += r.fixed.Load()
	}
	return c
}

// LaneCalls is how many calls have been made on lanes.
func LaneCalls(d Device) uint64 { return d.(*uring).lanes.calls.Load() }

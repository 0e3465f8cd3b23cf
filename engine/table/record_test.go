package table

import (
	"math/rand/v2"
	"testing"
)

// fields is a record, unpacked.
type fields struct {
	ID                     ID
	Checksum, Position     uint64
	Place                  uint64
	Namespace, Depth       uint32
	Pins, Leases           uint16
	Importance, State      uint8
	Parked, Doomed, Shared bool
}

func unpacked(r *Record) fields {
	return fields{r.ID, r.Checksum, r.Position(), r.Place(), r.Namespace(), r.Depth, r.Pins, r.Leases,
		r.Importance, r.State(), r.Parked(), r.Doomed(), r.Shared()}
}

// TestRecordFields sets one field after the other to its ends and to random values:
// no other one changes, and the record stays in use.
func TestRecordFields(t *testing.T) {
	tab := newTable(t, 10)
	ref := mustInsert(t, tab, ID{1, 2})
	r, want := tab.At(ref), fields{ID: ID{1, 2}}
	rnd := rand.New(rand.NewPCG(idSeed, 0))
	value := func(most uint64) uint64 {
		switch rnd.IntN(3) {
		case 0:
			return 0
		case 1:
			return most
		}
		return rnd.Uint64N(most) // below most
	}
	set := []func(){
		func() { want.Checksum = value(1<<64 - 1); r.Checksum = want.Checksum },
		func() { want.Position = value(PositionMax); r.SetPosition(want.Position) },
		func() { want.Place = value(1<<32-1)<<32 | value(SlotMax); r.SetPlace(want.Place) },
		func() { want.Namespace = uint32(value(NamespaceMax)); r.SetNamespace(want.Namespace) },
		func() { want.Depth = uint32(value(1<<32 - 1)); r.Depth = want.Depth },
		func() { want.Pins = uint16(value(PinsMax)); r.Pins = want.Pins },
		func() { want.Leases = uint16(value(LeasesMax)); r.Leases = want.Leases },
		func() { want.Importance = uint8(value(255)); r.Importance = want.Importance },
		func() { want.State = uint8(value(stateMask)); r.SetState(want.State) },
		func() { want.Parked = value(1) == 1; r.SetParked(want.Parked) },
		func() { want.Doomed = value(1) == 1; r.SetDoomed(want.Doomed) },
		func() { want.Shared = value(1) == 1; r.SetShared(want.Shared) },
	}
	for range 10_000 {
		set[rnd.IntN(len(set))]()
		if got := unpacked(tab.At(ref)); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	for what, tooMuch := range map[string]func(){
		"position":  func() { r.SetPosition(PositionMax + 1) },
		"slot":      func() { r.SetPlace(SlotMax + 1) },
		"namespace": func() { r.SetNamespace(NamespaceMax + 1) },
		"state":     func() { r.SetState(stateMask + 1) },
	} {
		mustPanic(t, what, tooMuch)
	}
	tab.Remove(ref)
	if again := mustInsert(t, tab, ID{3, 4}); again != ref || unpacked(tab.At(again)) != (fields{ID: ID{3, 4}}) {
		t.Errorf("record %d of a new block: %+v", again, unpacked(tab.At(again)))
	}
}

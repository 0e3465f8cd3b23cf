package engine

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-kv/spillway/engine/table"
)

// TestTakeFindsTheNextFreeSlot: whatever became of the slots, take finds the one that a
// look at each of them in turn would.
func TestTakeFindsTheNextFreeSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.Uint32Range(1, 3*groupSlots*64).Draw(t, "slots")
		g := newSegment(segmentHeader{number: 1, slots: slots}, nil)
		slot := rapid.Uint32Range(0, slots-1)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				for range rapid.IntRange(1, 2*groupSlots*64).Draw(t, "n") {
					takeOne(t, g)
				}
			},
			"release": func(t *rapid.T) {
				from := slot.Draw(t, "from")
				step := rapid.Uint32Range(1, 500).Draw(t, "step")
				for s := from; s < slots; s += step {
					if g.owner[s] != slotFree && g.owner[s] != slotQuarantined {
						g.release(s)
					}
				}
			},
			"quarantine": func(t *rapid.T) { g.quarantine(slot.Draw(t, "slot")) },
			"cursor":     func(t *rapid.T) { g.cursor = rapid.Uint32Range(0, slots).Draw(t, "cursor") },
			"":           func(*rapid.T) {},
		})
	})
}

func takeOne(t *rapid.T, g *segment) {
	want, any := uint32(0), false
	for n := uint32(0); n < g.header.slots && !any; n++ {
		want = (g.cursor + n) % g.header.slots
		any = g.owner[want] == slotFree
	}
	got, ok := g.take()
	if ok != any || ok && got != want {
		t.Fatalf("took %d %v, want %d %v", got, ok, want, any)
	}
	if ok {
		g.owner[got] = table.Ref(1)
	}
}

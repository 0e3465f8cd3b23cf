package pool

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestAllowance: what is spent on hedges is the part of all that was earned, and what was
// there at first.
func TestAllowance(t *testing.T) {
	a := allowance{percent: 5, left: 100}
	spent, earned := int64(0), int64(100)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		n := rng.Int64N(5000)
		a.earn(n)
		earned += n * 5 / 100
		if want := rng.Int64N(1000); a.spend(want) {
			spent += want
		}
		if spent > earned || a.left != earned-spent {
			t.Fatalf("%d spent of %d, %d left", spent, earned, a.left)
		}
	}
	if spent < earned/2 {
		t.Errorf("only %d of %d were spent", spent, earned)
	}
	if a.earn(1 << 60); a.left != allowanceMax {
		t.Errorf("%d saved up", a.left)
	}
	none := allowance{percent: -1}
	if none.earn(1 << 40); none.spend(1) {
		t.Error("something for nothing")
	}
}

// TestWindow: of a hundred latencies the 95th, of the latest only, and nothing from a few.
func TestWindow(t *testing.T) {
	var w window
	for n := range windowKnown - 1 {
		w.add(time.Duration(n))
	}
	if _, ok := w.p95(); ok {
		t.Error("a P95 of too few")
	}
	for n := range 1000 {
		w.add(time.Duration(n))
	}
	if d, ok := w.p95(); !ok || d != 1000-windowSamples+61-1 {
		t.Errorf("%d, %v", d, ok)
	}
	for bytes, want := range map[int64]int{0: 0, 1: 0, 64 << 10: 0, 64<<10 + 1: 1, 128 << 10: 1, 1 << 20: 4, 4 << 20: 6, 1 << 50: sizeClasses - 1} {
		if got := sizeClass(bytes); got != want {
			t.Errorf("%d bytes are of class %d, want %d", bytes, got, want)
		}
	}
}

// TestBreaker walks a breaker through its states.
func TestBreaker(t *testing.T) {
	var b breaker
	now := time.Unix(1000, 0)
	want := func(state string, wait time.Duration) {
		t.Helper()
		next := b.nextProbe()
		if b.String() != state || next.IsZero() != (wait < 0) || wait >= 0 && next.Sub(now) != wait {
			t.Errorf("%s, probe in %v; want %s, %v", b.String(), next.Sub(now), state, wait)
		}
	}
	want("closed", -1)
	b.judge(false, now)
	b.judge(false, now)
	want("closed", 0)
	b.judge(true, now)
	want("closed", -1)
	b.inDoubt = true
	want("closed", doubtGap)
	for range 3 {
		b.judge(false, now)
	}
	want("open", breakerMin)
	for range 10 {
		b.judge(false, now)
	}
	want("open", breakerMax)
	b.probing = true
	want("half-open", breakerMax)
	b.judge(true, now)
	want("closed", -1)
	if b.trips != 1 {
		t.Errorf("%d trips", b.trips)
	}
}

// TestPlace: the newest two copies, each once.
func TestPlace(t *testing.T) {
	var at Place
	at.add(0)
	if at.Known() || at.remove(0) {
		t.Error("nowhere is somewhere")
	}
	for _, n := range []uint16{1, 2, 2, 1, 3} {
		at.add(n)
	}
	if at != (Place{3, 2}) || at.remove(1) || !at.remove(3) || at != (Place{2, 0}) || !at.remove(2) || at.Known() {
		t.Errorf("%v", at)
	}
}

// TestHints compares hints with a plain map while they fit, and sees the oldest of a bucket
// go when they do not.
func TestHints(t *testing.T) {
	h := newHints(1 << 16)
	model := map[ID]Place{}
	rng := rand.New(rand.NewPCG(2, 2))
	ids := make([]ID, 500)
	for i := range ids {
		binary.LittleEndian.PutUint64(ids[i][:], rng.Uint64())
		binary.LittleEndian.PutUint64(ids[i][8:], rng.Uint64())
	}
	for range 100000 {
		id, n := ids[rng.IntN(len(ids))], uint16(rng.IntN(4))
		at := model[id]
		if rng.IntN(2) == 0 {
			h.add(&id, n)
			at.add(n)
		} else if got, want := h.remove(&id, n), at.remove(n); got != want {
			t.Fatalf("remove: %v, want %v", got, want)
		}
		if model[id] = at; !at.Known() {
			delete(model, id)
		}
		if got := h.find(&id); got != at {
			t.Fatalf("%v, want %v", got, at)
		}
	}
	if h.len() != len(model) {
		t.Errorf("%d hints, want %d", h.len(), len(model))
	}
	small := newHints(1) // one bucket a shard
	var same []ID
	for i := range 20 {
		var id ID
		id[8] = byte(i + 1)
		same = append(same, id)
		small.add(&id, 1)
		small.add(&same[0], 1) // is used all the time
	}
	known := slices.DeleteFunc(slices.Clone(same), func(id ID) bool { return !small.find(&id).Known() })
	if want := append([]ID{same[0]}, same[20-hintWays+1:]...); !slices.Equal(known, want) {
		t.Errorf("%v, want %v", known, want)
	}
}

package wal

import (
	"fmt"
	"testing"
)

// The tests in this file walk every combination of facts. Each must match
// exactly one row, or be declared impossible here; both at once is a mistake.

func bools(n int) [][]bool {
	all := make([][]bool, 1<<n)
	for i := range all {
		all[i] = make([]bool, n)
		for bit := range n {
			all[i][bit] = i>>bit&1 == 1
		}
	}
	return all
}

func wantOneRow(t *testing.T, what string, rows int, impossible string) {
	t.Helper()
	switch {
	case impossible != "" && rows > 0:
		t.Errorf("%s: declared impossible (%s), and %d rows match", what, impossible, rows)
	case impossible == "" && rows != 1:
		t.Errorf("%s: %d rows match, want exactly one", what, rows)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestPlaceTable(t *testing.T) {
	reached := map[seen]bool{}
	for _, b := range bools(6) {
		f := placeFacts{b[0], b[1], b[2], b[3], b[4], b[5]}
		impossible := ""
		switch {
		case !f.readable && (f.magic || f.store || f.number || f.offset || f.sound):
			impossible = "nothing is known of what cannot be read"
		case !f.magic && (f.store || f.number || f.offset || f.sound):
			impossible = "fields are looked at behind a magic only"
		case !f.store && f.number:
			impossible = "the log number counts in frames of this store only"
		case f.sound && !(f.store && f.number && f.offset):
			impossible = "the checksum is computed for live frames at their place only"
		}
		rows := 0
		for _, r := range placeTable {
			if r.readable.covers(f.readable) && r.magic.covers(f.magic) && r.store.covers(f.store) &&
				r.number.covers(f.number) && r.offset.covers(f.offset) && r.sound.covers(f.sound) {
				rows++
			}
		}
		wantOneRow(t, fmt.Sprintf("%+v", f), rows, impossible)
		if did := panics(func() { reached[look(f)] = true }); did != (impossible != "") {
			t.Errorf("%+v: panic %v", f, did)
		}
	}
	if len(reached) != len(placeTable) {
		t.Errorf("%d of %d rows are reached", len(reached), len(placeTable))
	}
}

func TestVerdictTable(t *testing.T) {
	reached := map[verdict]bool{}
	for s := range seenCount {
		for _, o := range []order{orderNone, orderBehind, orderExpected, orderAhead} {
			for _, h := range []hole{holeEnd, holeNone, holeUnsynced, holePartly, holeSynced} {
				live := s == seenFrame || s == seenFileStart
				impossible := ""
				switch {
				case live != (o != orderNone):
					impossible = "frames and file starts have a position, nothing else has"
				case o == orderAhead && (h == holeEnd || h == holeNone):
					impossible = "what is ahead lies behind the hole itself"
				case s == seenFileStart && o == orderAhead && h != holeSynced:
					impossible = "a sound header promises everything before its first position"
				}
				rows := 0
				for _, r := range verdictTable {
					if r.seen&(1<<s) != 0 && r.order&o != 0 && r.hole&h != 0 {
						rows++
					}
				}
				what := fmt.Sprintf("seen %d, order %d, hole %d", s, o, h)
				wantOneRow(t, what, rows, impossible)
				if did := panics(func() { reached[decide(s, o, h)] = true }); did != (impossible != "") {
					t.Errorf("%s: panic %v", what, did)
				}
			}
		}
	}
	for v := verdictApply; v <= verdictDamageThenEnd; v++ {
		if !reached[v] {
			t.Errorf("verdict %d is never given", v)
		}
	}
}

func TestHeaderTable(t *testing.T) {
	reached := map[headerState]bool{}
	for _, b := range bools(5) {
		f := headerFacts{b[0], b[1], b[2], b[3], b[4]}
		impossible := ""
		switch {
		case !f.readable && (f.sound || f.version || f.store || f.number):
			impossible = "nothing is known of what cannot be read"
		case !f.sound && (f.version || f.store || f.number):
			impossible = "nothing is believed before the checksum"
		}
		rows := 0
		for _, r := range headerTable {
			if r.readable.covers(f.readable) && r.sound.covers(f.sound) && r.version.covers(f.version) &&
				r.store.covers(f.store) && r.number.covers(f.number) {
				rows++
			}
		}
		wantOneRow(t, fmt.Sprintf("%+v", f), rows, impossible)
		if did := panics(func() { reached[judgeHeader(f)] = true }); did != (impossible != "") {
			t.Errorf("%+v: panic %v", f, did)
		}
	}
	if len(reached) != 5 {
		t.Errorf("%d of 5 states are reached", len(reached))
	}
}

// TestJudge walks short lists of items: every way to place up to four things
// behind one another, with every promise, and checks what must hold whatever the
// verdicts: positions ascend, nothing at or below from is replayed, and nothing
// behind an unpromised hole is.
func TestJudge(t *testing.T) {
	kinds := []item{
		{seen: seenBlank}, {seen: seenBroken}, {seen: seenUnreadable},
		{seen: seenFrame}, {seen: seenFileStart},
	}
	var items []item
	cases := 0
	var grow func(next Position)
	grow = func(next Position) {
		for from := Position(0); from <= next; from++ {
			cases++
			checkReplay(t, items, from)
		}
		if len(items) == 4 || t.Failed() {
			return
		}
		for _, kind := range kinds {
			for skipped := Position(0); skipped <= 2; skipped += 2 {
				it := kind
				after := next
				if it.live() {
					it.first = next + skipped
					after = it.first
				} else if skipped > 0 {
					continue
				}
				promises := []Position{0}
				switch it.seen {
				case seenFileStart:
					promises[0] = it.first - 1
				case seenFrame:
					it.last, after = it.first+1, it.first+2
					promises = []Position{0, next - 1, next, it.first - 1}
				}
				for _, it.synced = range promises {
					items = append(items, it)
					grow(after)
					items = items[:len(items)-1]
				}
			}
		}
	}
	grow(1)
	t.Logf("%d lists", cases)
}

func checkReplay(t *testing.T, items []item, from Position) {
	t.Helper()
	r := judge(items, from, func(*item) error { return errMissing })
	bad := func(why string) {
		t.Errorf("%s: items %+v, from %d: %+v", why, items, from, r)
	}
	synced := Position(0)
	for _, it := range items {
		synced = max(synced, it.synced)
	}
	at := from
	gaps := r.gaps
	for _, it := range r.apply {
		if len(gaps) > 0 && gaps[0].After == at {
			at, gaps = gaps[0].Before-1, gaps[1:]
		}
		if it.first != at+1 || it.last < it.first {
			bad("replay is not contiguous")
			return
		}
		at = it.last
	}
	for _, g := range gaps { // at the end
		if g.After != at || len(gaps) > 1 && g.Before <= g.After+1 {
			bad("gap is out of place")
			return
		}
		at = g.Before - 1
	}
	if r.last != at {
		bad("wrong last position")
	}
	for _, g := range r.gaps {
		if g.Before <= g.After+1 || g.Before-1 > synced {
			bad("a gap of which nobody was promised the records")
		}
	}
}

package engine_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// getIDs reads blocks by ID, checks every hit and its checksum.
func getIDs(t testing.TB, ns *engine.Namespace, ids []engine.BlockID, blocks ...int) []engine.Status {
	t.Helper()
	size := ns.Descriptor().BlockBytes
	items := getItems(size, true, blocks...)
	for i := range items {
		items[i].Key = engine.Key{} // not looked at
	}
	must(t, ns.GetIDs(ids, items, engine.GetOptions{}))
	out := make([]engine.Status, len(items))
	for i, n := range blocks {
		if out[i] = items[i].Status; out[i] != engine.Hit {
			continue
		}
		if items[i].Version.ID != ids[i] || items[i].Checksum != engine.Checksum(ids[i], items[i].Dst) ||
			!bytes.Equal(items[i].Dst[0], content(n, size)) {
			t.Fatalf("block %d: wrong bytes, version %x, checksum %x", n, items[i].Version.ID, items[i].Checksum)
		}
	}
	return out
}

// TestByID: calls by ID answer as those by key, and know nothing of other namespaces.
func TestByID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns, other := namespace(t, s, "a", 4096), namespace(t, s, "b", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 20)...), engine.Stored)
		all(t, put(t, other, engine.PutOptions{}, sequence(0, 20)...), engine.Stored)
		blocks := sequence(-2, 25)
		ids, incarnation := ns.IDs(keysOf(blocks...))
		if incarnation != 1 || ns.Incarnation() != 1 {
			t.Fatal(incarnation)
		}
		want, err := ns.Match(keysOf(blocks...), engine.MatchOptions{TrailingN: 5})
		must(t, err)
		got, err := ns.MatchIDs(ids, engine.MatchOptions{TrailingN: 5})
		must(t, err)
		if !slices.Equal(got.Present, want.Present) || got.Prefix != want.Prefix || got.Trailing != want.Trailing {
			t.Fatalf("%+v by ID, %+v by key", got, want)
		}
		if !slices.Equal(getIDs(t, ns, ids, blocks...), get(t, ns, blocks...)) {
			t.Fatal("reads differ")
		}
		versions, byKey, sums := make([]engine.Version, 25), make([]engine.Version, 25), make([]uint64, 25)
		must(t, ns.Versions(keysOf(blocks...), byKey))
		must(t, ns.VersionsIDs(ids, versions, sums))
		if !slices.Equal(versions, byKey) {
			t.Fatal("versions differ")
		}
		for i, n := range blocks {
			if v := versions[i]; v.Position > 0 && (v.ID != ids[i] || sums[i] != engine.Checksum(v.ID, [][]byte{content(n, 4096)})) {
				t.Fatalf("block %d: %+v, checksum %x", n, v, sums[i])
			}
		}
		if n, err := ns.TouchIDs(ids); n != 20 || err != nil {
			t.Fatal(n, err)
		}
		m, err := ns.MatchIDs(ids, engine.MatchOptions{Lease: time.Second})
		if err != nil || m.Leased == 0 {
			t.Fatal(m, err)
		}
		ns.Release(m.Lease)

		all(t, getIDs(t, other, ids, blocks...), engine.Miss)
		if m, err := other.MatchIDs(ids, engine.MatchOptions{Lease: time.Second}); err != nil || m.Lease != 0 || slices.Contains(m.Present, true) {
			t.Fatal(m, err)
		}
		if n, err := other.TouchIDs(ids); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := other.DeleteIDs(1, ids); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		all(t, get(t, ns, sequence(0, 20)...), engine.Hit)

		_, err = ns.DeleteIDs(2, ids)
		wantErr(t, err, engine.ErrGone)
		if n, err := ns.DeleteIDs(1, ids[:10]); n != 8 || err != nil {
			t.Fatal(n, err)
		}
		all(t, get(t, ns, sequence(0, 8)...), engine.Miss)
		all(t, get(t, ns, sequence(8, 12)...), engine.Hit)
		wantErr(t, ns.GetIDs(ids, getItems(4096, true, 1), engine.GetOptions{}), engine.ErrConfig)
		wantErr(t, ns.GetIDs(ids[:1], getItems(4000, true, 1), engine.GetOptions{}), engine.ErrSize)
		mustClose(t, s)
	})
}

// TestListIDs: entries name their blocks.
func TestListIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2, 3), engine.Stored)
		places(t, ns, 1, 2, 3)
		n := 0
		must(t, ns.List(func(e engine.Entry) bool {
			if ids, _ := ns.IDs([]engine.Key{e.Key}); ids[0] != e.ID {
				t.Errorf("entry of %x has ID %x", ids[0], e.ID)
			}
			n++
			return true
		}))
		if n != 3 {
			t.Fatal(n)
		}
		ids, _ := ns.IDs(keysOf(1, 2, 3))
		slices.SortFunc(ids, func(a, b engine.BlockID) int { return bytes.Compare(a[:], b[:]) })
		for i := range ids {
			var got []engine.BlockID
			must(t, ns.ListFrom(ids[i], func(e engine.Entry) bool { got = append(got, e.ID); return true }))
			if !slices.Equal(got, ids[i:]) {
				t.Fatalf("from ID %d: %x, want %x", i, got, ids[i:])
			}
		}
		mustClose(t, s)
	})
}

// TestRaise: a namespace is raised to an incarnation once; lower and equal ones change
// nothing, and there is a highest.
func TestRaise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
		old, _ := ns.IDs(keysOf(1, 2))
		must(t, ns.RaiseTo(0))
		must(t, ns.RaiseTo(1))
		all(t, get(t, ns, 1, 2), engine.Hit)
		must(t, ns.RaiseTo(7))
		if n := ns.Incarnation(); n != 7 {
			t.Fatal(n)
		}
		all(t, getIDs(t, ns, old, 1, 2), engine.Miss)
		all(t, put(t, ns, engine.PutOptions{Incarnation: 7}, 1, 2), engine.Stored)
		for _, n := range []uint32{0, 1, 6, 7} {
			must(t, ns.RaiseTo(n))
		}
		all(t, get(t, ns, 1, 2), engine.Hit)
		all(t, put(t, ns, engine.PutOptions{Incarnation: 6}, 1, 3), engine.Dropped)
		all(t, get(t, ns, 3), engine.Miss)
		must(t, ns.Drop())
		if n := ns.Incarnation(); n != 8 {
			t.Fatal(n)
		}
		must(t, ns.RaiseTo(engine.IncarnationMax))
		wantErr(t, ns.Drop(), engine.ErrConfig)
		wantErr(t, ns.RaiseTo(engine.IncarnationMax+1), engine.ErrConfig)
		all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
		mustClose(t, s)
		s = r.open(engine.Options{})
		if ns = namespace(t, s, "a", 4096); ns.Incarnation() != engine.IncarnationMax {
			t.Fatal(ns.Incarnation())
		}
		all(t, get(t, ns, 1), engine.Hit)
		mustClose(t, s)
	})
}

// TestRaiseIsDurable: what was raised or deleted by ID stays so, over a kill and a power cut.
func TestRaiseIsDurable(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{}))
			ns := namespace(t, s, "a", 4096)
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, sequence(0, 10)...), engine.Stored)
			must(t, ns.RaiseTo(uint32(2+seed)))
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable, Incarnation: uint32(2 + seed)}, 3, 4, 5), engine.Stored)
			ids, incarnation := ns.IDs(keysOf(4, 8))
			if n, err := ns.DeleteIDs(incarnation, ids); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if seed%2 == 0 {
				r.kill(s)
			} else {
				r.powerCut(s)
			}
			s = r.open(engine.Options{})
			ns = namespace(t, s, "a", 4096)
			if n := ns.Incarnation(); n != uint32(2+seed) {
				t.Errorf("seed %d: incarnation %d", seed, n)
			}
			all(t, get(t, ns, 3, 5), engine.Hit)
			all(t, get(t, ns, append(sequence(6, 4), 0, 1, 2, 4)...), engine.Miss)
			mustClose(t, s)
		})
	}
}

// TestRaiseFails: a store file that cannot be written leaves nobody with the old blocks,
// and whoever asks for the same incarnation again is not told that all is well.
func TestRaiseFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
		ids, _ := ns.IDs(keysOf(1, 2))
		r.disk.SetFaults(sim.Plan{MetaEIO: 1})
		for range 2 {
			if err := ns.RaiseTo(5); err == nil {
				t.Fatal("raised without a store file")
			}
			all(t, getIDs(t, ns, ids, 1, 2), engine.Miss)
			all(t, get(t, ns, 1, 2), engine.Miss)
		}
		r.disk.SetFaults(sim.Plan{})
		must(t, ns.RaiseTo(5))
		r.kill(s)
		s = r.open(engine.Options{})
		if ns = namespace(t, s, "a", 4096); ns.Incarnation() != 5 {
			t.Fatal(ns.Incarnation())
		}
		all(t, get(t, ns, 1, 2), engine.Miss)
		mustClose(t, s)
	})
}

// raceTally is what a run of TestRaiseRaces has seen.
type raceTally struct{ hits, stored, gone int }

// TestRaiseRaces: movers take blocks from one store and put them into another, guarded
// with the incarnation under which they read them, while the namespace is raised on both
// and blocks are deleted. Nothing erased is ever found again: every block says in its
// content under which incarnation it was made.
func TestRaiseRaces(t *testing.T) {
	var sum raceTally
	for seed := range uint64(25) {
		bubble(t, func(t *testing.T) {
			race := newRaiseRace(t, seed)
			tally := race.run()
			sum.hits += tally.hits
			sum.stored += tally.stored
			sum.gone += tally.gone
		})
	}
	if sum.hits == 0 || sum.stored == 0 || sum.gone == 0 {
		t.Errorf("the races are too tame: %+v", sum)
	}
}

type raiseRace struct {
	t        *testing.T
	seed     uint64
	from, to *engine.Namespace
	stores   []*engine.Store

	mu    sync.Mutex
	floor uint32 // raised on both, durably
	tally raceTally
}

func newRaiseRace(t *testing.T, seed uint64) *raiseRace {
	race := &raiseRace{t: t, seed: seed, floor: 1}
	var spaces []*engine.Namespace
	for i := range uint64(2) {
		r := newRig(t, sim.Config{Seed: 2*seed + i, MinLatency: 20 * time.Microsecond, MaxLatency: 2 * time.Millisecond})
		s := r.open(small(engine.Options{}))
		race.stores = append(race.stores, s)
		spaces = append(spaces, namespace(t, s, "a", oddBytes))
	}
	race.from, race.to = spaces[0], spaces[1]
	return race
}

// made is what block n holds when it is made under an incarnation.
func made(n int, incarnation uint32) []byte { return content(n+1000*int(incarnation), oddBytes) }

const raceKeys = 12

func (race *raiseRace) run() raceTally {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	loop := func(stream uint64, f func(*rand.Rand)) {
		rng := rand.New(rand.NewPCG(race.seed, stream))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				f(rng)
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
			}
		})
	}
	loop(1, race.make)
	loop(2, race.move)
	loop(3, race.move)
	loop(4, race.read)
	raiser := rand.New(rand.NewPCG(race.seed, 5))
	for range 12 {
		time.Sleep(time.Duration(raiser.IntN(20)) * time.Millisecond)
		race.raise(raiser)
	}
	close(stop)
	wg.Wait()
	for _, s := range race.stores {
		mustClose(race.t, s)
	}
	return race.tally
}

// raise goes to the next incarnation on both, in any order.
func (race *raiseRace) raise(rng *rand.Rand) {
	race.mu.Lock()
	next := race.floor + 1
	race.mu.Unlock()
	both := []*engine.Namespace{race.from, race.to}
	rng.Shuffle(2, func(i, j int) { both[i], both[j] = both[j], both[i] })
	for _, ns := range both {
		if err := ns.RaiseTo(next); err != nil {
			race.t.Error(err)
		}
	}
	race.mu.Lock()
	race.floor = next
	race.mu.Unlock()
}

// make puts blocks that say under which incarnation they are made.
func (race *raiseRace) make(rng *rand.Rand) {
	race.put(race.from, rng.IntN(raceKeys), race.from.Incarnation(), nil)
}

// put puts a block of an incarnation, guarded.
func (race *raiseRace) put(ns *engine.Namespace, n int, incarnation uint32, bytes []byte) {
	if bytes == nil {
		bytes = made(n, incarnation)
	}
	items := []engine.PutItem{{Key: key(n), Src: [][]byte{bytes}}}
	if err := ns.Put(items, engine.PutOptions{Incarnation: incarnation}); err != nil {
		race.t.Error(err)
		return
	}
	race.mu.Lock()
	defer race.mu.Unlock()
	switch {
	case items[0].Status == engine.Stored:
		race.tally.stored++
	case errors.Is(items[0].Err, engine.ErrGone):
		race.tally.gone++
	}
}

// move takes a block over.
func (race *raiseRace) move(rng *rand.Rand) {
	n := rng.IntN(raceKeys)
	ids, incarnation := race.from.IDs(keysOf(n))
	items := getItems(oddBytes, false, n)
	if err := race.from.GetIDs(ids, items, engine.GetOptions{}); err != nil {
		race.t.Error(err)
		return
	}
	if items[0].Status != engine.Hit {
		return
	}
	if engine.Checksum(ids[0], items[0].Dst) != items[0].Checksum {
		race.t.Errorf("block %d fails the checksum beside it", n)
	}
	time.Sleep(time.Duration(rng.IntN(5000)) * time.Microsecond)
	race.put(race.to, n, incarnation, items[0].Dst[0])
}

// read finds nothing that was erased before the call.
func (race *raiseRace) read(rng *rand.Rand) {
	for _, ns := range []*engine.Namespace{race.from, race.to} {
		n := rng.IntN(raceKeys)
		race.mu.Lock()
		floor := race.floor
		race.mu.Unlock()
		items := getItems(oddBytes, false, n)
		var err error
		if rng.IntN(2) == 0 {
			err = ns.Get(items, engine.GetOptions{})
		} else {
			ids, _ := ns.IDs(keysOf(n))
			err = ns.GetIDs(ids, items, engine.GetOptions{})
		}
		if err != nil {
			race.t.Error(err)
			return
		}
		if items[0].Status != engine.Hit {
			continue
		}
		race.mu.Lock()
		race.tally.hits++
		race.mu.Unlock()
		found := uint32(0)
		for i := floor; i <= floor+12; i++ { // raises may have come meanwhile
			if bytes.Equal(items[0].Dst[0], made(n, i)) {
				found = i
			}
		}
		if found == 0 {
			race.t.Errorf("seed %d: block %d is of an incarnation below %d", race.seed, n, floor)
		}
	}
}

package engine_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// rawEntry is a block's entry of the index (docs/format/index.md).
type rawEntry struct{ key, value []byte }

func (e rawEntry) id() string       { return string(e.key[9:25]) }
func (e rawEntry) position() uint64 { return binary.BigEndian.Uint64(e.key[25:]) }
func (e rawEntry) place() uint64    { return binary.LittleEndian.Uint64(e.value) }

// index opens the index of a closed store and lists the blocks' entries.
func (r *rig) index() (db *pebble.DB, entries []rawEntry) {
	r.t.Helper()
	db, err := pebble.Open("index", &pebble.Options{FS: r.fs, DisableWAL: true, Logger: silent{}, FormatMajorVersion: pebble.FormatValueSeparation})
	if err != nil {
		r.t.Fatal(err)
	}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("b"), UpperBound: []byte("c")})
	if err != nil {
		r.t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		entries = append(entries, rawEntry{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
	}
	must(r.t, it.Close())
	return db, entries
}

// silent is a log of Pebble's that nobody reads.
type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// rivals are made-up entries: each has the slot or the ID of one that is there, at
// an earlier or a later position, and some have nothing alive about them.
func rivals(rng *rand.Rand, entries []rawEntry) (made []rawEntry) {
	newest := uint64(0)
	for _, e := range entries {
		newest = max(newest, e.position())
	}
	taken := map[uint64]bool{}
	for range len(entries) / 2 {
		a, b := entries[rng.IntN(len(entries))], entries[rng.IntN(len(entries))]
		e := rawEntry{bytes.Clone(a.key), bytes.Clone(a.value)}
		switch rng.IntN(4) {
		case 0: // the ID of another in the same slot
			if bytes.Equal(a.key[:9], b.key[:9]) {
				copy(e.key, b.key)
			}
		case 1: // an ID like no other
			binary.LittleEndian.PutUint64(e.key[9:], rng.Uint64())
		case 2: // an incarnation that is gone
			binary.BigEndian.PutUint32(e.key[5:], uint32(rng.IntN(9)+2))
		case 3: // a segment that is gone
			binary.LittleEndian.PutUint64(e.value, uint64(rng.IntN(1000)+1000)<<32)
		}
		position := newest + 1 + uint64(rng.IntN(3*len(entries)))
		if taken[position] {
			continue
		}
		taken[position] = true
		binary.BigEndian.PutUint64(e.key[25:], position)
		made = append(made, e)
	}
	return made
}

// living are the entries that count, oldest first: whose slot and ID no later one
// names.
func living(entries []rawEntry) (alive []rawEntry) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e rawEntry) bool {
		return binary.BigEndian.Uint32(e.key[5:]) != 1 || e.place()>>32 >= 1000
	})
	slices.SortFunc(entries, func(a, b rawEntry) int { return cmp.Compare(a.position(), b.position()) })
	for i, e := range entries {
		if !slices.ContainsFunc(entries[i+1:], func(later rawEntry) bool { return later.id() == e.id() || later.place() == e.place() }) {
			alive = append(alive, e)
		}
	}
	return alive
}

// admissions is an LRU that remembers who was admitted, in which order.
type admissions struct {
	evict.Policy
	order []evict.Handle
	ids   map[evict.Handle]string
}

func (a *admissions) Admit(h evict.Handle, access evict.Access) {
	a.order = append(a.order, h)
	a.ids[h] = string(access.ID[:])
	a.Policy.Admit(h, access)
}

func (a *admissions) Forget(h evict.Handle) {
	a.order = slices.DeleteFunc(a.order, func(other evict.Handle) bool { return other == h })
	delete(a.ids, h)
	a.Policy.Forget(h)
}

// TestWhichEntryCounts: of several entries that name one slot or one ID the newest
// counts at an open, the others are deleted, and the eviction order is that of the
// positions, however the entries lie in the index.
func TestWhichEntryCounts(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sim.Config{Seed: seed})
			s := r.open(small(engine.Options{}))
			for i, name := range []string{"a", "b", "c"} {
				put(t, namespace(t, s, name, 4096<<i), engine.PutOptions{}, sequence(0, 60)...)
			}
			mustClose(t, s)
			db, entries := r.index()
			made := rivals(r.rng, entries)
			for _, e := range made {
				must(t, db.Set(e.key, e.value, pebble.NoSync))
			}
			must(t, db.Flush())
			must(t, db.Close())
			want := living(append(entries, made...))
			if dead := len(entries) + len(made) - len(want); dead < 50 || len(want) < 100 {
				t.Fatalf("%d entries live, %d do not", len(want), dead)
			}

			var policies []*admissions
			s = r.open(engine.Options{Policy: wrapPolicies(func(p evict.Policy) evict.Policy {
				policies = append(policies, &admissions{Policy: p, ids: map[evict.Handle]string{}})
				return policies[len(policies)-1]
			})})
			must(t, s.CheckSlots())
			for n, p := range policies {
				var got, order []string
				for _, h := range p.order {
					got = append(got, p.ids[h])
				}
				for _, e := range want {
					if binary.BigEndian.Uint32(e.key[1:]) == uint32(n+1) {
						order = append(order, e.id())
					}
				}
				if !slices.Equal(got, order) {
					t.Errorf("seed %d, namespace %d: %d blocks in another order than the %d wanted", seed, n+1, len(got), len(order))
				}
			}
			mustClose(t, s)

			db, entries = r.index()
			must(t, db.Close())
			if !maps.Equal(byKey(entries), byKey(want)) {
				t.Errorf("seed %d: %d entries are left, want %d", seed, len(entries), len(want))
			}
		})
	}
}

func byKey(entries []rawEntry) map[string]string {
	m := map[string]string{}
	for _, e := range entries {
		m[string(e.key)] = string(e.value)
	}
	return m
}

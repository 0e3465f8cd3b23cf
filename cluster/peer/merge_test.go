package peer

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/engine"
)

// randomMerge is a sound message.
func randomMerge(rng *rand.Rand) *Merge {
	m := &Merge{Wants: rng.IntN(2) == 0, Digest: rng.Uint64()}
	for i := range rng.IntN(4) {
		m.Clock = append(m.Clock, Mark{Origin: member.ID{byte(i + 1)}, Seq: rng.Uint64()})
	}
	for i := range rng.IntN(4) {
		m.Floors = append(m.Floors, Floor{Namespace: [32]byte{byte(i + 1)}, Incarnation: rng.Uint32N(engine.IncarnationMax)})
	}
	for i := range rng.IntN(4) {
		at := uint64(rng.IntN(1000))
		g := Group{Origin: member.ID{byte(i + 1)}, After: at}
		for j := range rng.IntN(3) {
			at += uint64(1 + rng.IntN(3))
			g.Lost = append(g.Lost, Lost{Namespace: [32]byte{byte(j)}, Seq: at})
		}
		for range rng.IntN(4) {
			at += uint64(1 + rng.IntN(3))
			e := Erasure{Seq: at, Namespace: [32]byte{7}, Incarnation: 1 + rng.Uint32N(9)}
			if rng.IntN(3) > 0 {
				e.ID = ID{byte(rng.IntN(256)), 1}
			}
			g.Erasures = append(g.Erasures, e)
		}
		if g.Through = at; at > g.After {
			m.Groups = append(m.Groups, g)
		}
	}
	return m
}

// TestMerge: what is encoded is decoded, and every shorter body is malformed.
func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		m := randomMerge(rng)
		body := AppendMerge(nil, m)
		got, err := ParseMerge(body)
		if err != nil || !reflect.DeepEqual(&got, m) {
			t.Fatalf("%+v became %+v, %v", m, got, err)
		}
		n := rng.IntN(len(body))
		if _, err := ParseMerge(body[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d bytes of %d: error %v", n, len(body), err)
		}
		if _, err := ParseMerge(append(slices.Clone(body), 0)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("a byte too many: error %v", err)
		}
	}
}

// TestMergeOrder: numbers that do not rise from one to the next are malformed, since what
// they would skip might never be told.
func TestMergeOrder(t *testing.T) {
	e := func(seq uint64) Erasure { return Erasure{Seq: seq, Incarnation: 1, ID: ID{1}} }
	for name, groups := range map[string][]Group{
		"erasures fall":            {{After: 1, Through: 3, Erasures: []Erasure{e(4), e(3)}}},
		"an erasure is known":      {{After: 4, Through: 4, Erasures: []Erasure{e(4)}}},
		"a lost one is known":      {{After: 4, Through: 5, Lost: []Lost{{Seq: 4}}, Erasures: []Erasure{e(5)}}},
		"a lost one stands behind": {{After: 1, Through: 3, Lost: []Lost{{Seq: 3}}, Erasures: []Erasure{e(2)}}},
		"it ends elsewhere":        {{After: 1, Through: 9, Erasures: []Erasure{e(2)}}},
		"it is empty":              {{After: 1, Through: 1}},
		"no incarnation":           {{After: 1, Through: 2, Erasures: []Erasure{{Seq: 2}}}},
		"incarnation too high":     {{After: 1, Through: 2, Erasures: []Erasure{{Seq: 2, Incarnation: engine.IncarnationMax + 1}}}},
		"an origin comes twice": {{Origin: member.ID{1}, After: 1, Through: 2, Erasures: []Erasure{e(2)}},
			{Origin: member.ID{1}, After: 2, Through: 3, Erasures: []Erasure{e(3)}}},
	} {
		if _, err := ParseMerge(AppendMerge(nil, &Merge{Groups: groups})); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := ParseMerge(AppendMerge(nil, &Merge{Floors: []Floor{{Namespace: [32]byte{2}}, {Namespace: [32]byte{1}}}})); !errors.Is(err, ErrMalformed) {
		t.Errorf("floors fall: error %v", err)
	}
	if _, err := ParseMerge(AppendMerge(nil, &Merge{Floors: []Floor{{Incarnation: engine.IncarnationMax + 1}}})); !errors.Is(err, ErrMalformed) {
		t.Errorf("a floor too high: error %v", err)
	}
}

// TestClock: what a clock covers.
func TestClock(t *testing.T) {
	a, b := member.ID{1}, member.ID{2}
	c := Clock{{a, 3}, {b, 1}}
	if c.Of(a) != 3 || c.Of(member.ID{3}) != 0 {
		t.Error(c.Of(a), c.Of(member.ID{3}))
	}
	for _, d := range []Clock{nil, {{a, 3}}, {{a, 1}, {b, 1}}} {
		if !c.Covers(d) {
			t.Errorf("%v does not cover %v", c, d)
		}
	}
	for _, d := range []Clock{{{a, 4}}, {{a, 1}, {b, 2}}, {{member.ID{3}, 1}}} {
		if c.Covers(d) {
			t.Errorf("%v covers %v", c, d)
		}
	}
}

// FuzzMerge: no bytes make a panic, and what is decoded is encoded as it was.
func FuzzMerge(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 20 {
		f.Add(AppendMerge(nil, randomMerge(rng)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMerge(b)
		if err == nil && !slices.Equal(AppendMerge(nil, &m), b) {
			t.Fatalf("%x became %+v", b, m)
		}
	})
}

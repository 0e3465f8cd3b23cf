package peer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestMessages: what is encoded is decoded, whatever is left out of it is an error, and so
// is what stands behind it.
func TestMessages(t *testing.T) {
	scope := putScope()
	ids := []ID{{1}, {2, 3}, {15: 9}}
	begin := AppendScope(nil, &scope)
	for name, c := range map[string]struct {
		body  []byte
		parse func([]byte) (any, error)
		want  any
	}{
		"match":   {AppendMatch(bytes.Clone(begin), 700, ids), func(b []byte) (any, error) { return ParseMatch(b) }, Match{scope, 700, ids}},
		"get":     {AppendGet(bytes.Clone(begin), GetNoTouch, ids), func(b []byte) (any, error) { return ParseGet(b) }, Get{scope, GetNoTouch, ids}},
		"touch":   {AppendTouch(bytes.Clone(begin), ids), func(b []byte) (any, error) { return ParseTouch(b) }, Touch{scope, ids}},
		"release": {AppendRelease(nil, 1<<40), func(b []byte) (any, error) { return ParseRelease(b) }, uint64(1 << 40)},
		"matched": {(&Matched{IDs: 9, Leased: 2, Lease: 77, Bitmap: []byte{0x81, 1}}).Append(nil),
			func(b []byte) (any, error) { return ParseMatched(b, 9) }, Matched{9, 2, 77, []byte{0x81, 1}}},
	} {
		got, err := c.parse(c.body)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
		for n := range c.body {
			if _, err := c.parse(c.body[:n:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: the first %d of %d bytes: %v", name, n, len(c.body), err)
			}
		}
		if _, err := c.parse(append(c.body, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: a byte behind it: %v", name, err)
		}
	}
}

// TestLayout pins the layout that docs/format/peer.md tells.
func TestLayout(t *testing.T) {
	scope := putScope()
	id := ID{0: 0xab, 15: 0xcd}
	const wantID = "ab0000000000000000000000000000cd"
	for want, got := range map[string][]byte{
		"aa" + strings.Repeat("00", 30) + "bb" + "07000000" + "02000000" +
			"01" + strings.Repeat("00", 15) + "0500000000000000" + "02" + strings.Repeat("00", 15) + "0000000000010000": AppendScope(nil, &scope),
		"bc020000" + "01000000" + wantID:                      AppendMatch(nil, 700, []ID{id}),
		"01000000" + "01000000" + wantID:                      AppendGet(nil, GetNoTouch, []ID{id}),
		"01000000" + wantID:                                   AppendTouch(nil, []ID{id}),
		"4d00000000000000":                                    AppendRelease(nil, 77),
		"09000000" + "02000000" + "4d00000000000000" + "8101": (&Matched{IDs: 9, Leased: 2, Lease: 77, Bitmap: []byte{0x81, 1}}).Append(nil),
	} {
		if hex.EncodeToString(got) != want {
			t.Errorf("got  %x\nwant %s", got, want)
		}
	}
}

// TestBounds: numbers that promise more than there is, or than may be, are refused, and
// nothing is made for them.
func TestBounds(t *testing.T) {
	scope := putScope()
	begin := AppendScope(nil, &scope)
	unordered := Scope{Clock: Clock{scope.Clock[1], scope.Clock[0]}}
	twice := Scope{Clock: Clock{scope.Clock[0], scope.Clock[0]}}
	for what, body := range map[string][]byte{
		"IDs without end":     append(AppendMatch(bytes.Clone(begin), 0, nil)[:len(begin)+4], 0xff, 0xff, 0xff, 0xff),
		"too many IDs":        AppendMatch(bytes.Clone(begin), 0, make([]ID, IDsMax+1)),
		"origins without end": append(bytes.Clone(begin[:36]), 0xff, 0xff, 0xff, 0xff),
		"origins unordered":   AppendMatch(AppendScope(nil, &unordered), 0, nil),
		"an origin twice":     AppendMatch(AppendScope(nil, &twice), 0, nil),
	} {
		if _, err := ParseMatch(body); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := ParseGet(AppendGet(begin, getFlagsAll+1, nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("an unknown flag: %v", err)
	}
	for n := range 20 {
		m := Matched{IDs: n, Bitmap: bytes.Repeat([]byte{0xff}, (n+7)/8)}
		if n%8 > 0 {
			m.Bitmap[n/8] = 1<<(n%8) - 1
		}
		body := m.Append(nil)
		got, err := ParseMatched(body, n)
		if err != nil {
			t.Errorf("%d IDs: %v", n, err)
		}
		for i := range n {
			if !got.Has(i) {
				t.Errorf("ID %d of %d is missing", i, n)
			}
		}
		for _, other := range []int{n - 1, n + 1, n + 8} {
			if _, err := ParseMatched(body, max(other, 0)); other >= 0 && !errors.Is(err, ErrMalformed) {
				t.Errorf("an answer for %d IDs to %d: %v", n, other, err)
			}
		}
		if n%8 > 0 {
			body[len(body)-1] |= 1 << (n % 8)
			if _, err := ParseMatched(body, n); !errors.Is(err, ErrMalformed) {
				t.Errorf("a bit behind the last of %d: %v", n, err)
			}
		}
	}
	if ParseProbe(make([]byte, ProbeBytesMax)) != nil || !errors.Is(ParseProbe(make([]byte, ProbeBytesMax+1)), ErrMalformed) {
		t.Error("the bound of a probe")
	}
}

func FuzzMatch(f *testing.F) {
	scope := putScope()
	begin := AppendScope(nil, &scope)
	f.Add(AppendMatch(bytes.Clone(begin), 5, []ID{{1}, {2}}), 2)
	f.Add(AppendGet(bytes.Clone(begin), 1, []ID{{1}, {2}}), 2)
	f.Add(AppendTouch(bytes.Clone(begin), []ID{{1}}), 1)
	f.Add((&Matched{IDs: 9, Leased: 2, Lease: 77, Bitmap: []byte{0x81, 1}}).Append(nil), 9)
	f.Add(AppendRelease(nil, 1), 0)
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		same := func(what string, err error, again func() []byte) {
			t.Helper()
			if err != nil {
				if !errors.Is(err, ErrMalformed) {
					t.Fatalf("%s: %v", what, err)
				}
				return
			}
			if b := again(); !bytes.Equal(b, body) {
				t.Fatalf("%s: %x became %x", what, body, b)
			}
		}
		m, err := ParseMatch(body)
		same("match", err, func() []byte { return AppendMatch(AppendScope(nil, &m.Scope), m.LeaseMS, m.IDs) })
		g, err := ParseGet(body)
		same("get", err, func() []byte { return AppendGet(AppendScope(nil, &g.Scope), g.Flags, g.IDs) })
		c, err := ParseTouch(body)
		same("touch", err, func() []byte { return AppendTouch(AppendScope(nil, &c.Scope), c.IDs) })
		r, err := ParseRelease(body)
		same("release", err, func() []byte { return AppendRelease(nil, r) })
		a, err := ParseMatched(body, min(max(n, 0), 1<<12))
		same("matched", err, func() []byte { return a.Append(nil) })
	})
}

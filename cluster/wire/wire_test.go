package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// codec decodes a body and encodes what it found again.
type codec func(body []byte) (wire.Message, error)

func of[T any, M interface {
	*T
	wire.Message
}](parse func([]byte) (T, error)) codec {
	return func(body []byte) (wire.Message, error) {
		m, err := parse(body)
		return M(&m), err
	}
}

func plain[M wire.Message](parse func([]byte) (M, error)) codec {
	return func(body []byte) (wire.Message, error) { return parse(body) }
}

var codecs = map[string]codec{
	"Hello": of(wire.ParseHello), "Welcome": of(wire.ParseWelcome), "Error": of(wire.ParseError),
	"OpenNamespace": of(wire.ParseOpenNamespace), "NamespaceOpened": of(wire.ParseNamespaceOpened),
	"RegisterRegion": of(wire.ParseRegisterRegion), "CreateRegion": of(wire.ParseCreateRegion),
	"Number": plain(wire.ParseNumber), "Wide": plain(wire.ParseWide), "KeyList": of(wire.ParseKeyList),
	"Match": of(wire.ParseMatch), "MatchAnswer": of(wire.ParseMatchAnswer), "Get": of(wire.ParseGet), "Put": of(wire.ParsePut),
	"Results": of(wire.ParseResults), "Released": plain(wire.ParseReleased), "Subscribe": of(wire.ParseSubscribe),
	"Subscribed": of(wire.ParseSubscribed), "Event": of(wire.ParseEvent),
}

var (
	same   = wire.MakeKeys([][]byte{[]byte("ab"), []byte("cd"), []byte("ef")})
	mixed  = wire.MakeKeys([][]byte{[]byte("a"), []byte("bcd"), bytes.Repeat([]byte("k"), wire.KeyBytesMax)})
	places = wire.MakePlaces(2, []wire.Piece{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}, {13, 14, 15}, {16, 17, 1 << 40}})
)

// samples has a message of every kind, with its bytes where they are short.
var samples = []struct {
	name string
	m    wire.Message
	hex  string
}{
	{"Hello", &wire.Hello{Lowest: 1, Highest: 2, Instance: [16]byte{8}, Connection: 3, Client: "c", Token: "tt"},
		"5350494c4c574159 0100 0200 00000000 08000000000000000000000000000000 0300000000000000 0100 63 0200 7474"},
	{"Welcome", &wire.Welcome{Version: 1, Instance: [16]byte{9}, Connection: 4, Limits: wire.Limits{1, 2, 3, 4, 5, 6, 7, 8}, Server: "s"},
		"0100 0000 00000000 09000000000000000000000000000000 0400000000000000 01000000 02000000 03000000 04000000 05000000 00000000 0600000000000000 07000000 0800000000000000 0100 73"},
	{"Error", &wire.ErrorAnswer{Code: wire.CodeLimit, Text: "t", Remedy: "rr"}, "0600 0100 74 0200 7272"},
	{"OpenNamespace", &wire.OpenNamespace{Descriptor: []byte("{}"), Token: "t"}, "02000000 7b7d 0100 74"},
	{"NamespaceOpened", &wire.NamespaceOpened{Namespace: 1, BlockBytes: 4096, ID: [32]byte{7}, Name: "n"},
		"01000000 00100000 07" + strings.Repeat("00", 31) + "0100 6e"},
	{"RegisterRegion", &wire.RegisterRegion{Flags: 1, LengthBytes: 4096}, "01000000 0010000000000000"},
	{"CreateRegion", &wire.CreateRegion{Number: 3, LengthBytes: 4096}, "03000000 00000000 0010000000000000"},
	{"Number", wire.Number(258), "02010000"},
	{"Wide", wire.Wide(258), "0201000000000000"},
	{"KeyList", &wire.KeyList{Namespace: 1, Group: 2, Keys: same}, "01000000 02000000 03000000 0200 0000 616263646566"},
	{"KeyList", &wire.KeyList{Namespace: 1, Group: 2}, "01000000 02000000 00000000 0000 0000"},
	{"Match", &wire.Match{Namespace: 1, Group: 2, ComputeUS: 5, LeaseMS: 3, Trailing: 4, Keys: wire.MakeKeys([][]byte{[]byte("a"), []byte("bc")})},
		"01000000 02000000 05000000 03000000 04000000 02000000 0000 0000 0100 61 0200 6263"},
	{"Match", &wire.Match{Keys: mixed}, ""},
	{"MatchAnswer", &wire.MatchAnswer{Keys: 9, Prefix: 1, Trailing: 2, Leased: 3, Lease: 4, Bitmap: []byte{0xff, 1}},
		"09000000 01000000 02000000 03000000 0400000000000000 ff01"},
	{"Get", &wire.Get{Namespace: 1, Group: 2, Flags: 3, DeadlineUS: 4, Keys: same, Places: places}, ""},
	{"Get", &wire.Get{Namespace: 1, Keys: wire.MakeKeys([][]byte{[]byte("a")}), Places: wire.MakePlaces(1, []wire.Piece{{2, 3, 4}})},
		"01000000 00000000 00000000 00000000 01000000 0100 0000 61 0100 0000 02000000 03000000 0400000000000000"},
	{"Put", &wire.Put{Namespace: 1, Group: 2, Flags: 3, DeadlineUS: 4, Depth: 5, Importance: 6, After: []byte("up"), Keys: mixed, Places: places}, ""},
	{"Put", &wire.Put{Namespace: 1, Depth: 5, Importance: 6, Keys: wire.MakeKeys([][]byte{[]byte("a")}), Places: wire.MakePlaces(1, []wire.Piece{{2, 3, 4}})},
		"01000000 00000000 00000000 00000000 05000000 06 000000 01000000 0100 0000 61 0100 0000 02000000 03000000 0400000000000000"},
	{"Results", &wire.Results{Prefix: 1, TimeUS: 2, Statuses: []byte{1, 2, 3}}, "01000000 02000000 03000000 010203"},
	{"Released", wire.Released{1, 2}, "02000000 01000000 02000000"},
	{"Subscribe", &wire.Subscribe{Namespace: 1, From: 2}, "01000000 00000000 0200000000000000"},
	{"Subscribed", &wire.Subscribed{Oldest: 1, Next: 2}, "0100000000000000 0200000000000000"},
	{"Event", &wire.Event{Sequence: 1, Kind: wire.EventRemoved, Namespace: 3, Group: 4, Keys: same},
		"0100000000000000 02 000000 03000000 04000000 03000000 0200 0000 616263646566"},
}

// TestBytes: every message is the bytes that docs/format/wire.md says, and comes back.
func TestBytes(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range samples {
		seen[s.name] = true
		body := s.m.Append(nil)
		if want := strings.ReplaceAll(s.hex, " ", ""); want != "" && hex.EncodeToString(body) != want {
			t.Errorf("%s: %x, want %s", s.name, body, want)
		}
		again, err := codecs[s.name](body)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if got := again.Append(nil); !bytes.Equal(got, body) {
			t.Errorf("%s: %x came back as %x", s.name, body, got)
		}
	}
	for name := range codecs {
		if !seen[name] {
			t.Errorf("%s has no sample", name)
		}
	}
}

// TestCut: no beginning of a message is a message, nor is one with a byte more.
func TestCut(t *testing.T) {
	for _, s := range samples {
		body := s.m.Append(nil)
		for n := range body {
			if _, err := codecs[s.name](body[:n]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s cut to %d of %d bytes: %v", s.name, n, len(body), err)
			}
		}
		if _, err := codecs[s.name](append(body, 0)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s with a byte more: %v", s.name, err)
		}
	}
}

func TestKeysAndPlaces(t *testing.T) {
	for _, keys := range [][][]byte{{[]byte("ab"), []byte("cd")}, {[]byte("a"), []byte("bcd"), []byte("ef")}, {}} {
		packed := wire.MakeKeys(keys)
		n := 0
		for i, k := range packed.All() {
			if i != n || !bytes.Equal(k, keys[i]) {
				t.Errorf("key %d is %q", i, k)
			}
			n++
		}
		if n != len(keys) || packed.Len() != n {
			t.Errorf("%d keys of %d", n, len(keys))
		}
	}
	if p := places.At(2, 1); p != (wire.Piece{16, 17, 1 << 40}) || places.Each() != 2 {
		t.Errorf("piece %+v", p)
	}
}

// TestLengthsAreNotBelieved: a count that the body cannot hold costs nothing.
func TestLengthsAreNotBelieved(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff}
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"KeyList", append(make([]byte, 8), append(huge, 0, 4, 0, 0)...)},
		{"KeyList", append(make([]byte, 8), append(huge, 0, 0, 0, 0)...)},
		{"KeyList", append(make([]byte, 8), 1, 0, 0, 0, 0x01, 0x04, 0, 0)}, // keys of 1,025 bytes
		{"KeyList", append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)}, // a key of none
		{"Results", append(make([]byte, 8), huge...)},
		{"Released", huge},
		{"MatchAnswer", append(huge, make([]byte, 20)...)},
		{"OpenNamespace", huge},
	} {
		allocated := testing.AllocsPerRun(1, func() {
			if _, err := codecs[c.name](c.body); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s %x: %v", c.name, c.body, err)
			}
		})
		if allocated > 20 {
			t.Errorf("%s %x: %v allocations", c.name, c.body, allocated)
		}
	}
}

func TestHeader(t *testing.T) {
	frame := wire.AppendFrame([]byte("before"), wire.TypePing, 1<<40, wire.Raw("abc"))[6:]
	h, err := wire.ParseHeader(frame, 3)
	if err != nil || h != (wire.Header{BodyBytes: 3, Type: wire.TypePing, Request: 1 << 40}) || string(frame[wire.HeaderBytes:]) != "abc" {
		t.Errorf("%+v, %v, %q", h, err, frame)
	}
	if _, err := wire.ParseHeader(frame, 2); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("a body too long: %v", err)
	}
	for i := 5; i < 8; i++ {
		bad := bytes.Clone(frame)
		bad[i] = 1
		if _, err := wire.ParseHeader(bad, 3); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("byte %d set: %v", i, err)
		}
	}
	if got := wire.AppendFrame(nil, wire.TypeDrain, 1, nil); len(got) != wire.HeaderBytes {
		t.Errorf("an empty body makes %d bytes", len(got))
	}
}

func TestNames(t *testing.T) {
	for s := range wire.Status(10) {
		if s > 0 && (s.String() == "INVALID") != (s > wire.Dropped) {
			t.Errorf("status %d is %q", s, s)
		}
	}
	if e := (&wire.ErrorAnswer{Code: wire.CodeLimit, Text: "x", Remedy: "y"}).Error(); e != "limit: x; y" {
		t.Error(e)
	}
	if wire.Code(99).String() != "error" {
		t.Error(wire.Code(99))
	}
}

// FuzzParse: any bytes are refused or mean one thing only.
func FuzzParse(f *testing.F) {
	for _, s := range samples {
		f.Add(s.name, s.m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		c := codecs[name]
		if c == nil {
			return
		}
		m, err := c(body)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Error(err)
			}
			return
		}
		again := m.Append(nil)
		back, err := c(again)
		if err != nil || !bytes.Equal(back.Append(nil), again) {
			t.Errorf("%s %x: %v", name, body, err)
		}
		// Offers of features are dropped, everything else is kept.
		if !bytes.Equal(again, body) && name != "Hello" && name != "Welcome" {
			t.Errorf("%s: %x became %x", name, body, again)
		}
	})
}

func BenchmarkParseMatch(b *testing.B) {
	keys := make([][]byte, 8192)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%036d", i)
	}
	body := (&wire.Match{Keys: wire.MakeKeys(keys)}).Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		m, err := wire.ParseMatch(body)
		if err != nil {
			b.Fatal(err)
		}
		for range m.Keys.All() {
		}
	}
}

// TestReasons: what may stand behind the statuses of a Put is as long as they are.
func TestReasons(t *testing.T) {
	body := (&wire.Results{Statuses: []byte{5, 7}, Reasons: []byte{0, 2}}).Append(nil)
	if got := hex.EncodeToString(body); got != "000000000000000002000000"+"0507"+"0002" {
		t.Error(got)
	}
	m, err := wire.ParseResults(body)
	if err != nil || !bytes.Equal(m.Reasons, []byte{0, byte(wire.ReasonFirstSight)}) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range [][]byte{body[:len(body)-1], append(body, 0)} {
		if _, err := wire.ParseResults(bad); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

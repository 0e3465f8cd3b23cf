package peer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

func putScope() Scope {
	s := Scope{Incarnation: 7, Clock: Clock{{Origin: member.ID{1}, Seq: 5}, {Origin: member.ID{2}, Seq: 1 << 40}}}
	s.Namespace[0], s.Namespace[31] = 0xaa, 0xbb
	return s
}

func wholePut() Put {
	return Put{Scope: putScope(), Flags: PutDurable | PutPartial, TimeMS: 5000, EndDepth: 9,
		After: engine.Key{Group: 2, Bytes: []byte("after")}, Before: engine.Key{Group: 2, Bytes: []byte("behind")},
		Items: []PutItem{
			{Checksum: 0x0102030405060708, Depth: 4, Span: 1, Importance: 3, Key: engine.Key{Group: 2, Bytes: []byte("k")}},
			{Checksum: 1, Depth: 5, Key: engine.Key{Group: 1, Bytes: bytes.Repeat([]byte{'k'}, engine.KeyMaxBytes)}},
		}}
}

func appendPut(m *Put) []byte { return m.Append(AppendScope(nil, &m.Scope)) }

// TestPut: what is encoded is decoded, whatever is left out of it is an error, and so is
// what stands behind it.
func TestPut(t *testing.T) {
	want := wholePut()
	body := appendPut(&want)
	got, err := ParsePut(body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	for n := range body {
		if _, err := ParsePut(body[:n:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(body), err)
		}
	}
	if _, err := ParsePut(append(body, 0)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a byte behind it: %v", err)
	}
	for what, change := range map[string]func(*Put){
		"an unknown flag":  func(m *Put) { m.Flags |= putFlagsAll + 1 },
		"no key":           func(m *Put) { m.Items[1].Key.Bytes = nil },
		"a long key":       func(m *Put) { m.Items[1].Key.Bytes = make([]byte, engine.KeyMaxBytes+1) },
		"a long neighbour": func(m *Put) { m.After.Bytes = make([]byte, engine.KeyMaxBytes+1) },
		"many blocks":      func(m *Put) { m.Items = make([]PutItem, PutBlocksMax+1) },
	} {
		m := wholePut()
		change(&m)
		if _, err := ParsePut(appendPut(&m)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPutBytes pins the layout that docs/format/peer.md tells.
func TestPutBytes(t *testing.T) {
	m := Put{Flags: PutDropIfBusy, TimeMS: 3, EndDepth: 6, After: engine.Key{Group: 1, Bytes: []byte("a")},
		Items: []PutItem{{Checksum: 0x0807060504030201, Depth: 5, Span: 2, Importance: 9, Key: engine.Key{Group: 4, Bytes: []byte("key")}}}}
	const want = "02000000" + "03000000" + "06000000" + "01000000" + "0100" + "61" + "00000000" + "0000" +
		"01000000" + "0102030405060708" + "05000000" + "02000000" + "09" + "04000000" + "0300" + "6b6579"
	if got := hex.EncodeToString(m.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := hex.EncodeToString(AppendWanted(nil, []bool{true, false, true, false, false, false, false, false, true})); got != "09000000"+"0501" {
		t.Errorf("wanted: %s", got)
	}
	if got := hex.EncodeToString(AppendTaken(nil, []Taken{{PutStored, 0}, {PutDropped, admit.QueueFull}})); got != "01000304" {
		t.Errorf("taken: %s", got)
	}
}

// TestAnswers: answers must be of as many blocks as were asked for.
func TestAnswers(t *testing.T) {
	for n := range 20 {
		wanted, taken := make([]bool, n), make([]Taken, n)
		for i := range n {
			wanted[i], taken[i] = i%3 == 0, Taken{PutStatus(1 + i%5), admit.Reason(i % 5)}
		}
		got, err := ParseWanted(AppendWanted(nil, wanted), n)
		if err != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("%v, %v; want %v", got, err, wanted)
		}
		all, err := ParseTaken(AppendTaken(nil, taken), n)
		if err != nil || !reflect.DeepEqual(all, taken) {
			t.Errorf("%v, %v; want %v", all, err, taken)
		}
		for _, other := range []int{n - 1, n + 1} {
			if other < 0 {
				continue
			}
			if _, err := ParseWanted(AppendWanted(nil, wanted), other); !errors.Is(err, ErrMalformed) {
				t.Errorf("wanted of %d for %d: %v", n, other, err)
			}
			if _, err := ParseTaken(AppendTaken(nil, taken), other); !errors.Is(err, ErrMalformed) {
				t.Errorf("taken of %d for %d: %v", n, other, err)
			}
		}
	}
	for _, status := range []byte{0, byte(putStatusEnd)} {
		if _, err := ParseTaken([]byte{status, 0}, 1); !errors.Is(err, ErrMalformed) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	if _, err := ParseWanted([]byte{3, 0, 0, 0, 8}, 3); !errors.Is(err, ErrMalformed) {
		t.Errorf("a bit behind the last: %v", err)
	}
}

// TestDescribe: a descriptor arrives as it was, with the same ID; anything else is refused.
func TestDescribe(t *testing.T) {
	want := engine.Descriptor{Name: "chat", Model: "m", BlockBytes: 1 << 16, Extra: map[string]string{"a": "b"}}
	body, err := AppendDescribe(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseDescribe(body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{", `{"name":"x"} x`, `{"name":"x","colour":1}`, `[]`, string(make([]byte, DescriptorBytesMax+1))} {
		if _, err := ParseDescribe([]byte(bad)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func FuzzPut(f *testing.F) {
	m := wholePut()
	f.Add(appendPut(&m))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := ParsePut(body)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if again := appendPut(&m); !bytes.Equal(again, body) {
			t.Fatalf("%x became %x", body, again)
		}
	})
}

func FuzzOffer(f *testing.F) {
	s := putScope()
	f.Add(AppendOffer(AppendScope(nil, &s), OfferNoTouch, []ID{{1}, {2}}), 2)
	f.Add(AppendWanted(nil, []bool{true, false}), 2)
	f.Add(AppendTaken(nil, []Taken{{PutStored, 0}}), 1)
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		if m, err := ParseOffer(body); err == nil {
			if again := AppendOffer(AppendScope(nil, &m.Scope), m.Flags, m.IDs); !bytes.Equal(again, body) {
				t.Fatalf("%x became %x", body, again)
			}
		}
		n = min(max(n, 0), 1<<12)
		if wanted, err := ParseWanted(body, n); err == nil && !bytes.Equal(AppendWanted(nil, wanted), body) {
			t.Fatalf("wanted: %x", body)
		}
		if taken, err := ParseTaken(body, n); err == nil && !bytes.Equal(AppendTaken(nil, taken), body) {
			t.Fatalf("taken: %x", body)
		}
		if _, err := ParseDescribe(body); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}

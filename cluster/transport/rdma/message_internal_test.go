package rdma

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

var (
	sampleEnd = endpoint{Endpoint: fabric.Endpoint{
		Number: 0x112233, Packet: 0x445566, GID: netip.MustParseAddr("::ffff:10.1.2.3"), MTUBytes: 4096, Ethernet: true,
	}, prefixBits: 120}
	sampleOpen = openRequest{lines: 4096, rails: []callerRail{
		{end: sampleEnd, table: 0x7f0000001000, tableKey: 0xaabbccdd},
		{end: endpoint{Endpoint: fabric.Endpoint{Number: 1, GID: netip.MustParseAddr("fe80::1"), LID: 7, MTUBytes: 2048}}, table: 1},
	}}
	sampleOpened = openAnswer{session: 0x0102030405060708, inFlight: 128 << 20, rails: []endpoint{{}, sampleEnd}}
	sampleFetch  = fetchRequest{session: 9, request: 5, oldest: 3, kind: 2, body: []byte("keys"), blocks: []wantedBlock{
		{size: 0x11000, generation: 0x12345, line: 0xabc, rail: 1, pieces: []target{{0x7f0000002000, 1, 0x10000}, {0x7f0000202000, 2, 0x1000}}},
		{size: 0, generation: generationEnd - 1, line: 1, pieces: []target{}},
	}}
	sampleAnswer  = fetchAnswer{answer: []byte("word")}
	sampleRefusal = fetchAnswer{failed: &transport.RemoteError{Code: transport.CodeBusy, Text: "later"}}
	sampleFence   = fenceRequest{session: 9, oldest: 3, mark: 0xffe, rails: 3, requests: []uint64{5, 1 << 40}}
	sampleRecord  = record{request: 5, sum: 1 << 60, block: 1, generation: 0x12345, status: transport.Refused, before: 0xabc, bytes: 0x11000}
)

// TestBytes holds the format still: other bytes are another version.
func TestBytes(t *testing.T) {
	const (
		end      = "33221100" + "66554400" + "00000000000000000000ffff0a010203" + "0000" + "0010" + "01" + "78" + "000000000000000000000000000000000000"
		otherEnd = "01000000" + "00000000" + "fe800000000000000000000000000001" + "0700" + "0008" + "00" + "00" + "000000000000000000000000000000000000"
		none     = "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	)
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"open", sampleOpen.append(nil), "01020000" + "00100000" + end + "00100000007f0000" + "ddccbbaa" + "00000000" + otherEnd + "0100000000000000" + "00000000" + "00000000"},
		{"opened", sampleOpened.append(nil), "0102000000000000" + "0807060504030201" + "0000000800000000" + none + end},
		{"hold", appendHold(nil, 9), "0900000000000000"},
		{"fetch", sampleFetch.append(nil), "0900000000000000" + "0500000000000000" + "0300000000000000" + "02000000" + "02000000" + "04000000" + "6b657973" +
			"00100100" + "45230100" + "bc0a" + "01" + "00" + "02000000" + "00200000007f0000" + "01000000" + "00000100" + "00202000007f0000" + "02000000" + "00100000" +
			"00000000" + "feff0f00" + "0100" + "00" + "00" + "00000000"},
		{"answer", sampleAnswer.append(nil), "0000000000000000" + "776f7264"},
		{"refusal", sampleRefusal.append(nil), "0106000000000000" + "6c61746572"},
		{"fence", sampleFence.append(nil), "0900000000000000" + "0300000000000000" + "fe0f" + "03" + "0000000000" + "0500000000000000" + "0000000000010000"},
		{"record", sampleRecord.append(nil), "0500000000000000" + "0000000000000010" + "01000000" + "45230100" + "03" + "00" + "bc0a" + "00100100"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("the bytes of %s are\n%s, want\n%s", c.name, got, c.want)
		}
	}
	if got := immediateOf(0xabc, 0x12345); got != 0xabc12345 {
		t.Errorf("the immediate is %#x", got)
	}
	if line, generation := lineOf(0xabc12345); line != 0xabc || generation != 0x12345 {
		t.Errorf("the immediate says line %#x, generation %#x", line, generation)
	}
	if got := markImmediate(0xffe); got != 0xffefffff {
		t.Errorf("the mark is %#x", got)
	}
	if markImmediate(marksMax) != probeImmediate {
		t.Errorf("the first mark that there is not is not the probe")
	}
}

// kinds of messages, each with what takes it apart and puts it together again.
var kinds = []struct {
	name   string
	sample []byte
	again  func(b []byte) (append func([]byte) []byte, parsed any, err error)
}{
	{"open", sampleOpen.append(nil), func(b []byte) (func([]byte) []byte, any, error) { m, err := parseOpen(b); return m.append, m, err }},
	{"opened", sampleOpened.append(nil), func(b []byte) (func([]byte) []byte, any, error) { m, err := parseOpened(b, 2); return m.append, m, err }},
	{"hold", appendHold(nil, 9), func(b []byte) (func([]byte) []byte, any, error) {
		m, err := parseHold(b)
		return func(b []byte) []byte { return appendHold(b, m) }, m, err
	}},
	{"fetch", sampleFetch.append(nil), func(b []byte) (func([]byte) []byte, any, error) { m, err := parseFetch(b); return m.append, m, err }},
	{"answer", sampleAnswer.append(nil), func(b []byte) (func([]byte) []byte, any, error) { m, err := parseFetched(b); return m.append, m, err }},
	{"refusal", sampleRefusal.append(nil), func(b []byte) (func([]byte) []byte, any, error) { m, err := parseFetched(b); return m.append, m, err }},
	{"fence", sampleFence.append(nil), func(b []byte) (func([]byte) []byte, any, error) { m, err := parseFence(b); return m.append, m, err }},
	{"record", sampleRecord.append(nil), func(b []byte) (func([]byte) []byte, any, error) {
		if len(b) != recordBytes {
			return nil, nil, errMalformed
		}
		m, err := parseRecord((*[recordBytes]byte)(b))
		return m.append, m, err
	}},
}

func TestMessagesThereAndBack(t *testing.T) {
	want := []any{sampleOpen, sampleOpened, uint64(9), sampleFetch, sampleAnswer, sampleRefusal, sampleFence, sampleRecord}
	for i, k := range kinds {
		if _, got, err := k.again(k.sample); err != nil || !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%s became %+v, %v, want %+v", k.name, got, err, want[i])
		}
		for n := range k.sample { // whatever was cut off is missed, unless it is the text at the end
			_, _, err := k.again(k.sample[:n])
			if text := k.name == "answer" || k.name == "refusal"; err == nil && (!text || n < answerHeadBytes) && (k.name != "fence" || n%8 != 0 || n < 24) {
				t.Errorf("%s was taken with %d of %d bytes", k.name, n, len(k.sample))
			}
		}
	}
}

// TestMalformed has messages with one thing wrong in each.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   int
		at     int
		change []byte
	}{
		{"another version", 0, 0, []byte{2}},
		{"no rails", 0, 1, []byte{0}},
		{"too many rails", 0, 1, []byte{9}},
		{"a reserved byte", 0, 2, []byte{1}},
		{"few lines", 0, 4, []byte{15, 0}},
		{"many lines", 0, 4, []byte{1, 0x10}},
		{"queue pair 0", 0, 8, []byte{0, 0, 0}},
		{"a queue pair of 25 bits", 0, 11, []byte{1}},
		{"a packet of 25 bits", 0, 15, []byte{1}},
		{"an MTU that is none", 0, 34, []byte{0, 0x0c}},
		{"a kind of link that is none", 0, 36, []byte{2}},
		{"a prefix that is too long", 0, 37, []byte{129}},
		{"a reserved byte of an endpoint", 0, 55, []byte{1}},
		{"a table that goes round", 0, 56, bytes.Repeat([]byte{0xff}, 8)},
		{"another number of rails", 1, 1, []byte{1}},
		{"session 0", 1, 8, make([]byte, 8)},
		{"nothing in flight", 1, 16, make([]byte, 8)},
		{"request 0", 3, 8, []byte{0}},
		{"oldest 0", 3, 16, []byte{0}},
		{"an oldest above", 3, 16, []byte{6}},
		{"a kind of ours", 3, 24, []byte{0xf2}},
		{"a reserved byte of a fetch", 3, 27, []byte{1}},
		{"too many blocks", 3, 28, []byte{3}},
		{"very many blocks", 3, 28, []byte{0xff, 0xff, 0xff, 0xff}},
		{"a body that is too long", 3, 35, []byte{1}},
		{"a block that is too large", 3, 43, []byte{5}},
		{"a generation of the probe", 3, 44, []byte{0xff, 0xff, 0x0f}},
		{"a line beyond all tables", 3, 49, []byte{0x10}},
		{"a rail beyond all", 3, 50, []byte{8}},
		{"very many pieces", 3, 52, []byte{0xff, 0xff, 0xff, 0xff}},
		{"pieces of another size", 3, 68, []byte{1}},
		{"a piece of nothing", 3, 70, []byte{0, 0, 0, 0}},
		{"a piece that goes round", 3, 56, bytes.Repeat([]byte{0xff}, 8)},
		{"an outcome that is none", 4, 0, []byte{2}},
		{"a code without a failure", 4, 1, []byte{2}},
		{"a reserved byte of an answer", 4, 7, []byte{1}},
		{"a mark of the probe", 6, 16, []byte{0xff}},
		{"a reserved byte of a fence", 6, 23, []byte{1}},
		{"request 0 in a fence", 6, 24, []byte{0}},
		{"a status that is none", 7, 24, []byte{4}},
		{"no status", 7, 24, []byte{0}},
		{"a reserved byte of a record", 7, 25, []byte{1}},
		{"a line before that is none", 7, 26, []byte{0, 0x10}},
		{"a generation of a record that is none", 7, 20, []byte{0xff, 0xff, 0x0f}},
	} {
		b := bytes.Clone(kinds[c.kind].sample)
		copy(b[c.at:], c.change)
		if bytes.Equal(b, kinds[c.kind].sample) {
			t.Errorf("%s: nothing was changed", c.name)
		}
		if _, m, err := kinds[c.kind].again(b); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %s is %+v, %v", c.name, kinds[c.kind].name, m, err)
		}
	}
	long := fenceRequest{session: 1, requests: make([]uint64, fencesMax+1)}
	if _, err := parseFence(long.append(nil)); !errors.Is(err, errMalformed) {
		t.Errorf("a fence of %d requests: %v", fencesMax+1, err)
	}
}

func TestNetworks(t *testing.T) {
	of := func(gid string, networks ...string) fabric.GID {
		g := fabric.GID{Type: fabric.RoCEv2, Address: netip.MustParseAddr(gid)}
		for _, n := range networks {
			g.Networks = append(g.Networks, netip.MustParsePrefix(n))
		}
		return g
	}
	for _, c := range []struct {
		gid   fabric.GID
		want  int
		near  string
		isFar string
	}{
		{of("::ffff:10.1.2.3", "10.1.2.0/24"), 120, "::ffff:10.1.2.200", "::ffff:10.1.3.3"},
		{of("::ffff:10.1.2.3", "fe80::/64", "10.1.0.0/16"), 112, "::ffff:10.1.200.1", "::ffff:10.2.0.1"},
		{of("fd00:1::5", "10.1.2.0/24", "fd00:1::/64"), 64, "fd00:1::9", "fd00:2::9"},
		{of("fd00:1::5", "fd00:2::/64"), 0, "", "fd00:1::5"},
		{of("fe80::1"), 0, "", "fe80::2"},
	} {
		e := endpoint{Endpoint: fabric.Endpoint{GID: c.gid.Address}, prefixBits: prefixOf(c.gid)}
		if e.prefixBits != c.want {
			t.Errorf("the prefix of %v is %d bits, want %d", c.gid, e.prefixBits, c.want)
		}
		if c.near != "" && !e.near(netip.MustParseAddr(c.near)) {
			t.Errorf("%s is not near %v", c.near, c.gid)
		}
		if e.near(netip.MustParseAddr(c.isFar)) {
			t.Errorf("%s is near %v", c.isFar, c.gid)
		}
	}
}

// FuzzMessages: what is taken has one form, and no bytes bring a parser down.
func FuzzMessages(f *testing.F) {
	for i, k := range kinds {
		f.Add(uint8(i), k.sample)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		k := kinds[int(kind)%len(kinds)]
		again, m, err := k.again(b)
		switch {
		case err != nil && !errors.Is(err, errMalformed):
			t.Fatalf("%s: error %v", k.name, err)
		case err == nil && !bytes.Equal(again(nil), b):
			t.Fatalf("%s %x is %+v, which is %x", k.name, b, m, again(nil))
		}
	})
}

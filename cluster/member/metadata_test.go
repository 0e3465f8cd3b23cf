package member

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func soundMetadata() metadata {
	return metadata{poolID: "red", keys: []fingerprint{{1}, {2}}, member: Member{
		ID: ID{1, 2, 3}, Start: 4, Address: "[2001:db8::1]:7420", Zone: "rack 1", State: Draining,
		CapacityBytes: 5 << 40, FreeBytes: 6 << 30, ProtocolLow: 1, ProtocolHigh: 7,
	}}
}

// TestMetadataBytes holds the format: docs/format/gossip.md has these bytes.
func TestMetadataBytes(t *testing.T) {
	m := soundMetadata()
	want := "\x01\x02\x01\x07" + "\x01\x02\x03" + strings.Repeat("\x00", 13) + "\x04\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x05\x00\x00" + "\x00\x00\x00\x80\x01\x00\x00\x00" +
		"\x03red" + "\x12[2001:db8::1]:7420" + "\x06rack 1" + "\x02" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00"
	b := appendMetadata(nil, &m)
	if string(b) != want {
		t.Errorf("encoded\n%q, want\n%q", b, want)
	}
	if got, err := decodeMetadata(append(b, "later"...)); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, m)
	}
}

// TestMetadataDamage: nothing shorter decodes, and no field may be what it must not.
func TestMetadataDamage(t *testing.T) {
	m := soundMetadata()
	b := appendMetadata(nil, &m)
	for n := range b {
		if _, err := decodeMetadata(b[:n]); !errors.Is(err, errMetadata) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	for name, change := range map[string]func(*metadata){
		"pool": func(m *metadata) { m.poolID = "" }, "long pool": func(m *metadata) { m.poolID = strings.Repeat("x", PoolIDBytesMax+1) },
		"ID": func(m *metadata) { m.member.ID = ID{} }, "state": func(m *metadata) { m.member.State = Leaving + 1 },
		"protocols": func(m *metadata) { m.member.ProtocolLow = 8 }, "zone": func(m *metadata) { m.member.Zone = strings.Repeat("x", ZoneBytesMax+1) },
		"address": func(m *metadata) { m.member.Address = "nowhere" }, "any address": func(m *metadata) { m.member.Address = ":7420" },
		"port 0": func(m *metadata) { m.member.Address = "127.0.0.1:0" }, "keys": func(m *metadata) { m.keys = make([]fingerprint, KeysMax+1) },
	} {
		m := soundMetadata()
		change(&m)
		if _, err := decodeMetadata(appendMetadata(nil, &m)); !errors.Is(err, errMetadata) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzMetadata(f *testing.F) {
	m := soundMetadata()
	f.Add(appendMetadata(nil, &m))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMetadata(b)
		if err != nil {
			return
		}
		again := appendMetadata(nil, &m)
		if len(again) > metadataBytesMax || !bytes.HasPrefix(b, again) && m.member.CapacityBytes < 1<<62 && m.member.FreeBytes < 1<<62 && len(again) <= len(b) && b[35] < 128 && b[43] < 128 {
			t.Errorf("%q decodes to %+v, which encodes to %q", b, m, again)
		}
	})
}

// TestMessageBytes holds the format of our own messages.
func TestMessageBytes(t *testing.T) {
	q := ask{nonce: 1, from: who{life{ID{2}, 3}, accepted}, reply: addrPort(t, "[::1]:7421")}
	id := "\x02" + strings.Repeat("\x00", 15)
	head := "\x01\x00\x00\x00\x00\x00\x00\x00" + id + "\x03\x00\x00\x00\x00\x00\x00\x00" + "\x02"
	if b := appendAsk(nil, kindAsk, &q); string(b) != "\x01\x01"+head+"\x0a[::1]:7421" {
		t.Errorf("question %q", b)
	}
	if b := appendAsk(nil, kindAnswer, &q); string(b) != "\x01\x02"+head {
		t.Errorf("answer %q", b)
	}
	list := []over{{life{ID{2}, 3}, overForgot, 90 * time.Minute}}
	b := appendOvers(nil, list)
	if string(b) != "\x01\x03\x01\x00"+id+"\x03\x00\x00\x00\x00\x00\x00\x00"+"\x02"+"\x18\x15\x00\x00" {
		t.Errorf("lives that are over %q", b)
	}
	if got, err := decodeOvers(b); err != nil || !reflect.DeepEqual(got, list) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func FuzzMessage(f *testing.F) {
	q := ask{nonce: 1, from: who{life{ID{2}, 3}, accepted}, reply: addrPort(&testing.T{}, "[::1]:7421")}
	f.Add(appendAsk(nil, kindAsk, &q))
	f.Add(appendAsk(nil, kindAnswer, &q))
	f.Add(appendOvers(nil, []over{{life{ID{2}, 3}, overForgot, time.Hour}, {}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		switch kind := kindOf(b); kind {
		case kindAsk, kindAnswer:
			if a, err := decodeAsk(b, kind); err == nil && len(appendAsk(nil, kind, &a)) > len(b)+64 {
				t.Errorf("%q grows", b)
			}
		case kindOver:
			if list, err := decodeOvers(b); err == nil && !bytes.HasPrefix(b, appendOvers(nil, list)) {
				t.Errorf("%q is %+v", b, list)
			}
		}
	})
}

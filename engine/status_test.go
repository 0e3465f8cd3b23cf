package engine_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

func TestKeysAndSizes(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{}))
	ns := namespace(t, s, "a", 4096)
	block := content(1, 4096)
	one := func(k []byte, pieces ...[]byte) (got, stored engine.Status, getErr, putErr error) {
		gets := []engine.GetItem{{Key: engine.Key{Bytes: k}, Dst: pieces, Status: engine.Unanswered}}
		getErr = ns.Get(gets, engine.GetOptions{})
		puts := []engine.PutItem{{Key: engine.Key{Bytes: k}, Src: pieces}}
		putErr = ns.Put(puts, engine.PutOptions{})
		return gets[0].Status, puts[0].Status, getErr, putErr
	}
	for _, n := range []int{1, 2, 1023, 1024} {
		got, stored, getErr, putErr := one(bytes.Repeat([]byte{'k'}, n), block)
		if getErr != nil || putErr != nil || got != engine.Miss || stored != engine.Stored {
			t.Errorf("key of %d bytes: %v %v, %v %v", n, getErr, putErr, got, stored)
		}
		if m, err := ns.Match([]engine.Key{{Bytes: bytes.Repeat([]byte{'k'}, n)}}, engine.MatchOptions{}); err != nil || m.Prefix != 1 {
			t.Errorf("key of %d bytes: %+v, %v", n, m, err)
		}
	}
	for _, n := range []int{0, 1025, 5000} {
		k := bytes.Repeat([]byte{'k'}, n)
		got, stored, getErr, putErr := one(k, block)
		wantErr(t, getErr, engine.ErrKey, fmt.Sprint(n))
		wantErr(t, putErr, engine.ErrKey, fmt.Sprint(n))
		if got != engine.Unanswered || stored != engine.Unanswered {
			t.Errorf("items were touched: %v %v", got, stored)
		}
		_, err := ns.Match([]engine.Key{{Bytes: k}}, engine.MatchOptions{})
		wantErr(t, err, engine.ErrKey)
		_, err = ns.Touch([]engine.Key{{Bytes: k}})
		wantErr(t, err, engine.ErrKey)
		_, err = ns.Delete([]engine.Key{{Bytes: k}})
		wantErr(t, err, engine.ErrKey)
		_, err = ns.MatchGet([]engine.GetItem{{Key: engine.Key{Bytes: k}, Dst: [][]byte{block}}}, engine.GetOptions{})
		wantErr(t, err, engine.ErrKey)
	}
	for name, pieces := range map[string][][]byte{
		"none": nil, "empty": {{}}, "short": {make([]byte, 4095)}, "long": {make([]byte, 4097)},
		"two blocks": {block, block}, "pieces": {make([]byte, 2048), make([]byte, 2047)},
	} {
		got, stored, getErr, putErr := one([]byte("sizes"), pieces...)
		wantErr(t, getErr, engine.ErrSize)
		wantErr(t, putErr, engine.ErrSize)
		if got != engine.Unanswered || stored != engine.Unanswered {
			t.Errorf("%s: items were touched: %v %v", name, got, stored)
		}
	}
	// One bad item refuses the batch as a whole.
	puts := []engine.PutItem{{Key: key(1), Src: [][]byte{block}}, {Key: key(2), Src: [][]byte{block[1:]}}}
	wantErr(t, ns.Put(puts, engine.PutOptions{}), engine.ErrSize, "item 1")
	all(t, get(t, ns, 1, 2), engine.Miss)
	// Empty batches are nothing.
	must(t, ns.Get(nil, engine.GetOptions{}))
	must(t, ns.Put(nil, engine.PutOptions{Durability: engine.Durable}))
	if m, err := ns.Match(nil, engine.MatchOptions{Lease: time.Second, TrailingN: 3}); err != nil || m.Prefix != 0 || m.Lease != 0 {
		t.Error(m, err)
	}
	if n, err := ns.MatchGet(nil, engine.GetOptions{}); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := ns.Delete(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	_, err := ns.Match(nil, engine.MatchOptions{Lease: -1})
	wantErr(t, err, engine.ErrConfig)
	_, err = ns.Match(nil, engine.MatchOptions{TrailingN: -1})
	wantErr(t, err, engine.ErrConfig)
	wantErr(t, ns.Get(nil, engine.GetOptions{Deadline: time.Now()}), engine.ErrConfig)
	wantErr(t, ns.Put(nil, engine.PutOptions{Deadline: time.Now()}), engine.ErrConfig)
	mustClose(t, s)
}

func TestClosedStore(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{}))
	ns := namespace(t, s, "a", 4096)
	all(t, put(t, ns, engine.PutOptions{}, 1), engine.Stored)
	m, err := ns.Match([]engine.Key{key(1)}, engine.MatchOptions{Lease: time.Minute})
	must(t, err)
	mustClose(t, s)
	block := [][]byte{content(1, 4096)}
	for name, call := range map[string]func() error{
		"Get":   func() error { return ns.Get([]engine.GetItem{{Key: key(1), Dst: block}}, engine.GetOptions{}) },
		"Put":   func() error { return ns.Put([]engine.PutItem{{Key: key(1), Src: block}}, engine.PutOptions{}) },
		"Match": func() error { _, err := ns.Match([]engine.Key{key(1)}, engine.MatchOptions{}); return err },
		"MatchGet": func() error {
			_, err := ns.MatchGet([]engine.GetItem{{Key: key(1), Dst: block}}, engine.GetOptions{})
			return err
		},
		"Touch":    func() error { _, err := ns.Touch([]engine.Key{key(1)}); return err },
		"Delete":   func() error { _, err := ns.Delete([]engine.Key{key(1)}); return err },
		"List":     func() error { return ns.List(func(engine.Entry) bool { return true }) },
		"Drop":     ns.Drop,
		"SetQuota": func() error { return ns.SetQuota(1 << 30) },
		"Namespace": func() error {
			_, err := s.Namespace(engine.Descriptor{Name: "a", BlockBytes: 4096})
			return err
		},
		"Close": s.Close,
	} {
		if err := call(); err == nil {
			t.Errorf("%s on a closed store gives no error", name)
		} else {
			wantErr(t, err, engine.ErrClosed)
		}
	}
	ns.Release(m.Lease) // and these do no harm
	_ = s.Stat()
	_ = ns.Stat()
}

func TestMatchWithHoles(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{}))
	ns := namespace(t, s, "a", 4096)
	all(t, put(t, ns, engine.PutOptions{}, 0, 1, 3, 5, 6, 7), engine.Stored)
	keys := make([]engine.Key, 8)
	for i := range keys {
		keys[i] = key(i)
	}
	for n, want := range map[int]int{0: 0, 1: 1, 3: 3, 4: 3, 100: 3} {
		m, err := ns.Match(keys, engine.MatchOptions{TrailingN: n})
		must(t, err)
		if fmt.Sprint(m.Present) != "[true true false true false true true true]" || m.Prefix != 2 || m.Trailing != want || m.Lease != 0 || m.Leased != 0 {
			t.Errorf("trailing %d: %+v", n, m)
		}
	}
	items := make([]engine.GetItem, 8)
	for i := range items {
		items[i] = engine.GetItem{Key: keys[i], Dst: [][]byte{device.AlignedBuffer(4096, 4096)}}
	}
	before := s.Stat().Counters
	n, err := ns.MatchGet(items, engine.GetOptions{})
	if n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for i := range items {
		want := engine.Miss
		if i < 2 {
			want = engine.Hit
		}
		if items[i].Status != want {
			t.Errorf("item %d: %v, want %v", i, items[i].Status, want)
		}
	}
	if !bytes.Equal(items[1].Dst[0], content(1, 4096)) {
		t.Error("wrong bytes")
	}
	after := s.Stat().Counters
	if after.Hits-before.Hits != 2 || after.Misses-before.Misses != 6 {
		t.Errorf("%d hits and %d misses were counted", after.Hits-before.Hits, after.Misses-before.Misses)
	}
	// Long lists are matched in parts: the answer is the same.
	long := make([]engine.Key, 5000)
	for i := range long {
		long[i] = key(5 + i%3)
	}
	long[4321] = key(4)
	m, err := ns.Match(long, engine.MatchOptions{TrailingN: 5000})
	must(t, err)
	if m.Prefix != 4321 || m.Trailing != 5000-4322 {
		t.Errorf("prefix %d, trailing %d", m.Prefix, m.Trailing)
	}
	if n, err := ns.Touch(keys); n != 6 || err != nil {
		t.Error(n, err)
	}
	mustClose(t, s)
}

func TestDuplicatesInOneBatch(t *testing.T) {
	for _, blockBytes := range []int{4096, oddBytes} {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", blockBytes)
		got := put(t, ns, engine.PutOptions{}, 1, 2, 1, 1, 2)
		if fmt.Sprint(got) != "[PRESENT PRESENT PRESENT STORED STORED]" { // tail first
			t.Error(got)
		}
		all(t, get(t, ns, 1, 2, 1, 2, 1, 3, 3)[:5], engine.Hit)
		all(t, get(t, ns, 3, 3), engine.Miss)
		if n, err := ns.Delete([]engine.Key{key(1), key(1)}); n != 1 || err != nil {
			t.Error(n, err)
		}
		if c := s.Stat().Counters; c.Stored != 2 || c.Present != 3 || c.Deleted != 1 {
			t.Errorf("%+v", c)
		}
		mustClose(t, s)
	}
}

func TestGroupsAreApart(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{}))
	ns := namespace(t, s, "a", 4096)
	groups := []uint32{0, 1, 1 << 24, 1<<32 - 1}
	for i, g := range groups {
		item := []engine.PutItem{{Key: engine.Key{Group: g, Bytes: []byte("x")}, Src: [][]byte{content(i, 4096)}}}
		must(t, ns.Put(item, engine.PutOptions{}))
		if item[0].Status != engine.Stored {
			t.Errorf("group %d: %v", g, item[0].Status)
		}
	}
	for i, g := range groups {
		item := []engine.GetItem{{Key: engine.Key{Group: g, Bytes: []byte("x")}, Dst: [][]byte{device.AlignedBuffer(4096, 4096)}}}
		must(t, ns.Get(item, engine.GetOptions{}))
		if item[0].Status != engine.Hit || !bytes.Equal(item[0].Dst[0], content(i, 4096)) {
			t.Errorf("group %d: %v", g, item[0].Status)
		}
	}
	if m, err := ns.Match([]engine.Key{{Group: 2, Bytes: []byte("x")}}, engine.MatchOptions{}); err != nil || m.Prefix != 0 {
		t.Error(m, err)
	}
	mustClose(t, s)
	s = r.open(engine.Options{})
	ns = namespace(t, s, "a", 4096)
	seen := map[uint32]bool{}
	must(t, ns.List(func(e engine.Entry) bool { seen[e.Key.Group] = string(e.Key.Bytes) == "x"; return true }))
	for _, g := range groups {
		if !seen[g] {
			t.Errorf("group %d is not listed", g)
		}
	}
	mustClose(t, s)
}

// variants are descriptors that differ from the first in one field each.
func variants() []engine.Descriptor {
	base := engine.Descriptor{Name: "m", Model: "llama", Revision: "r1", KVDtype: "bf16", Layout: "nhd", LayoutVersion: 1,
		TokensPerBlock: 16, BlockBytes: 4096, Pieces: 2, TensorParallel: 2, PipelineSize: 1, Rank: "0",
		HashAlgorithm: "sha256", HashSeed: "1", SaltDomain: "d", Extra: map[string]string{"a": "1"}}
	list := []engine.Descriptor{base}
	for _, change := range []func(*engine.Descriptor){
		func(d *engine.Descriptor) { d.Name = "n" },
		func(d *engine.Descriptor) { d.Model = "llama2" },
		func(d *engine.Descriptor) { d.Revision = "r2" },
		func(d *engine.Descriptor) { d.KVDtype = "fp8" },
		func(d *engine.Descriptor) { d.Layout = "hnd" },
		func(d *engine.Descriptor) { d.LayoutVersion = 2 },
		func(d *engine.Descriptor) { d.TokensPerBlock = 32 },
		func(d *engine.Descriptor) { d.BlockBytes = 8192 },
		func(d *engine.Descriptor) { d.Pieces = 1 },
		func(d *engine.Descriptor) { d.TensorParallel = 4 },
		func(d *engine.Descriptor) { d.PipelineSize = 2 },
		func(d *engine.Descriptor) { d.Rank = "1" },
		func(d *engine.Descriptor) { d.HashAlgorithm = "sha256_cbor" },
		func(d *engine.Descriptor) { d.HashSeed = "2" },
		func(d *engine.Descriptor) { d.SaltDomain = "e" },
		func(d *engine.Descriptor) { d.Extra = map[string]string{"a": "2"} },
		func(d *engine.Descriptor) { d.Extra = map[string]string{"a": "1", "b": ""} },
		func(d *engine.Descriptor) { d.Extra = nil },
	} {
		d := base
		change(&d)
		list = append(list, d)
	}
	return list
}

// TestDescriptorsAreApart: the same keys under descriptors that differ in one
// field never share bytes, before and after a restart.
func TestDescriptorsAreApart(t *testing.T) {
	r := newRig(t, sim.Config{})
	s := r.open(small(engine.Options{CapacityBytes: 16 << 20}))
	list := variants()
	for i, d := range list {
		ns, err := s.Namespace(d)
		must(t, err)
		all(t, get(t, ns, 7), engine.Miss)
		item := []engine.PutItem{{Key: key(7), Src: [][]byte{content(1000+i, d.BlockBytes)}}}
		must(t, ns.Put(item, engine.PutOptions{}))
		if item[0].Status != engine.Stored {
			t.Fatalf("variant %d: %v", i, item[0].Status)
		}
	}
	check := func() {
		t.Helper()
		for i, d := range list {
			ns, err := s.Namespace(d)
			must(t, err)
			item := []engine.GetItem{{Key: key(7), Dst: [][]byte{device.AlignedBuffer(d.BlockBytes, 4096)}}}
			must(t, ns.Get(item, engine.GetOptions{}))
			if item[0].Status != engine.Hit || !bytes.Equal(item[0].Dst[0], content(1000+i, d.BlockBytes)) {
				t.Errorf("variant %d: %v", i, item[0].Status)
			}
		}
	}
	check()
	if n := len(s.Stat().Namespaces); n != len(list) {
		t.Errorf("%d namespaces", n)
	}
	_, err := s.FindNamespace("m")
	wantErr(t, err, engine.ErrConfig)
	mustClose(t, s)
	s = r.open(engine.Options{})
	check()
	a, err := s.Namespace(list[3])
	must(t, err)
	b, err := s.FindNamespace(a.ID()[:20])
	if err != nil || a != b {
		t.Errorf("equal descriptors give two namespaces: %v", err)
	}
	_, err = s.FindNamespace("nobody")
	wantErr(t, err, engine.ErrNotFound)
	mustClose(t, s)
}

// TestCounters: 70 hits and 30 misses are 70 hits and 30 misses (pitfall P31),
// and nothing counts while nothing happens.
func TestCounters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 70)...), engine.Stored)
		for n := range 100 {
			get(t, ns, n)
		}
		all(t, put(t, ns, engine.PutOptions{}, 1, 2, 3), engine.Present)
		want := engine.Counters{Hits: 70, Misses: 30, Stored: 70, Present: 3, ReadBytes: 70 * 4096, WrittenBytes: 70 * 4096}
		if c := s.Stat().Counters; c != want {
			t.Errorf("got  %+v\nwant %+v", c, want)
		}
		time.Sleep(time.Hour)
		if c := s.Stat().Counters; c != want {
			t.Errorf("idle: got  %+v\nwant %+v", c, want)
		}
		mustClose(t, s)
	})
}

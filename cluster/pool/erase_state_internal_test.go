package pool

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// book is a node's state under test, and all that was written to it.
type book struct {
	t    testing.TB
	fs   *vfs.MemFS
	most int
	e    *eraser
	from []member.ID // origins that others have
	next map[member.ID]uint64
	all  []logged // committed, in order
	lost map[lostMark]bool
	rise map[[32]byte]uint32
}

func newBook(t testing.TB, most int) *book {
	b := &book{t: t, fs: vfs.NewCrashableMem(), most: most, next: map[member.ID]uint64{}, lost: map[lostMark]bool{}, rise: map[[32]byte]uint32{}}
	for i := range 3 {
		b.from = append(b.from, member.ID{byte(i + 1)})
	}
	return b
}

func (b *book) open() {
	b.t.Helper()
	s, k, err := openState(b.fs, "pool", b.most, member.ID{9}, quiet)
	if err != nil {
		b.t.Fatal(err)
	}
	b.e = &eraser{p: &Pool{}, state: s, self: s.file.origin, damages: s.file.damages, known: k, logging: make(chan struct{}, 1)}
}

// erase commits one batch: some erasures of this node, some of another, a floor or a gap.
func (b *book) erase(rng *rand.Rand) {
	b.t.Helper()
	var x batch
	space := [32]byte{byte(rng.IntN(3) + 1)}
	for range rng.IntN(4) {
		x.own = append(x.own, peer.Erasure{Namespace: space, Incarnation: 1 + b.rise[space], ID: ID{1, byte(rng.IntN(20))}})
	}
	id := b.from[rng.IntN(len(b.from))]
	if rng.IntN(8) == 0 {
		b.next[id] += uint64(1 + rng.IntN(5))
		m := lostMark{space: space, origin: id, seq: b.next[id]}
		x.lost = append(b.e.known.blur(id), m)
		b.lost[m] = true
	}
	for range rng.IntN(4) {
		b.next[id] += uint64(1 + rng.IntN(2))
		r := logged{origin: id, Erasure: peer.Erasure{Seq: b.next[id], Namespace: space, Incarnation: 1, ID: ID{2, byte(rng.IntN(20))}}}
		x.from = append(x.from, r)
		b.all = append(b.all, r)
	}
	if rng.IntN(10) == 0 {
		b.rise[space]++
		x.floors = []peer.Floor{{Namespace: space, Incarnation: 1 + b.rise[space]}}
		x.own = nil
	}
	own := x.own
	if err := b.e.commit(&x); err != nil {
		b.t.Fatal(err)
	}
	at := b.e.known.clockOf(b.e.self)
	for i, r := range own {
		r.Seq = at - uint64(len(own)-1-i)
		b.all = append(b.all, logged{origin: b.e.self, Erasure: r})
	}
}

// check wants everything that was committed to be known: by name, or as lost.
func (b *book) check() {
	b.t.Helper()
	k := b.e.known
	names := map[logged]bool{}
	for id, o := range k.origins {
		if !slices.IsSortedFunc(o.named, func(a, b tombstone) int { return int(int64(a.seq) - int64(b.seq)) }) {
			b.t.Fatal("erasures out of order")
		}
		for _, t := range o.named {
			names[logged{origin: id, Erasure: peer.Erasure{Seq: t.seq, Namespace: k.byIndex[t.space].id, Incarnation: t.incarnation, ID: t.id}}] = true
		}
	}
	if len(names) != k.named || k.named > b.most {
		b.t.Fatalf("%d erasures are named, counted %d, at most %d may be", len(names), k.named, b.most)
	}
	for _, r := range b.all {
		s := k.spaces[r.Namespace]
		if k.clockOf(r.origin) < r.Seq || s == nil || s.clock.Of(r.origin) < r.Seq {
			b.t.Fatalf("an erasure that was committed is not known: %+v", r)
		}
		if !names[r] && s.lost[r.origin] < r.Seq {
			b.t.Fatalf("an erasure is neither named nor lost: %+v", r)
		}
	}
	for m := range b.lost {
		if k.spaces[m.space].lost[m.origin] < m.seq {
			b.t.Fatalf("a gap is not known: %+v", m)
		}
	}
	for space, n := range b.rise {
		if k.floorOf(space) != n+1 {
			b.t.Fatalf("floor %d, want %d", k.floorOf(space), n+1)
		}
	}
	var digest uint64
	for _, f := range k.floors() {
		digest ^= floorHash(f.Namespace, f.Incarnation)
	}
	if digest != k.digest {
		b.t.Fatal("the digest is not that of the floors")
	}
}

// TestStateHistories: what was committed is known after kills and power cuts at any
// moment, the number of names stays bounded, and numbers are never used again.
func TestStateHistories(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBook(t, 8<<rng.IntN(5))
		b.open()
		for range 30 {
			for range rng.IntN(12) {
				b.erase(rng)
			}
			b.check()
			if rng.IntN(3) > 0 {
				continue
			}
			at, starts, origin := b.e.known.clockOf(b.e.self), b.e.state.file.starts, b.e.self
			switch rng.IntN(3) {
			case 0:
				if err := b.e.close(); err != nil {
					t.Fatal(err)
				}
			case 1:
				b.fs = b.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
			case 2:
				b.fs = b.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			}
			b.open()
			b.check()
			if b.e.damages > 0 || b.e.self != origin || b.e.state.file.starts != starts+1 {
				t.Fatalf("seed %d: %d times damaged, start %d after %d", seed, b.e.damages, b.e.state.file.starts, starts)
			}
			space := [32]byte{1}
			b.all = append(b.all, logged{origin: b.e.self, Erasure: peer.Erasure{Namespace: space, Incarnation: 1 + b.rise[space], ID: ID{3}}})
			last := &b.all[len(b.all)-1]
			if err := b.e.commit(&batch{own: []peer.Erasure{last.Erasure}}); err != nil {
				t.Fatal(err)
			}
			if last.Seq = b.e.known.clockOf(b.e.self); last.Seq <= at || last.Seq>>32 != b.e.state.file.starts {
				t.Fatalf("seed %d: number %d after %d", seed, last.Seq, at)
			}
		}
		if err := b.e.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStateTornTail: a batch that a power cut tears leaves what was before it, and what
// comes later is not mixed with what is left of it.
func TestStateTornTail(t *testing.T) {
	b := newBook(t, 1<<10)
	b.open()
	record := func(id byte) peer.Erasure { return peer.Erasure{Namespace: [32]byte{1}, Incarnation: 1, ID: ID{id}} }
	commit := func(ids ...byte) {
		t.Helper()
		var x batch
		for _, id := range ids {
			x.own = append(x.own, record(id))
		}
		if err := b.e.commit(&x); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (ids []byte) {
		for _, t := range b.e.known.origin(b.e.self).named {
			ids = append(ids, t.id[0])
		}
		return ids
	}
	commit(1, 2)
	if err := b.e.close(); err != nil {
		t.Fatal(err)
	}
	log := b.bytes("ERASED-00000001")
	b.open()
	commit(3, 4, 5)
	state := b.bytes(stateName)
	if err := b.e.close(); err != nil {
		t.Fatal(err)
	}
	torn := b.bytes("ERASED-00000001")
	b.replace(stateName, state)                     // and the process was killed
	clear(torn[len(log) : len(log)+logRecordBytes]) // 3 never reached the medium, 4 and 5 did
	b.replace("ERASED-00000001", torn)
	b.open()
	if got := names(); !slices.Equal(got, []byte{1, 2}) || b.e.damages != 0 {
		t.Fatalf("%v, %d times damaged", got, b.e.damages)
	}
	commit(6)
	if err := b.e.close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	if got := names(); !slices.Equal(got, []byte{1, 2, 6}) || b.e.damages != 0 {
		t.Fatalf("%v, %d times damaged", got, b.e.damages)
	}
	if err := b.e.close(); err != nil {
		t.Fatal(err)
	}
}

func (b *book) bytes(name string) []byte {
	b.t.Helper()
	content, err := readFile(b.fs, "pool/"+name)
	if err != nil {
		b.t.Fatal(err)
	}
	return content
}

func (b *book) replace(name string, content []byte) {
	b.t.Helper()
	f, err := b.fs.Create("pool/"+name, vfs.WriteCategoryUnspecified)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := f.Write(slices.Clone(content)); err != nil {
		b.t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		b.t.Fatal(err)
	}
}

// filled is a state of three log files, closed.
func filled(t testing.TB) (b *book, names []string) {
	b = newBook(t, 8*8)
	b.open()
	rng := rand.New(rand.NewPCG(5, 5))
	b.rise[[32]byte{1}] = 1
	if err := b.e.commit(&batch{floors: []peer.Floor{{Namespace: [32]byte{1}, Incarnation: 2}}}); err != nil {
		t.Fatal(err)
	}
	for len(b.e.state.counts) < 3 {
		b.erase(rng)
	}
	b.erase(rng)
	if err := b.e.close(); err != nil {
		t.Fatal(err)
	}
	names = []string{stateName}
	for n := b.e.state.file.first; n <= b.e.state.file.last; n++ {
		names = append(names, logName(n))
	}
	return b, names
}

// TestStateDamage: with any byte changed, any file short or gone, the state is as it was,
// or is found damaged: then nothing is claimed that is not so, what is dropped stays
// dropped, and the node has another origin.
func TestStateDamage(t *testing.T) {
	b, names := filled(t)
	was, origin := b.e.known, b.e.self
	rng := rand.New(rand.NewPCG(6, 6))
	pristine := map[string][]byte{}
	for _, name := range names {
		pristine[name] = b.bytes(name)
	}
	tries, found := 0, 0
	try := func(what string, change func()) {
		t.Helper()
		for _, name := range names {
			b.replace(name, pristine[name])
		}
		if list, _ := b.fs.List("pool"); slices.Contains(list, damagedPrefix+names[1]) {
			_ = b.fs.Remove("pool/" + damagedPrefix + names[1])
		}
		change()
		s, k, err := openState(b.fs, "pool", b.most, member.ID{9}, quiet)
		if errors.Is(err, ErrStateVersion) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		tries++
		for id, o := range k.origins {
			if o.clock > was.clockOf(id) {
				t.Fatalf("%s: origin %v stands at %d, it was %d", what, id, o.clock, was.clockOf(id))
			}
		}
		damaged := s.file.origin != origin
		if damaged {
			found++
		}
		last := s.log.written
		for id, o := range was.origins {
			if !damaged && k.clockOf(id) < o.clock {
				t.Fatalf("%s: not found, and origin %v stands at %d, it was %d (%d records)", what, id, k.clockOf(id), o.clock, last)
			}
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		list, _ := b.fs.List("pool")
		for _, name := range list {
			if n := logNumber(name); n > 0 && !slices.Contains(names, name) {
				_ = b.fs.Remove("pool/" + name)
			}
		}
	}
	for _, name := range names {
		content := pristine[name]
		for range 150 {
			at, bit := rng.IntN(len(content)), rng.IntN(8)
			try(fmt.Sprintf("%s, bit %d of byte %d", name, bit, at), func() {
				broken := slices.Clone(content)
				broken[at] ^= 1 << bit
				b.replace(name, broken)
			})
		}
		for range 40 {
			n := rng.IntN(len(content))
			try(fmt.Sprintf("%s cut to %d bytes", name, n), func() { b.replace(name, content[:n]) })
		}
		try(name+" gone", func() {
			if err := b.fs.Remove("pool/" + name); err != nil {
				t.Fatal(err)
			}
		})
	}
	if found*2 < tries {
		t.Errorf("%d of %d damages were found", found, tries)
	}
}

// TestStateDamagedKeepsFloors: a damaged log costs names, not drops.
func TestStateDamagedKeepsFloors(t *testing.T) {
	b, names := filled(t)
	floors := b.e.known.floors()
	if len(floors) == 0 {
		t.Fatal("no floor to keep")
	}
	content := b.bytes(names[1])
	content[logHeaderBytes+5] ^= 1
	b.replace(names[1], content)
	origin := b.e.self
	b.open()
	if b.e.damages != 1 || b.e.self == origin || b.e.known.named != 0 || !slices.Equal(b.e.known.floors(), floors) {
		t.Fatalf("%d times damaged, %d names, floors %v, want %v", b.e.damages, b.e.known.named, b.e.known.floors(), floors)
	}
	list, _ := b.fs.List("pool")
	if !slices.Contains(list, damagedPrefix+names[1]) {
		t.Errorf("the damaged log is not kept: %v", list)
	}
	b.erase(rand.New(rand.NewPCG(1, 1)))
	if err := b.e.close(); err != nil {
		t.Fatal(err)
	}
}

// TestStateVersions: a state of another version is left as it is.
func TestStateVersions(t *testing.T) {
	b, names := filled(t)
	content := b.bytes(stateName)
	content[12]++
	le.PutUint32(content[8:], checksumOf(content[12:]))
	b.replace(stateName, content)
	if _, _, err := openState(b.fs, "pool", b.most, member.ID{9}, quiet); !errors.Is(err, ErrStateVersion) {
		t.Fatalf("error %v", err)
	}
	if !slices.Equal(b.bytes(stateName), content) || len(b.bytes(names[1])) == 0 {
		t.Error("it was changed")
	}
}

// TestStateLocked: two nodes never share a state.
func TestStateLocked(t *testing.T) {
	dir := t.TempDir()
	s, _, err := openState(nil, dir, 64, member.ID{1}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openState(nil, dir, 64, member.ID{1}, quiet); err == nil {
		t.Error("it was opened twice")
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s, _, err = openState(nil, dir, 64, member.ID{2}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if s.file.node != (member.ID{2}) || s.file.starts != 2 {
		t.Errorf("node %v, start %d", s.file.node, s.file.starts)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// FuzzState: no bytes make a panic, and what is decoded is encoded as it was.
func FuzzState(f *testing.F) {
	f.Add((&stateFile{first: 1, last: 2, floors: []peer.Floor{{Incarnation: 2}}, lost: []lostMark{{seq: 3}}, stores: [][16]byte{{4}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 12 {
			le.PutUint32(b[8:], checksumOf(b[12:]))
		}
		s, err := decodeState(b)
		if err == nil && !slices.Equal(s.encode(), b) {
			t.Fatalf("%x became %x", b, s.encode())
		}
	})
}

// FuzzLog: no log file makes a panic.
func FuzzLog(f *testing.F) {
	b := append(encodeLogHeader([16]byte{1}, 1, 4), appendRecord(nil, &logged{Erasure: peer.Erasure{Seq: 1, Incarnation: 1}}, stamp{number: 1})...)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem()
		w, err := fs.Create(logName(1), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(slices.Clone(b))
		_ = w.Close()
		n := uint32(0)
		if _, written, err := readLog(fs, "", [16]byte{1}, 1, true, func(*logged) { n++ }); err == nil && written != n {
			t.Fatalf("%d records, %d told", written, n)
		}
	})
}

// TestLacking: pieces of what somebody lacks add up, in whatever sizes they come.
func TestLacking(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		b := newBook(t, 16<<rng.IntN(4))
		b.open()
		for range 60 {
			b.erase(rng)
		}
		theirs := newKnown()
		for rounds := 0; ; rounds++ {
			groups := b.e.known.lacking(theirs.clock(), 1+rng.IntN(9))
			if len(groups) == 0 {
				break
			}
			if rounds > 1000 {
				t.Fatal("no end")
			}
			m, err := peer.ParseMerge(peer.AppendMerge(nil, &peer.Merge{Groups: groups}))
			if err != nil {
				t.Fatal(err)
			}
			e := &eraser{known: theirs}
			if news := e.news(nil, m.Groups); news != nil {
				for _, mark := range news.batch.lost {
					theirs.addLost(mark)
				}
				for i := range news.batch.from {
					theirs.add(&news.batch.from[i])
				}
			}
		}
		if !theirs.covers(b.e.known.clock()) || !maps.EqualFunc(theirs.spaces, b.e.known.spaces, func(x, y *spaceKnown) bool {
			return slices.Equal(x.clock, y.clock)
		}) {
			t.Fatalf("seed %d: they know %v of %v", seed, theirs.clock(), b.e.known.clock())
		}
		if err := b.e.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStale: what may have been erased since somebody stood somewhere.
func TestStale(t *testing.T) {
	k := newKnown()
	a, other := member.ID{1}, member.ID{2}
	here, there := [32]byte{1}, [32]byte{2}
	add := func(origin member.ID, seq uint64, space [32]byte, id ID) {
		k.add(&logged{origin: origin, Erasure: peer.Erasure{Seq: seq, Namespace: space, Incarnation: 1, ID: id}})
	}
	add(a, 1, here, ID{1})
	add(a, 2, there, ID{2})
	add(other, 1, here, ID{3})
	stale := func(c peer.Clock, ids ...ID) (all bool, n int) {
		all, some := k.stale(k.space(here), c, ids)
		for _, yes := range some {
			if yes {
				n++
			}
		}
		return all, n
	}
	at := func(x, y uint64) peer.Clock { return peer.Clock{{Origin: a, Seq: x}, {Origin: other, Seq: y}} }
	for _, c := range []struct {
		clock peer.Clock
		all   bool
		n     int
	}{{at(1, 1), false, 0}, {at(0, 1), false, 1}, {nil, false, 2}, {at(1, 0), false, 1}, {at(9, 9), false, 0}} {
		if all, n := stale(c.clock, ID{1}, ID{2}, ID{3}, ID{4}); all != c.all || n != c.n {
			t.Errorf("at %v: all %v, %d", c.clock, all, n)
		}
	}
	k.forget(a, 1)
	if all, _ := stale(at(0, 1), ID{4}); !all {
		t.Error("an erasure without a name is none of a block")
	}
	if all, n := stale(at(1, 1), ID{4}); all || n != 0 {
		t.Error("one that is covered is")
	}
	add(other, 2, here, ID{})
	if all, _ := stale(at(1, 1), ID{4}); !all {
		t.Error("a drop is none of a block")
	}
}

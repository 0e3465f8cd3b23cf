package table

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func TestRecordSize(t *testing.T) {
	if size := unsafe.Sizeof(Record{}); size != recordBytes {
		t.Fatalf("Record has %d bytes, want %d", size, recordBytes)
	}
	tab := newTable(t, 10)
	for i := range uint64(10) {
		ref := mustInsert(t, tab, ID{1, i})
		if at := uintptr(unsafe.Pointer(&tab.At(ref).ID)); at%16 != 0 {
			t.Fatalf("an ID at %#x crosses a cache line", at)
		}
	}
}

func TestInsertStopsAtMaxBlocks(t *testing.T) {
	const blocks = 3000 // not a power of two, several doublings
	tab := newTable(t, blocks)
	for i := range blocks {
		if ref := mustInsert(t, tab, ID{Hi: uint64(i) << 32, Lo: uint64(i)}); int(ref) != i+1 {
			t.Fatalf("record %d, want %d", ref, i+1)
		}
	}
	if _, err := tab.Insert(ID{7, 1 << 40}); !errors.Is(err, ErrFull) {
		t.Fatalf("err = %v, want ErrFull", err)
	}
	tab.Remove(17)
	if ref := mustInsert(t, tab, ID{7, 1 << 40}); ref != 17 {
		t.Fatalf("record %d, want the freed 17", ref)
	}
	checkShape(t, tab)
	if got, most := tab.ResidentBytes(), MemoryBytes(blocks); got > most {
		t.Fatalf("%d bytes resident, MemoryBytes promised at most %d", got, most)
	}
}

// inPartition is a Lo whose home is bucket i of a partition of rowsMax rows.
func inPartition(i, part, partitions uint64) uint64 {
	return placeIn(i/rowBuckets*(1<<16/rowsMax)*rowBuckets+i%rowBuckets, part, partitions)
}

// placeIn is bucket i of a partition.
func placeIn(i, part, partitions uint64) uint64 {
	return (i/rowBuckets*partitions+part)*rowBuckets + i%rowBuckets
}

// IDs that are not random fill one partition; it grows to its last size, then
// refuses, and the others do not notice.
func TestOnePartitionFills(t *testing.T) {
	tab := newTable(t, 20_000)
	partitions := uint64(len(tab.buckets.partitions))
	if partitions != 8 {
		t.Fatalf("%d partitions, want 8", partitions)
	}
	for i := range uint64(entriesMax(bucketsMax)) {
		mustInsert(t, tab, ID{i << 32, inPartition(i/2, 3, partitions)})
	}
	if _, err := tab.Insert(ID{1, 1<<40 + 3<<rowBits}); !errors.Is(err, ErrFull) {
		t.Fatalf("err = %v, want ErrFull", err)
	}
	mustInsert(t, tab, ID{1, 1<<40 + 2<<rowBits})
	checkShape(t, tab)
	for i := range uint64(entriesMax(bucketsMax)) {
		if got := tab.Find(ID{i << 32, inPartition(i/2, 3, partitions)}); uint64(got) != i+1 {
			t.Fatalf("Find of ID %d = %d", i, got)
		}
	}
}

func TestProgrammerErrorsPanic(t *testing.T) {
	tab := newTable(t, 10)
	id := ID{1, 2}
	ref := mustInsert(t, tab, id)
	mustPanic(t, "insert twice", func() { _, _ = tab.Insert(id) })
	mustPanic(t, "record 0", func() { tab.At(0) })
	mustPanic(t, "record never used", func() { tab.At(ref + 1) })
	mustPanic(t, "unequal batch", func() { tab.FindBatch(make([]ID, 2), make([]Ref, 1)) })
	tab.At(ref).ID.Lo++
	mustPanic(t, "ID changed", func() { tab.Remove(ref) })
	tab.At(ref).ID = id
	tab.Remove(ref)
	mustPanic(t, "record removed", func() { tab.At(ref) })
	mustPanic(t, "removed twice", func() { tab.Remove(ref) })
	if tab.Peek(0) != nil || tab.Peek(ref) != nil || tab.Peek(ref+1) != nil {
		t.Error("Peek found a record that is not in use")
	}
	ref = mustInsert(t, tab, id)
	if r := tab.Peek(ref); r != tab.At(ref) || r.ID != id {
		t.Errorf("Peek(%d) = %+v", ref, r)
	}
	*tab.At(ref) = Record{ID: id}
	mustPanic(t, "record overwritten", func() { tab.At(ref) })
	for _, blocks := range []int{-1, 0, MaxBlocksMax + 1} {
		if _, err := New(blocks); err == nil {
			t.Errorf("New(%d) gave no error", blocks)
		}
	}
	tab.Free()
	tab.Free()
	mustPanic(t, "find after free", func() { tab.Find(id) })
}

func TestEachMayRemove(t *testing.T) {
	tab := newTable(t, 1000)
	for i := range 1000 {
		ref := mustInsert(t, tab, ID{uint64(i) << 32, uint64(i)})
		tab.At(ref).SetNamespace(uint32(i % 3))
	}
	tab.Each(func(ref Ref, r *Record) bool {
		if r.Namespace() == 1 {
			tab.Remove(ref)
		}
		return true
	})
	checkShape(t, tab)
	visited, last := 0, Ref(0)
	tab.Each(func(ref Ref, r *Record) bool {
		if r.Namespace() == 1 || ref <= last {
			t.Fatalf("record %d of namespace %d after %d", ref, r.Namespace(), last)
		}
		visited, last = visited+1, ref
		return true
	})
	if visited != 667 || tab.Len() != 667 {
		t.Fatalf("visited %d of %d, want 667", visited, tab.Len())
	}
	visited = 0
	tab.Each(func(Ref, *Record) bool { visited++; return visited < 5 })
	if visited != 5 {
		t.Fatalf("visited %d after stopping at 5", visited)
	}
}

// machine drives a table and a Go map side by side. IDs come from a small set
// whose homes crowd around the end and the start of every bucket array and
// whose tags are often equal, so that clusters wrap, grow into each other and
// hold different IDs of one tag.
type machine struct {
	tab       *Table
	maxBlocks int
	model     map[ID]Ref
	records   map[Ref]Record
}

func genID(t *rapid.T) ID {
	home := rapid.Int64Range(-6, 6).Draw(t, "home")
	above := rapid.Uint64Range(0, 3).Draw(t, "above") << 20 // same home in every array
	tag := rapid.Uint64Range(0, 1).Draw(t, "tag")
	low := rapid.Uint64Range(0, 2).Draw(t, "low")
	row := rapid.Uint64Range(0, 1).Draw(t, "row") << rowBits // or partition, if there are some
	return ID{Hi: tag<<32 | low, Lo: uint64(home) ^ above ^ row}
}

func (m *machine) insert(t *rapid.T, id ID) {
	_, present := m.model[id]
	if present {
		return
	}
	ref, err := m.tab.Insert(id)
	if len(m.model) == m.maxBlocks {
		if !errors.Is(err, ErrFull) {
			t.Fatalf("err = %v at %d blocks, want ErrFull", err, m.maxBlocks)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if other, used := m.records[ref]; used {
		t.Fatalf("record %d of %v given to %v", ref, other.ID, id)
	}
	r := m.tab.At(ref)
	if *r != (Record{ID: id, flags: flagLive}) {
		t.Fatalf("record not fresh: %+v", *r)
	}
	r.SetPlace(id.Lo>>32<<32 | id.Lo&SlotMax)
	r.Depth, r.Importance = uint32(ref)*5, uint8(ref)
	m.model[id], m.records[ref] = ref, *r
}

func (m *machine) insertMany(t *rapid.T) {
	n := rapid.IntRange(1, 400).Draw(t, "n")
	seed := rapid.Uint64().Draw(t, "seed")
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range n {
		m.insert(t, ID{rnd.Uint64(), rnd.Uint64()})
	}
}

func (m *machine) remove(t *rapid.T, id ID) {
	ref, present := m.model[id]
	if !present {
		return
	}
	m.tab.Remove(ref)
	delete(m.model, id)
	delete(m.records, ref)
	if m.tab.records[ref] != freeRecord(m.tab.records[ref].nextFree()) {
		t.Fatalf("removed record %d is not zero: %+v", ref, m.tab.records[ref])
	}
}

func (m *machine) check(t *rapid.T) {
	if m.tab.Len() != len(m.model) {
		t.Fatalf("Len %d, want %d", m.tab.Len(), len(m.model))
	}
	var ids []ID
	var want []Ref
	for id, ref := range m.model {
		for _, other := range []ID{id, {id.Hi ^ 1<<40, id.Lo}, {id.Hi ^ 8, id.Lo}, {id.Hi, id.Lo ^ 1<<50}} {
			ids, want = append(ids, other), append(want, m.model[other])
			if got := m.tab.Find(other); got != m.model[other] {
				t.Fatalf("Find(%v) = %d, want %d", other, got, m.model[other])
			}
		}
		if got := *m.tab.At(ref); got != m.records[ref] {
			t.Fatalf("record %d is %+v, want %+v", ref, got, m.records[ref])
		}
	}
	refs := make([]Ref, len(ids))
	m.tab.FindBatch(ids, refs)
	for i := range refs {
		if refs[i] != want[i] {
			t.Fatalf("FindBatch of %v = %d, want %d", ids[i], refs[i], want[i])
		}
	}
	visited := 0
	m.tab.Each(func(ref Ref, r *Record) bool {
		if *r != m.records[ref] {
			t.Fatalf("Each: record %d is %+v, want %+v", ref, *r, m.records[ref])
		}
		visited++
		return true
	})
	if visited != len(m.model) {
		t.Fatalf("Each visited %d, want %d", visited, len(m.model))
	}
	checkShape(t, m.tab)
}

func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxBlocks := rapid.SampledFrom([]int{1, 30, 384, 385, 2000, 3073, 7000}).Draw(t, "maxBlocks")
		tab, err := New(maxBlocks)
		if err != nil {
			t.Fatal(err)
		}
		defer tab.Free()
		if rapid.Bool().Draw(t, "reserved") {
			tab.Reserve(rapid.IntRange(0, 2*maxBlocks).Draw(t, "reserve"))
		}
		m := &machine{tab: tab, maxBlocks: maxBlocks, model: map[ID]Ref{}, records: map[Ref]Record{}}
		t.Repeat(map[string]func(*rapid.T){
			"insert":     func(t *rapid.T) { m.insert(t, genID(t)) },
			"insertMany": m.insertMany,
			"remove":     func(t *rapid.T) { m.remove(t, genID(t)) },
			"removeSome": func(t *rapid.T) {
				share := rapid.Uint64Range(2, 4).Draw(t, "share")
				for ref, r := range m.tab.records[:m.tab.used+1] {
					if r.live() && uint64(ref)%share != 0 {
						m.remove(t, r.ID)
					}
				}
			},
			"": m.check,
		})
	})
}

// TestEveryClusterShape removes every subset order of small clusters whose
// homes wrap around the end of the bucket array.
func TestEveryClusterShape(t *testing.T) {
	const n = 5
	homes := []uint64{rowBuckets - 2, rowBuckets - 1, 0, 1}
	for shape := range 1 << (2 * n) { // every choice of n homes
		for victim := range n {
			tab, err := New(n)
			if err != nil {
				t.Fatal(err)
			}
			var refs [n]Ref
			id := func(i int) ID { return ID{uint64(i), homes[shape>>(2*i)&3]} }
			for i := range n {
				refs[i] = mustInsert(t, tab, id(i))
			}
			tab.Remove(refs[victim])
			checkShape(t, tab)
			for i := range n {
				want := refs[i]
				if i == victim {
					want = 0
				}
				if got := tab.Find(id(i)); got != want {
					t.Fatalf("shape %#x without %d: Find(%d) = %d, want %d", shape, victim, i, got, want)
				}
			}
			tab.Free()
		}
	}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// checkShape verifies what searches rely on: every entry can be reached from
// its home without an empty bucket between, entries and records agree, and the
// free list holds exactly the rest.
func checkShape(t fataler, tab *Table) {
	t.Helper()
	entries, buckets := 0, 0
	for part, p := range tab.buckets.partitions {
		buckets += p.buckets()
		entries += checkPartition(t, tab, uint64(part))
	}
	if entries != tab.live || buckets != tab.buckets.count {
		t.Fatalf("%d entries, Len %d; %d buckets, want %d", entries, tab.live, tab.buckets.count, buckets)
	}
	free := 0
	for ref := tab.free; ref != 0; ref = tab.records[ref].nextFree() {
		if free++; free > tab.used {
			t.Fatalf("free list runs in a circle")
		}
	}
	if free+tab.live != tab.used {
		t.Fatalf("%d free + %d live records, want %d", free, tab.live, tab.used)
	}
}

func checkPartition(t fataler, tab *Table, part uint64) (entries int) {
	t.Helper()
	b, p := &tab.buckets, tab.buckets.partitions[part]
	for i := range uint64(p.buckets()) {
		place := placeIn(i, part, uint64(len(b.partitions)))
		if b.indexOf(place) != i || b.indexOf(b.next(place)) != (i+1)%uint64(p.buckets()) ||
			b.partitionOf(place) != &b.partitions[part] || b.partitionOf(b.next(place)) != &b.partitions[part] {
			t.Fatalf("bucket %d/%d: wrong index, neighbour or partition", part, i)
		}
		bucket := b.all[place]
		if bucket == 0 {
			continue
		}
		entries++
		r := tab.records[refOf(bucket)]
		if !r.live() || bucket != pack(tagOf(r.ID), refOf(bucket)) {
			t.Fatalf("bucket %d/%d = %#x does not fit its record %+v", part, i, bucket, r)
		}
		for at, steps := b.home(r.ID.Lo), 0; at != place; at, steps = b.next(at), steps+1 {
			if b.all[at] == 0 || steps == p.buckets() {
				t.Fatalf("entry in bucket %d/%d is cut off by the one at %d", part, i, at)
			}
		}
	}
	if entries != int(p.entries) || entries > entriesMax(p.buckets()) {
		t.Fatalf("%d entries in %d buckets of partition %d, counted %d", entries, p.buckets(), part, p.entries)
	}
	return entries
}

func newTable(t testing.TB, maxBlocks int) *Table {
	t.Helper()
	tab, err := New(maxBlocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Free)
	return tab
}

func mustInsert(t testing.TB, tab *Table, id ID) Ref {
	t.Helper()
	ref, err := tab.Insert(id)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

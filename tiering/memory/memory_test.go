package memory_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const block = 64 << 10

func tier(t testing.TB, o memory.Options) *memory.Tier {
	t.Helper()
	if o.Bytes == 0 {
		o.Bytes = 4 << 20 // 64 blocks
	}
	m, err := memory.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func version(n int, position uint64) (v engine.Version) {
	binary.LittleEndian.PutUint64(v.ID[:], uint64(n)*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(v.ID[8:], uint64(n))
	v.Position = position
	return v
}

// mark is what a version's bytes hold.
func mark(v engine.Version) byte { return byte(v.ID[8]*7 + byte(v.Position)) }

func add(t testing.TB, m *memory.Tier, v engine.Version, nBytes int, o memory.Origin) bool {
	t.Helper()
	frame, ok := m.Room(nBytes)
	if !ok {
		return false
	}
	b := frame.Bytes()
	b[0] = mark(v)
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
	m.Add(v, frame, 1, 0, 0, o)
	return true
}

// has finds a version for a reader and checks its bytes.
func has(t testing.TB, m *memory.Tier, reader uint64, v engine.Version, nBytes int) bool {
	t.Helper()
	items := []memory.Item{{Version: v}}
	if m.Find(reader, items) == 0 {
		return false
	}
	defer items[0].Block.Release()
	got := make([]byte, nBytes)
	if err := items[0].Block.CopyTo([][]byte{got[:100], got[100:]}); err != nil {
		t.Error(err)
	}
	if bytes.Count(got, []byte{mark(v)}) != nBytes {
		t.Fatalf("version %v has the bytes of another", v)
	}
	return true
}

// TestVersions: a block is found by its version only; a newer one replaces it, an older
// one does not come back.
func TestVersions(t *testing.T) {
	m := tier(t, memory.Options{Verify: true})
	add(t, m, version(1, 10), block, memory.Ahead)
	if !has(t, m, 1, version(1, 10), block) || has(t, m, 1, version(2, 10), block) || has(t, m, 1, engine.Version{}, block) {
		t.Error("found what is not there, or not what is")
	}
	if has(t, m, 1, version(1, 9), block) {
		t.Error("an older version was found")
	}
	add(t, m, version(1, 9), block, memory.Read) // its reader was slow
	if !has(t, m, 1, version(1, 10), block) {
		t.Error("an older version took the place of a newer one")
	}
	if has(t, m, 1, version(1, 11), block) || has(t, m, 1, version(1, 10), block) {
		t.Error("a version was found after a newer one was known")
	}
	add(t, m, version(1, 11), block, memory.Ahead)
	add(t, m, version(2, 1), block, memory.Ahead)
	m.Purge(1)
	if st := m.Stat(); st.Blocks != 0 || st.Bytes != 0 || st.Stale != 1 || has(t, m, 1, version(2, 1), block) {
		t.Errorf("after the purge %+v", st)
	}
}

// TestBounded: a tier never holds more than its bytes, and gives room to blocks of
// another size.
func TestBounded(t *testing.T) {
	m := tier(t, memory.Options{Mode: memory.Inclusive})
	total := m.Facts().Bytes
	rng := rand.New(rand.NewPCG(1, 1))
	sizes := []int{4 << 10, 64 << 10, 100_000, 1 << 20}
	for n := range 2000 {
		if !add(t, m, version(n, 1), sizes[(n/200)%len(sizes)], memory.Read) {
			t.Fatalf("no room for block %d", n)
		}
		if rng.IntN(3) == 0 {
			n = max(0, n-rng.IntN(5))
			has(t, m, 1, version(n, 1), sizes[(n/200)%len(sizes)])
		}
		if st := m.Stat(); st.Bytes > total || st.Added-st.Evicted != uint64(st.Blocks) {
			t.Fatalf("%d bytes of %d, %+v", st.Bytes, total, st)
		}
	}
	if _, ok := m.Room(8 << 20); ok {
		t.Error("room for a block larger than the tier")
	}
	var items []memory.Item // as long as all blocks are being read, there is no room
	for n := 1000; n < 2000; n++ {
		items = append(items, memory.Item{Version: version(n, 1)})
	}
	held := m.Find(1, items)
	for range 1000 {
		if !add(t, m, version(5000, 1), 1<<20, memory.Read) {
			break
		}
		m.Purge(1)
	}
	if m.Stat().Refused == 0 && held > 0 {
		t.Log("room beside all held blocks")
	}
	for i := range items {
		if items[i].Block.Valid() {
			items[i].Block.Release()
		}
	}
	if !add(t, m, version(6000, 1), 1<<20, memory.Read) {
		t.Error("no room after the readers had gone")
	}
}

// TestSpentGoFirst: in exclusive mode what its only reader has read goes before what
// nobody has read, and that before what several read.
func TestSpentGoFirst(t *testing.T) {
	m := tier(t, memory.Options{})
	for n := range 64 {
		add(t, m, version(n, 1), block, memory.Ahead)
	}
	for n := 32; n < 64; n++ {
		has(t, m, 1, version(n, 1), block) // spent, though the youngest
	}
	for n := 48; n < 64; n++ {
		has(t, m, 2, version(n, 1), block) // two readers
	}
	for n := 100; n < 116; n++ {
		add(t, m, version(n, 1), block, memory.Ahead)
	}
	for n := range 64 {
		if gone := n >= 32 && n < 48; m.Keep(version(n, 1)) == gone {
			t.Errorf("block %d is here: %v", n, !gone)
		}
	}
	m.Spend(version(5, 1))
	m.Spend(version(60, 1)) // shared: no predictor knows better
	add(t, m, version(200, 1), block, memory.Ahead)
	if m.Keep(version(5, 1)) || !m.Keep(version(60, 1)) {
		t.Error("the block that nobody expects to be read has not gone first")
	}
	st := m.Stat()
	if st.AheadUsed != 32 || st.AheadWaste != 1 || st.AheadAdded != 64+16+1 {
		t.Errorf("%+v", st)
	}
}

// TestWanted: exclusive wants what another has read before.
func TestWanted(t *testing.T) {
	m := tier(t, memory.Options{})
	for _, c := range []struct {
		reader uint64
		v      engine.Version
		want   bool
	}{{1, version(1, 1), false}, {1, version(1, 1), false}, {2, version(1, 1), true}, {2, version(1, 1), false},
		{3, version(1, 2), false}, {3, engine.Version{}, false}} {
		if got := m.Wanted(c.reader, c.v); got != c.want {
			t.Errorf("%+v: wanted %v", c, got)
		}
	}
	if !tier(t, memory.Options{Mode: memory.Inclusive}).Wanted(1, version(1, 1)) {
		t.Error("inclusive does not want what is read")
	}
}

// TestManyAtOnce: readers and adders of few blocks in little room.
func TestManyAtOnce(t *testing.T) {
	m := tier(t, memory.Options{Bytes: 2 << 20, Mode: memory.Inclusive, Verify: true})
	const block = 16 << 10
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(w)))
			for range 200 {
				v := version(rng.IntN(160), uint64(1+rng.IntN(3)))
				if !has(t, m, uint64(w), v, block) {
					add(t, m, v, block, memory.Origin(rng.IntN(2)))
				}
			}
		})
	}
	wg.Wait()
	if st := m.Stat(); st.Decayed != 0 || st.Hits == 0 || st.Stale == 0 || st.Evicted == 0 {
		t.Errorf("%+v", st)
	}
}

// TestDecay: bytes that have changed in memory are noticed where the tier verifies.
func TestDecay(t *testing.T) {
	m := tier(t, memory.Options{Verify: true})
	frame, _ := m.Room(block)
	m.Add(version(1, 1), frame, 1, 0, 0, memory.Ahead)
	frame.Bytes()[77] ^= 1
	items := []memory.Item{{Version: version(1, 1)}}
	m.Find(1, items)
	if err := items[0].Block.CopyTo([][]byte{make([]byte, block)}); !errors.Is(err, memory.ErrDecayed) {
		t.Errorf("%v", err)
	}
	items[0].Block.Release()
	if m.Stat().Decayed != 1 {
		t.Errorf("%+v", m.Stat())
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []memory.Options{{Bytes: 1}, {Bytes: 4 << 20, Mode: "both"}, {Bytes: 4 << 20, Mode: memory.Off}} {
		if m, err := memory.New(o); !errors.Is(err, memory.ErrOptions) {
			t.Errorf("%+v: %v, %v", o, m, err)
		}
	}
}

func BenchmarkFindAndCopy(b *testing.B) {
	m := tier(b, memory.Options{Bytes: 64 << 20, Mode: memory.Inclusive})
	const n = 32
	items := make([]memory.Item, n)
	for i := range items {
		items[i].Version = version(i, 1)
		add(b, m, items[i].Version, 1<<20, memory.Read)
	}
	dst := make([]byte, 1<<20)
	b.SetBytes(n << 20)
	for b.Loop() {
		m.Find(1, items)
		for i := range items {
			if err := items[i].Block.CopyTo([][]byte{dst}); err != nil {
				b.Fatal(err)
			}
			items[i].Block.Release()
		}
	}
}

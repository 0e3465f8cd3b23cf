package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"
)

// bytesPerBlockMax leaves 28 bytes for eviction policy and ghosts, and 4 for the slots, within the store's
// bar of 96.
const bytesPerBlockMax = 64

func TestBytesPerBlock(t *testing.T) {
	const million = 1_000_000
	tab := newTable(t, 4*million)
	rnd := rand.New(rand.NewPCG(idSeed, 0))
	var resident [5]int64 // at so many million blocks
	for tab.Len() < 4*million {
		mustInsert(t, tab, ID{rnd.Uint64(), rnd.Uint64()})
		if tab.Len()%million == 0 {
			resident[tab.Len()/million] = tab.ResidentBytes()
		}
	}
	slope := float64(resident[4]-resident[1]) / (3 * million)
	t.Logf("from 1 M to 4 M blocks: %.1f bytes per block", slope)
	if slope > bytesPerBlockMax {
		t.Errorf("%.1f bytes per block, want at most %d", slope, bytesPerBlockMax)
	}
	if most := MemoryBytes(4 * million); resident[4] > most || resident[4] < most*9/10 {
		t.Errorf("%d bytes resident, MemoryBytes says at most %d", resident[4], most)
	}
}

func TestMemoryBytesGrowsWithBlocks(t *testing.T) {
	for blocks := 10_000; blocks < 100_000_000; blocks = blocks*5/4 + 1 {
		perBlock := float64(MemoryBytes(blocks)) / float64(blocks)
		if perBlock < recordBytes+bucketBytes/0.75 || perBlock > recordBytes+20 {
			t.Errorf("MemoryBytes(%d) is %.1f bytes a block", blocks, perBlock)
		}
	}
}

// TestReserve: room made at once is what growth would have come to, give or take
// the partitions that are just above or below a doubling.
func TestReserve(t *testing.T) {
	for _, blocks := range []int{100, 10_000, 300_000} {
		grown, reserved := filled(t, blocks), newTable(t, blocks)
		reserved.Reserve(blocks)
		for _, id := range idsOf(blocks, 0) {
			mustInsert(t, reserved, id)
		}
		checkShape(t, reserved)
		if got, most := reserved.ResidentBytes(), MemoryBytes(blocks); got > most || got < grown.ResidentBytes()*9/10 {
			t.Errorf("%d blocks: %d bytes, grown by itself %d, at most %d", blocks, got, grown.ResidentBytes(), most)
		}
	}
	used := filled(t, 1)
	mustPanic(t, "Reserve in use", func() { used.Reserve(1) })
}

const idSeed = 1

// idsOf gives the same n random IDs at every call with one stream.
func idsOf(n int, stream uint64) []ID {
	rnd := rand.New(rand.NewPCG(idSeed, stream))
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = ID{rnd.Uint64(), rnd.Uint64()}
	}
	return ids
}

func filled(t testing.TB, blocks int) *Table {
	t.Helper()
	tab := newTable(t, blocks)
	rnd := rand.New(rand.NewPCG(idSeed, 0))
	for range blocks {
		mustInsert(t, tab, ID{rnd.Uint64(), rnd.Uint64()})
	}
	return tab
}

func benchSizes(b *testing.B, run func(b *testing.B, tab *Table, ids []ID)) {
	for _, blocks := range []int{1_000_000, 4_000_000} {
		for _, kind := range []string{"hit", "miss"} {
			b.Run(fmt.Sprintf("blocks=%d/%s", blocks, kind), func(b *testing.B) {
				ids := idsOf(blocks, map[string]uint64{"hit": 0, "miss": 1}[kind])
				rnd := rand.New(rand.NewPCG(idSeed, 2))
				rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				run(b, filled(b, blocks), ids)
			})
		}
	}
}

// BenchmarkFindBatch reports the time of one key (ns/op) in batches of 64.
func BenchmarkFindBatch(b *testing.B) {
	benchSizes(b, func(b *testing.B, tab *Table, ids []ID) {
		var refs [groupSize]Ref
		at := 0
		b.ResetTimer()
		for i := 0; i < b.N; i += groupSize {
			if at+groupSize > len(ids) {
				at = 0
			}
			tab.FindBatch(ids[at:at+groupSize], refs[:])
			at += groupSize
		}
	})
}

// BenchmarkFind is the same one by one, each search waiting for the last.
func BenchmarkFind(b *testing.B) {
	benchSizes(b, func(b *testing.B, tab *Table, ids []ID) {
		at := 0
		for b.Loop() {
			ref := tab.Find(ids[at])
			if at += 1 + int(ref&1); at >= len(ids) {
				at = 0
			}
		}
	})
}

func BenchmarkInsertRemove(b *testing.B) {
	const blocks = 1_000_000
	tab, ids := filled(b, blocks), idsOf(blocks, 0)
	at := 0
	for b.Loop() {
		tab.Remove(tab.Find(ids[at]))
		mustInsert(b, tab, ids[at])
		if at++; at == blocks {
			at = 0
		}
	}
}

// BenchmarkGrow reports the inserts that double a partition while a table grows
// to its size: their median and their 99th percentile.
func BenchmarkGrow(b *testing.B) {
	const blocks = 4_000_000
	ids := idsOf(blocks, 0)
	var growths []time.Duration
	for b.Loop() {
		tab := newTable(b, blocks)
		for _, id := range ids {
			count, start := tab.buckets.count, time.Now()
			mustInsert(b, tab, id)
			if took := time.Since(start); tab.buckets.count != count {
				growths = append(growths, took)
			}
		}
		tab.Free()
	}
	slices.Sort(growths)
	b.ReportMetric(float64(growths[len(growths)/2].Microseconds()), "µs-growth-P50")
	b.ReportMetric(float64(growths[len(growths)*99/100].Microseconds()), "µs-growth-P99")
}

// BenchmarkResident reports resident bytes per block as the system counts them
// (RSS), slope from 1 M to 4 M blocks.
func BenchmarkResident(b *testing.B) {
	const million = 1_000_000
	for b.Loop() {
		before := residentBytes(b)
		small := filled(b, million)
		smallBytes := residentBytes(b) - before
		before = residentBytes(b)
		large := filled(b, 4*million)
		largeBytes := residentBytes(b) - before
		b.ReportMetric(float64(largeBytes-smallBytes)/(3*million), "RSS-bytes/block")
		b.ReportMetric(float64(smallBytes)/million, "RSS-bytes/block-1M")
		small.Free()
		large.Free()
	}
}

func residentBytes(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory() // the heap's garbage is not the table's
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skipf("no /proc: %v", err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(statm)[1]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

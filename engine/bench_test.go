package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// benchStore is a store prefilled with as many blocks as make up nBytes.
func benchStore(b *testing.B, blockBytes int, nBytes int64) (*engine.Namespace, int) {
	b.Helper()
	s, err := engine.Open(engine.Options{Dir: b.TempDir(), CapacityBytes: nBytes*5/4 + 64<<20, BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	ns, err := s.Namespace(engine.Descriptor{Name: "bench", BlockBytes: blockBytes})
	if err != nil {
		b.Fatal(err)
	}
	blocks := int(nBytes / int64(blockBytes))
	src := content(1, blockBytes)
	for from := 0; from < blocks; from += 64 {
		items := make([]engine.PutItem, min(64, blocks-from))
		for i := range items {
			items[i] = engine.PutItem{Key: key(from + i), Src: [][]byte{src}}
		}
		if err := ns.Put(items, engine.PutOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	return ns, blocks
}

// BenchmarkGet reads random blocks, one Get per block, by depth goroutines.
func BenchmarkGet(b *testing.B) {
	for _, blockBytes := range []int{4 << 10, 64 << 10, 1 << 20} {
		ns, blocks := benchStore(b, blockBytes, 256<<20)
		for _, depth := range []int{1, 16} {
			b.Run(fmt.Sprintf("%dKiB/depth%d", blockBytes>>10, depth), func(b *testing.B) {
				b.SetBytes(int64(blockBytes))
				b.ReportAllocs()
				b.SetParallelism(depth)
				if depth == 1 {
					readRandom(b, ns, blocks, blockBytes, func() bool { return b.Loop() })
					return
				}
				b.RunParallel(func(pb *testing.PB) { readRandom(b, ns, blocks, blockBytes, pb.Next) })
			})
		}
	}
}

func readRandom(b *testing.B, ns *engine.Namespace, blocks, blockBytes int, more func() bool) {
	rng := rand.New(rand.NewPCG(1, rand.Uint64()))
	dst := [][]byte{device.AlignedBuffer(blockBytes, 4096)}
	for more() {
		items := [1]engine.GetItem{{Key: key(rng.IntN(blocks)), Dst: dst}}
		if err := ns.Get(items[:], engine.GetOptions{NoTouch: true}); err != nil || items[0].Status != engine.Hit {
			b.Error(err, items[0].Status, items[0].Err)
			return
		}
	}
}

// BenchmarkMatch asks for the longest prefix of 8,192 keys.
func BenchmarkMatch(b *testing.B) {
	ns, blocks := benchStore(b, 4<<10, 64<<20)
	keys := make([]engine.Key, 8192)
	for i := range keys {
		keys[i] = key(i)
	}
	for b.Loop() {
		m, err := ns.Match(keys, engine.MatchOptions{})
		if err != nil || m.Prefix < min(len(keys), blocks) {
			b.Fatal(err, m.Prefix)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/key")
}

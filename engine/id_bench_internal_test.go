package engine

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/table"
)

// BenchmarkBlockID derives the IDs of 8,192 keys of 32 bytes: the part of a
// Match that does not depend on the store.
func BenchmarkBlockID(b *testing.B) {
	keys := make([]Key, 8192)
	for i := range keys {
		keys[i] = Key{Bytes: fmt.Appendf(nil, "bench-%026d", i)}
	}
	var nsID [32]byte
	ids := make([]table.ID, len(keys))
	var scratch []byte
	cpu := func() float64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano() + u.Stime.Nano())
	}
	began := cpu()
	for b.Loop() {
		for i := range keys {
			ids[i], scratch = blockID(&nsID, 1, keys[i], scratch)
		}
	}
	b.ReportMetric((cpu()-began)/float64(b.N)/float64(len(keys)), "cpu-ns/key")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/key")
}

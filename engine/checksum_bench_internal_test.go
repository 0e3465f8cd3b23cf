package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/table"
)

// coldBytes is far more than a processor's caches hold.
const coldBytes = 2 << 30

// BenchmarkChecksum proves blocks that lie in the cache, and blocks spread over memory
// that does not fit into it. cpu-GB/s is by processor time of the process, which stands
// still on a busy machine.
func BenchmarkChecksum(b *testing.B) {
	memory, err := unix.Mmap(-1, 0, coldBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // or pages of 4 KiB
	for i := 0; i < coldBytes; i += 4096 {
		memory[i] = byte(i >> 12)
	}
	for _, blockBytes := range []int{64 << 10, 1 << 20, 16 << 20} {
		for _, cold := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/cold=%t", blockBytes>>10, cold), func(b *testing.B) {
				order := rand.New(rand.NewPCG(1, 2)).Perm(coldBytes / blockBytes)
				if !cold {
					order = order[:1]
				}
				b.SetBytes(int64(blockBytes))
				before, sum, i := cpuNS(b), uint64(0), 0
				for b.Loop() {
					at := order[i%len(order)] * blockBytes
					sum += checksum(table.ID{Hi: uint64(i)}, [][]byte{memory[at : at+blockBytes]})
					i++
				}
				used := cpuNS(b) - before
				b.ReportMetric(float64(i)*float64(blockBytes)/float64(used), "cpu-GB/s")
				if sum == 0 {
					b.Error("no sum")
				}
			})
		}
	}
}

func cpuNS(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

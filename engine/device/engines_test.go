package device_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
)

// BenchmarkEngines compares the engines by random direct reads of a file of
// 1 GiB: a batch of depth reads is submitted, and the next one when all have
// ended ("batch"), or every read is replaced by its own goroutine as soon as it
// has ended ("each"). Memory is registered where that is possible.
func BenchmarkEngines(b *testing.B) {
	for _, sizeBytes := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, depth := range []int{1, 16, 32} {
			for _, how := range []string{"batch", "each"} {
				for _, engine := range []string{device.EnginePsync, device.EngineUring, device.EngineAuto} {
					if depth == 1 && how == "each" {
						continue
					}
					b.Run(fmt.Sprintf("read=%dKiB/depth=%d/%s/%s", sizeBytes>>10, depth, how, engine), func(b *testing.B) {
						benchmarkReads(b, engine, sizeBytes, depth, how == "batch")
					})
				}
			}
		}
	}
}

const benchFileBytes = 1 << 30

// benchDir holds a file that is written once for all benchmarks.
func benchDir(b *testing.B) string {
	dir := os.Getenv("SPILLWAY_BENCH_DIR")
	if dir == "" {
		b.Skip("set SPILLWAY_BENCH_DIR to a directory on a drive; a file of 1 GiB is made there")
	}
	d, err := device.OpenDir(dir, device.Options{Engine: device.EnginePsync, Create: true})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	f, err := d.Open("bench")
	if err == nil {
		_ = f.Close()
		return dir
	}
	if f, err = d.Create("bench", benchFileBytes); err != nil {
		b.Fatal(err)
	}
	buf := device.AlignedBuffer(8<<20, 4096)
	for offset := int64(0); offset < benchFileBytes; offset += int64(len(buf)) {
		if err := device.Do(d, &device.Op{Kind: device.Write, File: f, Offset: offset, Bufs: [][]byte{buf}}); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

func benchmarkReads(b *testing.B, engine string, sizeBytes, depth int, batch bool) {
	d, err := device.OpenDir(benchDir(b), device.Options{Engine: engine})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	f, err := d.Open("bench")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(-1, 0, sizeBytes*depth, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	if m, ok := d.(device.MemoryRegistrar); ok && os.Getenv("SPILLWAY_BENCH_UNREGISTERED") == "" {
		release, err := m.RegisterMemory(mem)
		if err != nil {
			b.Fatal(err)
		}
		defer release()
	}
	ended := make(chan int, depth)
	ops := make([]*device.Op, depth)
	for i := range ops {
		ops[i] = &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{mem[i*sizeBytes : (i+1)*sizeBytes]}, Done: func(op *device.Op) {
			if op.Err != nil {
				b.Error(op.Err)
			}
			ended <- i
		}}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	offset := func() int64 { return rnd.Int64N(benchFileBytes/int64(sizeBytes)) * int64(sizeBytes) }
	b.SetBytes(int64(sizeBytes))
	b.ResetTimer()
	if batch {
		for done := 0; done < b.N; done += depth {
			for _, op := range ops {
				op.Offset = offset()
			}
			d.Submit(ops)
			for range ops {
				<-ended
			}
		}
		return
	}
	for i := range ops {
		ops[i].Offset = offset()
		d.Submit(ops[i : i+1])
	}
	for range b.N {
		i := <-ended
		ops[i].Offset = offset()
		d.Submit(ops[i : i+1])
	}
	for range ops {
		<-ended
	}
}

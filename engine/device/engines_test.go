package device_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
)

const (
	benchFileBytes  = 1 << 30
	benchRounds     = 15
	benchRoundBytes = 48 << 20
	benchRoundOps   = 2000 // at most
)

// BenchmarkEngines compares the engines by random direct reads of a file of
// 1 GiB in $SPILLWAY_BENCH_DIR, in registered memory where an engine has that.
// "batch": depth reads are submitted at once, and the next ones when all have
// ended; "each": every read is replaced as soon as it has ended. "write" and
// "sync" are lone writes, and lone syncs after a write. The engines take turns
// within each of 15 rounds. Reported are the median µs of an op, and the ratio
// to psync as its median and the range without the two best and worst rounds.
func BenchmarkEngines(b *testing.B) {
	parent := os.Getenv("SPILLWAY_BENCH_DIR")
	if parent == "" {
		b.Skip("set SPILLWAY_BENCH_DIR to a directory on a drive; a file of 1 GiB is made there")
	}
	engines := []string{device.EnginePsync, device.EngineUring, device.EngineAuto}
	rigs := make([]*benchRig, len(engines))
	for i, engine := range engines {
		rigs[i] = newBenchRig(b, parent, engine)
	}
	run := func(name string, round func(*benchRig) time.Duration, ops int) {
		b.Run(name, func(b *testing.B) {
			perOp := make([][]float64, len(engines))
			for n := range benchRounds + 1 { // the first is for warming up
				for i := range engines {
					i = (i + n) % len(engines)
					if took := round(rigs[i]); n > 0 {
						perOp[i] = append(perOp[i], float64(took.Nanoseconds())/1e3/float64(ops))
					}
				}
			}
			for i, engine := range engines {
				b.ReportMetric(quantile(perOp[i], 0.5), engine+"-µs")
				if i == 0 {
					continue
				}
				ratios := slices.Clone(perOp[i])
				for n := range ratios {
					ratios[n] /= perOp[0][n]
				}
				for what, q := range map[string]float64{"low": 0.15, "mid": 0.5, "high": 0.85} {
					b.ReportMetric(quantile(ratios, q), engine+"/psync-"+what)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	for _, sizeBytes := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, depth := range []int{1, 16, 32} {
			ops := min(benchRoundOps, benchRoundBytes/sizeBytes) / depth * depth
			name := fmt.Sprintf("read=%dKiB/depth=%d", sizeBytes>>10, depth)
			run(name+"/batch", func(r *benchRig) time.Duration { return r.batches(device.Read, sizeBytes, depth, ops) }, ops)
			if depth > 1 {
				run(name+"/each", func(r *benchRig) time.Duration { return r.each(sizeBytes, depth, ops) }, ops)
			}
		}
		ops := min(benchRoundOps, benchRoundBytes/sizeBytes) / 4
		run(fmt.Sprintf("write=%dKiB/depth=1", sizeBytes>>10), func(r *benchRig) time.Duration { return r.batches(device.Write, sizeBytes, 1, ops) }, ops)
	}
	run("sync/depth=1", func(r *benchRig) time.Duration { return r.batches(device.Sync, 4<<10, 1, 100) }, 100)
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// benchRig is one engine on its own directory; the file is the same for all.
type benchRig struct {
	b   *testing.B
	d   device.Device
	f   device.File
	mem []byte
	rnd *rand.Rand
}

func newBenchRig(b *testing.B, parent, engine string) *benchRig {
	dir := filepath.Join(parent, engine)
	d, err := device.OpenDir(dir, device.Options{Engine: engine, Create: true})
	if err != nil {
		b.Fatal(err)
	}
	r := &benchRig{b: b, d: d, rnd: rand.New(rand.NewPCG(1, 2))}
	err = os.Link(filepath.Join(parent, device.EnginePsync, "bench"), filepath.Join(dir, "bench"))
	if err != nil && !errors.Is(err, fs.ErrExist) && engine != device.EnginePsync {
		b.Fatal(err)
	}
	if r.f, err = d.Open("bench"); errors.Is(err, fs.ErrNotExist) {
		r.f, err = r.create()
	}
	if err != nil {
		b.Fatal(err)
	}
	const memBytes = 32 << 20
	r.mem, err = unix.Mmap(-1, 0, memBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		b.Fatal(err)
	}
	if m, ok := d.(device.MemoryRegistrar); ok && os.Getenv("SPILLWAY_BENCH_UNREGISTERED") == "" {
		if _, err := m.RegisterMemory(r.mem); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		if err := errors.Join(r.f.Close(), d.Close(), unix.Munmap(r.mem)); err != nil {
			b.Error(err)
		}
	})
	return r
}

// create writes the file once, so that its space is in its last form.
func (r *benchRig) create() (device.File, error) {
	f, err := r.d.Create("bench", benchFileBytes)
	buf := device.AlignedBuffer(8<<20, 4096)
	for offset := int64(0); offset < benchFileBytes && err == nil; offset += int64(len(buf)) {
		err = device.Do(r.d, &device.Op{Kind: device.Write, File: f, Offset: offset, Bufs: [][]byte{buf}})
	}
	return f, err
}

// ops are depth ops that tell ended their index.
func (r *benchRig) ops(kind device.Kind, sizeBytes, depth int, ended chan<- int) []*device.Op {
	ops := make([]*device.Op, depth)
	for i := range ops {
		ops[i] = &device.Op{Kind: kind, File: r.f, Bufs: [][]byte{r.mem[i*sizeBytes : (i+1)*sizeBytes]}, Done: func(op *device.Op) {
			if op.Err != nil {
				r.b.Error(op.Err)
			}
			ended <- i
		}}
	}
	return ops
}

func (r *benchRig) offset(sizeBytes int) int64 {
	return r.rnd.Int64N(benchFileBytes/int64(sizeBytes)) * int64(sizeBytes)
}

func (r *benchRig) batches(kind device.Kind, sizeBytes, depth, n int) time.Duration {
	ended := make(chan int, depth)
	ops := r.ops(kind, sizeBytes, depth, ended)
	var took time.Duration
	for done := 0; done < n; done += depth {
		if kind == device.Sync { // which needs something to sync
			write := &device.Op{Kind: device.Write, File: r.f, Offset: r.offset(sizeBytes), Bufs: ops[0].Bufs}
			if err := device.Do(r.d, write); err != nil {
				r.b.Fatal(err)
			}
		}
		for _, op := range ops {
			op.Offset = r.offset(sizeBytes)
		}
		start := time.Now()
		r.d.Submit(ops)
		for range ops {
			<-ended
		}
		took += time.Since(start)
	}
	return took
}

func (r *benchRig) each(sizeBytes, depth, n int) time.Duration {
	ended := make(chan int, depth)
	ops := r.ops(device.Read, sizeBytes, depth, ended)
	start := time.Now()
	for i := range ops {
		ops[i].Offset = r.offset(sizeBytes)
		r.d.Submit(ops[i : i+1])
	}
	for range n - depth {
		i := <-ended
		ops[i].Offset = r.offset(sizeBytes)
		r.d.Submit(ops[i : i+1])
	}
	for range ops {
		<-ended
	}
	return time.Since(start)
}

package load

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// TestNoAllocations: an op costs no memory, whatever makes it.
func TestNoAllocations(t *testing.T) {
	zipf := plain(true, 70, 4*kib)
	zipf.Distribution = job.Distribution{Shape: job.Zipf, Parameter: 1.2, Center: -1}
	mixed := plain(true, 0, 4*kib)
	mixed.Blocks[Write].MaxBytes = 64 * kib
	poisson := plain(true, 50, 4*kib)
	poisson.RateIOPS, poisson.Poisson, poisson.Namespaces = [2]int64{1e6, 1e6}, true, 4
	think := plain(false, 100, 4*kib)
	think.ThinkTime, think.ThinkBlocks = time.Microsecond, 4
	chat := &job.Job{Engine: job.EngineStore, Chat: job.Chat{Sessions: 50, Think: 0.01}, Runtime: time.Hour}
	for name, j := range map[string]*job.Job{"zipf": zipf, "mixed lengths": mixed, "poisson": poisson, "think": think, "chat": chat} {
		w, err := New(j, Config{SpaceBytes: 1 << 30, TotalBytes: Endless, BlockBytes: 4096, TokensPerBlock: trace.TokensPerBlock})
		if err != nil {
			t.Fatal(err)
		}
		nowNS, op := int64(0), Op{}
		step := func() {
			switch w.Next(nowNS, &op) {
			case Ready:
				nowNS = max(nowNS, op.IntendedNS) + 100
				w.Done(&op, OK, nowNS)
			case Wait:
				nowNS = max(nowNS+1, op.IntendedNS)
			}
		}
		for range 200_000 { // memory of chats grows until each has been long
			step()
		}
		if n := testing.AllocsPerRun(10_000, step); n != 0 {
			t.Errorf("%s: %.3f allocations an op", name, n)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	zipf := plain(true, 100, 4*kib)
	zipf.Distribution = job.Distribution{Shape: job.Zipf, Parameter: 1.2, Center: -1}
	for name, j := range map[string]*job.Job{"random": plain(true, 100, 4*kib), "sequential": plain(false, 100, 4*kib), "zipf": zipf} {
		b.Run(name, func(b *testing.B) {
			w, err := New(j, Config{SpaceBytes: 1 << 40, TotalBytes: Endless})
			if err != nil {
				b.Fatal(err)
			}
			var op Op
			for b.Loop() {
				w.Next(0, &op)
			}
		})
	}
}

package device_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
)

// TestNull: every op ends whole, memory stays as it was, names are kept.
func TestNull(t *testing.T) {
	for _, o := range []device.Options{{Engine: device.EnginePsync}, {}, {Engine: device.EngineUring, Rings: 2, QueueDepth: 8, QueueOps: 100}} {
		if o.Engine == device.EngineUring {
			wantRing(t)
		}
		d, err := device.NewNull(o)
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.Create("f", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Create("f", 1); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
		if _, err := d.Open("nothing"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := d.WriteFile("state", []byte("kept")); err != nil {
			t.Error(err)
		}
		if data, err := d.ReadFile("state"); err != nil || string(data) != "kept" {
			t.Errorf("%q, %v", data, err)
		}
		if err := d.Rename("state", "z"); err != nil {
			t.Error(err)
		}
		if names, err := d.List(); err != nil || !slices.Equal(names, []string{"f", "z"}) {
			t.Errorf("%q, %v", names, err)
		}
		ops := reads(f, 90, nil)
		for i, op := range ops {
			op.Kind = []device.Kind{device.Read, device.Write}[i%2]
			op.Bufs[0][0], op.Bufs[0][4095] = byte(i), byte(i)
		}
		submitAndWait(d, ops)
		for i, op := range ops {
			if op.Err != nil || op.N != 4096 || op.Bufs[0][0] != byte(i) || op.Bufs[0][4095] != byte(i) || op.DoneAt.Before(op.StartedAt) {
				t.Errorf("op %d: N = %d, %v, bytes %d, %d", i, op.N, op.Err, op.Bufs[0][0], op.Bufs[0][4095])
			}
		}
		for _, op := range []*device.Op{{Kind: device.Sync, File: f}, {Kind: device.Punch, File: f, LengthBytes: 4096}} {
			if err := device.Do(d, op); err != nil || op.N != 0 {
				t.Errorf("kind %d: N = %d, %v", op.Kind, op.N, err)
			}
		}
		if err := device.Do(d, &device.Op{Kind: device.Write, File: f, Offset: 1 << 20, Bufs: ops[0].Bufs}); !errors.Is(err, device.ErrUnaligned) {
			t.Errorf("write past the end: %v", err)
		}
		if rings := device.RingCounts(d).Enters > 0; rings != (o.Engine == device.EngineUring || o.Engine == "" && hasNote(d.Facts(), "rings: 1")) {
			t.Errorf("engine %q: rings in use %v, notes %q", o.Engine, rings, d.Facts().Notes)
		}
		if err := d.Remove("f"); err != nil {
			t.Error(err)
		}
		closeFile(t, f)
		closeDevice(t, d)
		if _, err := d.List(); !errors.Is(err, device.ErrClosed) {
			t.Error(err)
		}
	}
}

// BenchmarkNull is our own cost of an op: queue, system call, reaper or worker,
// Done. ns/op is for one op of a batch.
func BenchmarkNull(b *testing.B) {
	for _, c := range []struct {
		engine string
		rings  int
	}{{device.EnginePsync, 1}, {device.EngineUring, 1}, {device.EngineUring, 2}} {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/rings=%d/batch=%d", c.engine, c.rings, batch), func(b *testing.B) {
				if c.engine == device.EngineUring {
					wantRing(b)
				}
				d, err := device.NewNull(device.Options{Engine: c.engine, Rings: c.rings, QueueDepth: 32})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				f, err := d.Create("f", 1<<20)
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				b.ReportAllocs()
				const goroutines = 2
				ended := make(chan int, goroutines)
				for range goroutines {
					done := make(chan struct{}, batch)
					ops := reads(f, batch, func(*device.Op) { done <- struct{}{} })
					go func() {
						for n := 0; n < b.N/goroutines; n += batch {
							d.Submit(ops)
							for range ops {
								<-done
							}
						}
						ended <- 1
					}()
				}
				for range goroutines {
					<-ended
				}
			})
		}
	}
}

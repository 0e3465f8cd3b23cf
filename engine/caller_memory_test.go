package engine_test

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// TestBadCallerMemory: memory of a caller that cannot be written to costs its
// caller a miss, and nobody else anything.
func TestBadCallerMemory(t *testing.T) {
	const blocks, blockBytes = 20, 8192
	for _, ioengine := range []string{device.EnginePsync, device.EngineUring, device.EngineAuto} {
		t.Run(ioengine, func(t *testing.T) {
			if ioengine == device.EngineUring && device.ProbeUring() != nil {
				t.Skip("no io_uring here")
			}
			s := openTemp(t, t.TempDir(), engine.Options{CapacityBytes: 64 << 20, IOEngine: ioengine})
			ns := namespace(t, s, "a", blockBytes)
			all(t, put(t, ns, engine.PutOptions{}, sequence(0, blocks)...), engine.Stored)
			readOnly, err := unix.Mmap(-1, 0, blocks*blockBytes, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
			must(t, err)
			defer func() { must(t, unix.Munmap(readOnly)) }()
			for _, batch := range []int{1, blocks} { // alone, and together
				for from := 0; from < blocks; from += batch {
					items := make([]engine.GetItem, batch)
					for i := range items {
						items[i] = engine.GetItem{Key: key(from + i), Dst: [][]byte{readOnly[i*blockBytes:][:blockBytes]}}
					}
					must(t, ns.Get(items, engine.GetOptions{}))
					for i := range items {
						if items[i].Status != engine.Miss || !errors.Is(items[i].Err, syscall.EFAULT) {
							t.Fatalf("block %d: %v, %v", from+i, items[i].Status, items[i].Err)
						}
					}
				}
			}
			all(t, get(t, ns, sequence(0, blocks)...), engine.Hit)
			st := s.Stat()
			if c := st.Counters; st.Health != "ok" || c.QuarantinedSlots+c.ReadErrors+c.SickPeriods != 0 {
				t.Errorf("health %s, %+v", st.Health, c)
			}
			mustClose(t, s)
		})
	}
}

package engine

import (
	"errors"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// TestRegisterMemory: blocks come into registered memory as into any other, and a
// device that registers nothing says so.
func TestRegisterMemory(t *testing.T) {
	mem, err := offheap.Make[byte](2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	for _, engine := range []string{device.EngineAuto, device.EnginePsync} {
		t.Run(engine, func(t *testing.T) {
			s, err := Open(Options{Dir: t.TempDir(), CapacityBytes: 256 << 20, IOEngine: engine, AnyFileSystem: true, BufferedIO: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			release, err := s.RegisterMemory(mem.Slice())
			switch {
			case err == nil:
				defer release()
			case !errors.Is(err, errors.ErrUnsupported):
				t.Fatal(err)
			}
			if engine == device.EnginePsync && err == nil {
				t.Error("psync registered memory")
			}
			ns, err := s.Namespace(Descriptor{Name: "n", BlockBytes: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			src, dst := mem.Slice()[:64<<10], mem.Slice()[1<<20:][:64<<10]
			for i := range src {
				src[i] = byte(i * 7)
			}
			put := []PutItem{{Key: Key{Bytes: []byte("k")}, Src: [][]byte{src}}}
			get := []GetItem{{Key: Key{Bytes: []byte("k")}, Dst: [][]byte{dst}}}
			if err := errors.Join(ns.Put(put, PutOptions{}), ns.Get(get, GetOptions{})); err != nil || get[0].Status != Hit {
				t.Fatalf("%v, %v %v", err, get[0].Status, get[0].Err)
			}
			if string(src) != string(dst) {
				t.Error("other bytes")
			}
		})
	}
}

package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// openTemp opens a store in dir on the real file system.
func openTemp(t testing.TB, dir string, o engine.Options) *engine.Store {
	t.Helper()
	o.Dir, o.BufferedIO, o.AnyFileSystem = dir, true, true
	s, err := engine.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func key(n int) engine.Key {
	return engine.Key{Bytes: binary.BigEndian.AppendUint64([]byte("block-"), uint64(n))}
}

// content is what block n holds: random bytes from the seed n, so that any
// mix-up shows.
func content(n, nBytes int) []byte {
	b := device.AlignedBuffer(nBytes, 4096)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(n))
	rand.NewChaCha8(seed).Read(b) // never fails
	return b
}

func put(t testing.TB, ns *engine.Namespace, o engine.PutOptions, blocks ...int) []engine.Status {
	t.Helper()
	size := ns.Descriptor().BlockBytes
	items := make([]engine.PutItem, len(blocks))
	for i, n := range blocks {
		items[i] = engine.PutItem{Key: key(n), Src: [][]byte{content(n, size)}, Depth: uint32(i)}
	}
	if err := ns.Put(items, o); err != nil {
		t.Fatal(err)
	}
	out := make([]engine.Status, len(items))
	for i := range items {
		out[i] = items[i].Status
		if items[i].Err != nil {
			t.Logf("block %d: %v: %v", blocks[i], items[i].Status, items[i].Err)
		}
	}
	return out
}

// get reads blocks and checks every hit.
func get(t testing.TB, ns *engine.Namespace, blocks ...int) []engine.Status {
	t.Helper()
	size := ns.Descriptor().BlockBytes
	items := make([]engine.GetItem, len(blocks))
	for i, n := range blocks {
		items[i] = engine.GetItem{Key: key(n), Dst: [][]byte{device.AlignedBuffer(size, 4096)}}
	}
	if err := ns.Get(items, engine.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	out := make([]engine.Status, len(items))
	for i, n := range blocks {
		out[i] = items[i].Status
		if out[i] == engine.Hit && !bytes.Equal(items[i].Dst[0], content(n, size)) {
			t.Fatalf("block %d: wrong bytes", n)
		}
	}
	return out
}

// all wants each status to be one of want.
func all(t testing.TB, got []engine.Status, want ...engine.Status) {
	t.Helper()
	for i, s := range got {
		if !slices.Contains(want, s) {
			t.Fatalf("item %d: %v, want %v (all: %v)", i, s, want, got)
		}
	}
}

func sequence(from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i
	}
	return out
}

func TestPutGetReopen(t *testing.T) {
	for _, blockBytes := range []int{4096, 65536, 1124352, 1000001} {
		t.Run(fmt.Sprint(blockBytes), func(t *testing.T) {
			dir := t.TempDir()
			s := openTemp(t, dir, engine.Options{CapacityBytes: 256 << 20})
			ns, err := s.Namespace(engine.Descriptor{Name: "default", BlockBytes: blockBytes})
			if err != nil {
				t.Fatal(err)
			}
			blocks := sequence(0, 40)
			all(t, get(t, ns, blocks...), engine.Miss)
			all(t, put(t, ns, engine.PutOptions{}, blocks...), engine.Stored)
			all(t, put(t, ns, engine.PutOptions{Durability: engine.Durable}, blocks...), engine.Present)
			all(t, get(t, ns, blocks...), engine.Hit)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTemp(t, dir, engine.Options{})
			if ns, err = s.FindNamespace("default"); err != nil {
				t.Fatal(err)
			}
			all(t, get(t, ns, blocks...), engine.Hit)
			if n, err := ns.Delete([]engine.Key{key(3)}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			all(t, get(t, ns, 3), engine.Miss)
			count := 0
			if err := ns.List(func(engine.Entry) bool { count++; return true }); err != nil || count != 39 {
				t.Fatal(count, err)
			}
			if err := ns.Drop(); err != nil {
				t.Fatal(err)
			}
			all(t, get(t, ns, blocks...), engine.Miss)
			all(t, put(t, ns, engine.PutOptions{}, 1, 2), engine.Stored)
			st := s.Stat()
			if st.Counters.TornBlocks+st.Counters.LostBlocks != 0 || st.FramesInUse != 0 {
				t.Fatalf("%+v", st)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

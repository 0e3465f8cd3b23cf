package gpucheck

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/gpu"
)

const blockBytes = 2 * mib

// pipeline moves blocks from a store through frames to the GPU.
type pipeline struct {
	ns     *engine.Namespace
	arena  *arena.Arena
	stream gpu.Stream
	target gpu.Pointer
	batch  int // blocks read at once
}

func key(i int) engine.Key {
	return engine.Key{Bytes: binary.BigEndian.AppendUint64(nil, uint64(i))}
}

// load reads n blocks from the first on, queues their copies, and gives their
// frames with the event after which they may go.
func (p *pipeline) load(first, n int) ([]arena.Frame, gpu.Event, error) {
	gets, frames, copies := make([]engine.GetItem, n), make([]arena.Frame, n), make([]gpu.Copy, n)
	for i := range gets {
		var err error
		if frames[i], err = p.arena.Get(blockBytes); err != nil {
			return nil, nil, err
		}
		mem := frames[i].Bytes()
		gets[i] = engine.GetItem{Key: key(first + i), Dst: [][]byte{mem}}
		copies[i] = gpu.Copy{Device: p.target + gpu.Pointer((first+i)*blockBytes), Host: mem}
	}
	if err := p.ns.Get(gets, engine.GetOptions{}); err != nil {
		return nil, nil, err
	}
	for _, g := range gets {
		if g.Status != engine.Hit {
			return nil, nil, errors.Join(errors.New(g.Status.String()), g.Err)
		}
	}
	if err := p.stream.ToDevice(copies); err != nil {
		return nil, nil, err
	}
	e, err := p.stream.Record()
	return frames, e, err
}

// TestPipeline: blocks put from an arena come back from the drive through its
// frames to the GPU, and are the same there.
func TestPipeline(t *testing.T) {
	d, _ := openDevice(t)
	a := registered(t, d)
	total := gib
	if !real {
		total = 16 * mib
	}
	s := openStore(t, int64(3*total)+256*mib)
	if _, err := a.Register(arena.RegistrarFunc(s.RegisterMemory), arena.UringPieceBytes); err != nil {
		t.Logf("INFO the store does not know the arena: %v", err)
	}
	ns, err := s.Namespace(engine.Descriptor{Name: "gpucheck", BlockBytes: blockBytes})
	if err != nil {
		t.Fatal(err)
	}
	want := frame(t, a, total).Bytes()
	_, _ = rand.NewChaCha8([32]byte{1}).Read(want) // never fails
	start := time.Now()
	for first := 0; first < total/blockBytes; first += 8 {
		var puts []engine.PutItem
		for i := range min(8, total/blockBytes-first) {
			puts = append(puts, engine.PutItem{Key: key(first + i), Src: [][]byte{want[(first+i)*blockBytes:][:blockBytes]}})
		}
		if err := ns.Put(puts, engine.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, put := range puts {
			if put.Status != engine.Stored {
				t.Fatal(put.Status, put.Err)
			}
		}
	}
	report(t, finding{"puts from the arena", float64(total) / time.Since(start).Seconds() / 1e9, "GB/s", ""})

	p := &pipeline{ns: ns, arena: a, stream: stream(t, d), target: alloc(t, d, uint64(total)), batch: 4}
	for range 2 {
		start = time.Now()
		if err := p.loadAll(total / blockBytes); err != nil {
			t.Fatal(err)
		}
		report(t, finding{"drive to arena to GPU", float64(total) / time.Since(start).Seconds() / 1e9, "GB/s", "each block proven"})
	}
	back := frame(t, a, total).Bytes()
	clear(back)
	if err := errors.Join(p.stream.ToHost([]gpu.Copy{{Device: p.target, Host: back}}), finish(p.stream)); err != nil {
		t.Fatal(err)
	}
	same(t, "drive to arena to GPU to host", back, want)
	if !t.Failed() {
		report(t, finding{Name: "the bytes on the GPU", Value: float64(total), Unit: "bytes", Text: "are those that were put"})
	}
}

// loadAll keeps two batches under way: one is read while the other is copied.
func (p *pipeline) loadAll(n int) error {
	var before []arena.Frame
	var done gpu.Event
	end := func() error {
		if done == nil {
			return nil
		}
		err := errors.Join(done.Wait(context.Background()), done.Close())
		for _, f := range before {
			f.Release()
		}
		before, done = nil, nil
		return err
	}
	for first := 0; first < n; first += p.batch {
		frames, e, err := p.load(first, min(p.batch, n-first))
		if err != nil {
			return errors.Join(err, end())
		}
		if err := end(); err != nil {
			return err
		}
		before, done = frames, e
	}
	return end()
}

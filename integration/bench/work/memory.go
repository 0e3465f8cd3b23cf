package work

import (
	"errors"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// buffers are n buffers of a block each: in one piece of memory on huge pages
// that is registered with the store (nil is none), as an arena is, or with SmallPages on the Go
// heap.
func (j *Job) buffers(s *engine.Store, n int) (all [][]byte, free func(), err error) {
	all = make([][]byte, n)
	if j.SmallPages {
		for i := range all {
			all[i] = device.AlignedBuffer(j.BlockBytes, pageBytes)
		}
		return all, func() {}, nil
	}
	arena, err := offheap.Make[byte](max(n*j.BlockBytes, hugePageBytes))
	if err != nil {
		return nil, nil, err
	}
	clear(arena.Slice()) // the pages are there before they are pinned
	release := func() {}
	if s != nil {
		release, err = s.RegisterMemory(arena.Slice())
	}
	if errors.Is(err, errors.ErrUnsupported) {
		release = func() {}
	} else if err != nil {
		return nil, nil, err
	}
	for i := range all {
		all[i] = arena.Slice()[i*j.BlockBytes:][:j.BlockBytes:j.BlockBytes]
	}
	return all, func() { release(); arena.Free() }, nil
}

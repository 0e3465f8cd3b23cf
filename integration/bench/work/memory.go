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
	mem, unmap, err := j.pages(max(n*j.BlockBytes, hugePageBytes))
	if err != nil {
		return nil, nil, err
	}
	clear(mem) // the pages are there before they are pinned
	release := func() {}
	if s != nil {
		release, err = s.RegisterMemory(mem)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		release = func() {}
	} else if err != nil {
		return nil, nil, err
	}
	for i := range all {
		all[i] = mem[i*j.BlockBytes:][:j.BlockBytes:j.BlockBytes]
	}
	return all, func() { release(); unmap() }, nil
}

// pages is memory of its own, on huge pages, or with SharedPages that of a memfd.
func (j *Job) pages(nBytes int) (mem []byte, unmap func(), err error) {
	if j.SharedPages {
		return sharedPages(nBytes)
	}
	arena, err := offheap.Make[byte](nBytes)
	if err != nil {
		return nil, nil, err
	}
	return arena.Slice(), arena.Free, nil
}

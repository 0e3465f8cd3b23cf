package engine

import (
	"github.com/spillway-kv/spillway/engine/device"
)

// prewriteBytes is how much one pre-write covers.
const prewriteBytes = 1 << 20

// prewrite writes zeros over the slots of a new segment, ahead of need: the
// first write into an extent that is only allocated makes the file system
// change its journal and takes several times as long. One write is in flight at
// a time, and as soon as the namespace, or another that waits for a segment, runs
// out of free slots the rest is left to the blocks themselves. An error is left to them too.
func (s *Store) prewrite(ns *Namespace, f device.File, h *segmentHeader) {
	if !s.facts.Preallocate || !s.facts.Direct {
		return // created by writing, or not ours to order
	}
	if s.keep.zeros == nil {
		s.keep.zeros = device.AlignedBuffer(prewriteBytes, headerBytes)
	}
	zeros := s.keep.zeros
	for offset, end := int64(headerBytes), h.fileBytes(); offset < end; {
		n := min(int64(len(zeros)), end-offset)
		op := device.Op{Kind: device.Write, File: f, Offset: offset, Bufs: [][]byte{zeros[:n]}}
		if err := device.Do(s.dev, &op); err != nil {
			s.log.Debug("pre-writing a segment stopped", "segment", h.number, "cause", err)
			return
		}
		offset += n
		s.mu.Lock()
		urgent := s.closing || ns.incarnation != h.incarnation || ns.shortLocked()
		for other := range s.keep.want {
			urgent = urgent || other.shortLocked()
		}
		s.mu.Unlock()
		if urgent {
			return
		}
	}
}

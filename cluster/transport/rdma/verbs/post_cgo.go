//go:build verbs && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

var errFresh = errors.New("the queue pair is not connected")

// PostReceives makes room for writes with immediate.
func (q *pair) PostReceives(n int) error {
	if n < 1 {
		panic(fmt.Sprintf("verbs: PostReceives(%d)", n))
	}
	r := &q.receives
	r.postMu.Lock()
	defer r.postMu.Unlock()
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.usableLocked(); err != nil {
		return err
	}
	if r.posted.Add(int64(n)) > int64(q.room.Receives) {
		r.posted.Add(-int64(n))
		return fabric.ErrFull
	}
	if rc := C.sv_post_receives(q.p, C.uint32_t(n)); rc != 0 {
		// Some may be posted: they stay counted, and the queue pair is to be given up.
		return fmt.Errorf("post %d receives: %w", n, errno(int(rc)))
	}
	return nil
}

// PostWrites posts a list.
func (q *pair) PostWrites(id uint64, list []fabric.Write) error {
	if len(list) == 0 {
		panic("verbs: PostWrites of nothing")
	}
	s := &q.sends
	s.postMu.Lock()
	defer s.postMu.Unlock()
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.state == fresh {
		return errFresh
	}
	if err := q.usableLocked(); err != nil {
		return err
	}
	if len(list) > q.room.Sends {
		return fabric.ErrFull
	}
	for i := range list {
		if len(list[i].Inline) > C.SV_INLINE_BYTES {
			return fmt.Errorf("write %d bytes inline: %d are the most", len(list[i].Inline), C.SV_INLINE_BYTES)
		}
		fill(&s.writes[i], &list[i])
	}
	number, ok := s.push(id, len(list))
	if !ok {
		return fabric.ErrFull
	}
	var posted C.int
	rc := C.sv_post_writes(q.p, &s.writes[0], C.uint32_t(len(list)), C.uint64_t(number), &posted)
	switch {
	case rc == 0:
		return nil
	case posted == 0:
		s.pop()
		return fmt.Errorf("post %d writes: %w", len(list), errno(int(rc)))
	}
	// Some of the list are posted and cannot be taken back: what of them has not begun does
	// not. If all had, there is no completion.
	C.sv_pair_fail(q.p)
	return fmt.Errorf("post %d writes, of which some are: %w", len(list), errno(int(rc)))
}

// fill makes a write as C has it.
func fill(c *C.struct_sv_write, w *fabric.Write) {
	c.source, c.source_key = C.uint64_t(w.Source), C.uint32_t(w.SourceKey)
	c.target, c.target_key = C.uint64_t(w.Target), C.uint32_t(w.TargetKey)
	c.bytes, c.immediate = C.uint32_t(w.Bytes), C.uint32_t(w.Immediate)
	c.notify, c.is_inline = 0, 0
	if w.Notify {
		c.notify = 1
	}
	if w.Inline != nil {
		c.is_inline, c.bytes = 1, C.uint32_t(len(w.Inline))
		for i, b := range w.Inline {
			c.data[i] = C.uint8_t(b)
		}
	}
}

package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/table"
)

// proveBatch and proveBytes bound the suspect blocks that a put proves at once; of
// larger ones it is one.
const (
	proveBatch = 8
	proveBytes = 16 << 20
)

// noteSuspects reads the ranges of positions that unclean stops left unsynced,
// adds the one of this open, and syncs the segments, so that what is on the
// medium now stays there.
func (s *Store) noteSuspects(dataSynced, last uint64) error {
	err := s.index.scan([]byte{prefixSuspect}, func(key, value []byte) error {
		if len(key) != 9 || len(value) != 8 {
			return fmt.Errorf("%w: suspect range with a key of %d bytes", ErrCorrupt, len(key))
		}
		s.suspects = append(s.suspects, suspectRange{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(value)})
		return nil
	})
	if err != nil {
		return err
	}
	synced, _, err := s.index.number(keyDataSynced)
	if err != nil {
		return err
	}
	if dataSynced = max(dataSynced, synced); dataSynced >= last {
		return nil
	}
	var files []device.File
	for _, g := range s.segments {
		files = append(files, g.file)
	}
	if err := s.syncFiles(files); err != nil {
		return fmt.Errorf("sync after an unclean stop: %w", err)
	}
	r := suspectRange{from: dataSynced, to: last}
	if n := len(s.suspects); n >= suspectRangesMax { // widen the newest
		r.from = min(r.from, s.suspects[n-1].from)
	}
	s.suspects = append(s.suspects, r)
	b := s.index.db.NewBatch()
	defer b.Close()
	return errors.Join(
		b.Set(binary.BigEndian.AppendUint64([]byte{prefixSuspect}, r.from), binary.BigEndian.AppendUint64(nil, r.to), nil),
		setNumber(b, keyDataSynced, last),
		b.Commit(pebble.NoSync))
}

// proveSuspects reads the present blocks of a put that an unclean stop may have
// cost their bytes, before anybody is told that they are there: what is lost
// leaves the store and is stored anew. What the deadline or a full queue keeps
// from being proven is answered Late or Busy.
func (b *putBatch) proveSuspects() {
	for from := 0; from < len(b.items); {
		read, next := b.suspectsFrom(from)
		if read == nil {
			return
		}
		from = next
		read.run()
		b.settleSuspects(read)
	}
}

// suspectsFrom pins the next unproven blocks, from an item on; nil if there are
// none.
func (b *putBatch) suspectsFrom(from int) (read *suspectRead, next int) {
	s, ns := b.s, b.ns
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.suspects) == 0 || ns.incarnation != b.incarnation {
		return nil, 0
	}
	read = &suspectRead{}
	var refs []table.Ref
	most := min(proveBatch, max(proveBytes/ns.descriptor.BlockBytes, 1))
	for ; from < len(b.items) && len(refs) < most; from++ {
		ref := s.table.Find(b.ids[from])
		if ref == 0 {
			continue
		}
		if rec := s.table.At(ref); rec.State() == statePresent && s.suspectLocked(rec.Position()) && !s.proven[rec.Position()] {
			refs = append(refs, ref)
			read.of = append(read.of, from)
		}
	}
	if len(refs) == 0 {
		return nil, 0
	}
	read.readBatch = readBatch{s: s, ns: ns, items: make([]GetItem, len(refs)), reads: make([]readOp, 0, len(refs)),
		opts: GetOptions{Deadline: b.opts.Deadline, Done: b.opts.Done, NoTouch: true}, done: make(chan struct{})}
	read.pending.Store(int64(len(refs)))
	for i := len(refs) - 1; i >= 0; i-- {
		read.items[i].Dst = [][]byte{device.AlignedBuffer(ns.descriptor.BlockBytes, headerBytes)}
		read.pinLocked(i, s.table.At(refs[i]).ID, refs[i])
	}
	return read, from
}

// suspectRead is a batch of reads on behalf of a put.
type suspectRead struct {
	readBatch
	of []int // the put's item of each read
}

// settleSuspects notes what was proven and answers what could not be.
func (b *putBatch) settleSuspects(read *suspectRead) {
	s := b.s
	unproven := map[int]Status{}
	s.mu.Lock()
	for k := range read.reads {
		r := &read.reads[k]
		item := read.of[r.index]
		switch read.items[r.index].Status {
		case Hit:
			s.proven[r.position] = true
		case Late:
			unproven[item] = Late
		default:
			if rec := s.table.Peek(r.ref); rec != nil && rec.State() == statePresent && rec.Position() == r.position && s.monitor.sick == nil {
				unproven[item] = Busy
			}
		}
	}
	s.mu.Unlock()
	if len(unproven) == 0 {
		return
	}
	rest := b.todo[:0]
	for _, i := range b.todo {
		status, ok := unproven[i]
		if !ok {
			rest = append(rest, i)
			continue
		}
		b.items[i].Status = status
		if status == Late {
			b.opts.Released(i)
		}
	}
	b.todo = rest
}

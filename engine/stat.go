package engine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/evict"
)

// Stat returns a snapshot of the store.
func (s *Store) Stat() Stat {
	indexBytes := s.index.diskBytes()
	logBytes := s.wal.DiskBytes()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stat{StoreID: hex.EncodeToString(s.id[:]), Dir: s.opts.Dir, Health: "ok",
		Device: s.facts.Device, FileSystem: s.facts.FileSystem, DirectIO: s.facts.Direct,
		CapacityBytes: s.layout.capacityBytes, SegmentBytes: s.layout.segmentBytes,
		Segments: len(s.segments), Blocks: s.table.Len(), IndexBytes: s.table.ResidentBytes(),
		LogBytes: logBytes, FramesInUse: s.frames.InUse(), Leases: len(s.leases.byID), Counters: s.counters}
	if s.health != nil {
		st.Health, st.HealthCause = "read-only", s.health.Error()
	} else if s.monitor.sick != nil {
		st.Health, st.HealthCause = "sick", s.monitor.sick.Error()
	}
	st.UsedBytes = indexBytes + logBytes
	for _, g := range s.segments {
		st.UsedBytes += g.header.fileBytes()
	}
	for _, ns := range s.namespaces {
		n := ns.statLocked()
		st.Slots += n.Slots
		st.LeasedBlocks += ns.sums.leased
		st.Namespaces = append(st.Namespaces, n)
	}
	return st
}

// Health is nil, or why the store serves less than usual: ErrSick, and what it has is
// missed until it is well; or ErrReadOnly, and puts are dropped until it is opened anew.
func (s *Store) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.monitor.sick != nil {
		return s.monitor.sick
	}
	if s.health != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, s.health)
	}
	return nil
}

// Stat returns the namespace's part of the snapshot.
func (ns *Namespace) Stat() NamespaceStat {
	ns.s.mu.Lock()
	defer ns.s.mu.Unlock()
	return ns.statLocked()
}

func (ns *Namespace) statLocked() NamespaceStat {
	return NamespaceStat{Name: ns.descriptor.Name, ID: ns.ID(), Incarnation: uint64(ns.incarnation),
		BlockBytes: ns.descriptor.BlockBytes, SlotBytes: int(ns.slotBytes), Segments: len(ns.segments) + len(ns.leaving),
		Slots: ns.blocksMaxLocked(), Blocks: ns.policy.Len(), QuotaBytes: ns.quotaBytes}
}

// listChunk bounds the entries looked up under one hold of the lock.
const listChunk = 256

// List calls f for the present blocks of the namespace in the order of their
// IDs, until f returns false. It reads the durable index, so blocks put in the
// last moments may be missing, and never blocks puts or gets for long. f may
// call the store, but not close it.
func (ns *Namespace) List(f func(Entry) bool) error { return ns.ListFrom(BlockID{}, f) }

// ListFrom is List for the blocks whose ID is not below from, bytes compared in order.
func (ns *Namespace) ListFrom(from BlockID, f func(Entry) bool) error {
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if s.index.trouble.failed.Load() {
		return errIndexFailed
	}
	s.mu.Lock()
	prefix := dropPrefix(ns.number, ns.incarnation)
	s.mu.Unlock()
	var chunk []indexEntry
	stopped := false
	flush := func() {
		for _, e := range ns.presentOf(chunk) {
			if !stopped && !f(e) {
				stopped = true
			}
		}
		chunk = chunk[:0]
	}
	err := s.index.scanRange(append(prefix, from[:]...), prefixEnd(prefix), func(key, value []byte) error {
		e, err := decodeIndexEntry(key, value)
		if err != nil {
			return nil // reported at the next open, where it is dropped
		}
		e.key = append([]byte(nil), e.key...)
		if chunk = append(chunk, e); len(chunk) == listChunk {
			flush()
		}
		if stopped {
			return errStopScan
		}
		return nil
	})
	if errors.Is(err, errStopScan) {
		return nil
	}
	flush()
	return err
}

// presentOf keeps the entries whose block is present right now.
func (ns *Namespace) presentOf(chunk []indexEntry) (entries []Entry) {
	s := ns.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range chunk {
		ref := s.table.Find(e.id)
		if ref == 0 {
			continue
		}
		rec := s.table.At(ref)
		if rec.State() != statePresent || rec.Position() != e.position {
			continue
		}
		var idle time.Duration
		past := ns.policy.Past(evict.Handle(ref))
		if past.References > 0 {
			idle = max(time.Since(s.started)-time.Duration(past.UsedNS), 1)
		}
		entries = append(entries, Entry{ID: idBytes(e.id), Key: Key{Group: e.group, Bytes: e.key}, Depth: e.depth,
			Importance: rec.Importance, Uses: past.References, Idle: idle, Position: e.position, Place: e.place, BlockBytes: ns.descriptor.BlockBytes})
	}
	return entries
}

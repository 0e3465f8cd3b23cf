package engine

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/engine/evict"
)

// Namespace is a model's private key space. Handles stay valid after Drop:
// the space is then empty and goes on under its next incarnation.
type Namespace struct {
	s          *Store
	number     uint32
	nsID       [32]byte
	descriptor Descriptor
	slotBytes  uint32
	slots      uint32 // per segment

	// Guarded by Store.mu.
	incarnation   uint32
	dropping      bool
	quotaBytes    int64
	segments      []*segment
	sums          slotSums   // of segments
	leaving       []*segment // those that go; not among segments any more
	coming        int        // segments being made
	open          *segment   // the one that takes new blocks
	policy        evict.Policy
	passed        int // victims in a row that could not go
	freeing       []freeItem
	freeingPlaces []Place // parallel to freeing
	dropOwed      uint32  // the log still owes the record that incarnations up to here are dropped; 0: nothing
}

func (s *Store) newNamespace(r namespaceRecord) (*Namespace, error) {
	id, err := r.Descriptor.ID()
	if err != nil {
		return nil, err
	}
	ns := &Namespace{s: s, number: r.Number, nsID: id, descriptor: r.Descriptor,
		incarnation: r.Incarnation, quotaBytes: r.QuotaBytes}
	ns.slotBytes, ns.slots = s.layout.shape(r.Descriptor.BlockBytes)
	return ns, nil
}

// Namespace opens the namespace of this descriptor, creating it if the store
// has none. A block size that the capacity or the index memory cannot serve is
// refused.
func (s *Store) Namespace(d Descriptor) (*Namespace, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	id, err := d.ID()
	if err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	s.keep.config.Lock()
	defer s.keep.config.Unlock()
	s.mu.Lock()
	for _, ns := range s.namespaces {
		if ns.nsID == id {
			s.mu.Unlock()
			return ns, nil
		}
	}
	next := s.file
	s.mu.Unlock()

	if err := s.checkNamespace(d, len(next.Namespaces)); err != nil {
		return nil, err
	}
	r := namespaceRecord{Number: uint32(len(next.Namespaces) + 1), Incarnation: 1, Descriptor: d}
	ns, err := s.newNamespace(r)
	if err != nil {
		return nil, err
	}
	next.Namespaces = append(next.Namespaces[:len(next.Namespaces):len(next.Namespaces)], r)
	if err := writeStoreFile(s.dev, &next); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.file = next
	s.addNamespaceLocked(ns)
	s.mu.Unlock()
	return ns, nil
}

func (s *Store) addNamespaceLocked(ns *Namespace) {
	ns.policy = s.policies.New()
	s.namespaces = append(s.namespaces, ns)
}

func (s *Store) checkNamespace(d Descriptor, have int) error {
	if have >= namespacesMax {
		return fmt.Errorf("%w: the store has %d namespaces, the most it can keep", ErrConfig, have)
	}
	if err := s.layout.checkFits(d.BlockBytes); err != nil {
		return err
	}
	return s.checkMemory(d)
}

// checkMemory refuses blocks that the bounds of memory cannot serve. Those
// bounds may be others at each Open.
func (s *Store) checkMemory(d Descriptor) error {
	if int64(d.BlockBytes) > s.frames.TotalBytes()/2 {
		return fmt.Errorf("%w: a block of %d bytes of namespace %q needs at least twice that in frame memory; Options.FrameBytes is %d",
			ErrConfig, d.BlockBytes, d.Name, s.frames.TotalBytes())
	}
	slotBytes, slots := s.layout.shape(d.BlockBytes)
	most := s.layout.segmentBudgetBytes() / segmentCostBytes(slotBytes, slots) * int64(slots)
	if most > int64(s.table.Max()) {
		return fmt.Errorf("%w: %d blocks of %d bytes fit the capacity for namespace %q, but their index would exceed Options.IndexMemoryMaxBytes %d (%d blocks): raise it, or use larger blocks",
			ErrConfig, most, d.BlockBytes, d.Name, s.opts.IndexMemoryMaxBytes, s.table.Max())
	}
	return nil
}

// FindNamespace returns the namespace with this name, or whose ID begins with
// it (at least 6 hex digits). ErrNotFound if none, ErrConfig if several match.
func (s *Store) FindNamespace(nameOrID string) (*Namespace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Namespace
	for _, ns := range s.namespaces {
		if ns.descriptor.Name == nameOrID ||
			len(nameOrID) >= 6 && strings.HasPrefix(hex.EncodeToString(ns.nsID[:]), nameOrID) {
			found = append(found, ns)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w: %q", ErrNotFound, nameOrID)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%w: %d namespaces match %q; use the beginning of an ID from the listing", ErrConfig, len(found), nameOrID)
}

// NamespaceOf is the namespace of this ID; nil if the store has none.
func (s *Store) NamespaceOf(id [32]byte) *Namespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ns := range s.namespaces {
		if ns.nsID == id {
			return ns
		}
	}
	return nil
}

// Descriptor is the one the namespace was opened with.
func (ns *Namespace) Descriptor() Descriptor { return ns.descriptor }

// ID is the namespace ID in hex.
func (ns *Namespace) ID() string { return hex.EncodeToString(ns.nsID[:]) }

// SetQuota bounds the bytes of the namespace's segments; 0 removes the bound.
// A namespace above its new quota gives up its coldest whole segments; the
// call returns when they are gone. Those with a block under lease go within a
// second after the lease has ended. The quota is durable.
func (ns *Namespace) SetQuota(bytes int64) error {
	s := ns.s
	least := segmentFileBytes(ns.slotBytes, ns.slots)
	if bytes < 0 || bytes > 0 && bytes < least {
		return fmt.Errorf("%w: quota %d of namespace %q must be 0 (none) or at least one segment, %d bytes",
			ErrConfig, bytes, ns.descriptor.Name, least)
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.keep.config.Lock()
	defer s.keep.config.Unlock()
	next := s.fileCopy()
	next.Namespaces[ns.number-1].QuotaBytes = bytes
	if err := writeStoreFile(s.dev, &next); err != nil {
		return err
	}
	s.mu.Lock()
	s.file = next
	ns.quotaBytes = bytes
	s.mu.Unlock()
	ns.trimToQuota()
	return s.unlinkRemovals()
}

// fileCopy is a copy of the store file's content that may be changed.
func (s *Store) fileCopy() storeFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.file
	next.Namespaces = append([]namespaceRecord(nil), s.file.Namespaces...)
	return next
}

// wakeUnlock ends a locked section in which waiters' conditions changed.
func (s *Store) wakeUnlock() {
	s.wakeLocked()
	s.mu.Unlock()
}

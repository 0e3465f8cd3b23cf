package engine

import (
	"fmt"
	"math"
)

// Drop erases the namespace: when it returns, the raised incarnation is
// durable, so no block put before can ever be answered again, and the segment
// files are unlinked. Calls in flight answer misses or ErrGone.
func (ns *Namespace) Drop() error {
	return ns.raise(func(current uint32) uint32 { return current + 1 })
}

// RaiseTo is Drop to an incarnation of the caller's choice: everything of those below it
// is erased, and the namespace goes on under it. Where it is as high already nothing
// changes. The highest that can be is IncarnationMax.
func (ns *Namespace) RaiseTo(incarnation uint32) error {
	if ns.raisedTo(incarnation) {
		return nil // without a wait for another's change of the store file
	}
	return ns.raise(func(uint32) uint32 { return incarnation })
}

// raisedTo reports whether an incarnation, or a higher one, is reached, durably.
func (ns *Namespace) raisedTo(incarnation uint32) bool {
	ns.s.mu.Lock()
	defer ns.s.mu.Unlock()
	return incarnation <= ns.incarnation && !ns.dropping
}

// IncarnationMax is the highest incarnation: a namespace that has it cannot be dropped.
const IncarnationMax = math.MaxUint32 - 1

// raise raises the incarnation to what to says, told the current one.
func (ns *Namespace) raise(to func(current uint32) uint32) error {
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.keep.config.Lock()
	defer s.keep.config.Unlock()

	incarnation, err := ns.beginDrop(to)
	if err != nil || incarnation == 0 {
		return err
	}
	next := s.fileCopy()
	next.Namespaces[ns.number-1].Incarnation = incarnation
	if err := writeStoreFile(s.dev, &next); err != nil {
		// Nobody knows which incarnation is on disk. Nothing of the old one is
		// served any more; writing under the new one waits for a healthy store.
		s.fail(fmt.Errorf("drop of namespace %q: %w", ns.descriptor.Name, err))
		return err
	}
	ns.endDrop(next)
	return s.unlinkRemovals()
}

// beginDrop makes the namespace empty and closed to puts. From the first moment on
// nothing of it is answered; its blocks go piece by piece. It returns the new incarnation,
// 0 if the namespace is there already. A drop whose outcome on disk is not known is
// taken up again.
func (ns *Namespace) beginDrop(to func(current uint32) uint32) (incarnation uint32, err error) {
	s := ns.s
	s.mu.Lock()
	defer s.mu.Unlock()
	incarnation = to(ns.incarnation)
	if incarnation > IncarnationMax {
		return 0, fmt.Errorf("%w: incarnation %d of namespace %q, the highest is %d", ErrConfig, incarnation, ns.descriptor.Name, uint32(IncarnationMax))
	}
	if incarnation <= ns.incarnation && !ns.dropping {
		return 0, nil
	}
	ns.dropping = true
	ns.incarnation = max(incarnation, ns.incarnation)
	ns.freeing, ns.freeingPlaces = nil, nil
	for len(ns.segments) > 0 {
		s.leaveLocked(ns.segments[len(ns.segments)-1])
	}
	ns.awaitLeavingLocked()
	return ns.incarnation, nil
}

// endDrop opens the namespace under the incarnation that is now on disk, with a
// policy that knows nothing of the old one.
func (ns *Namespace) endDrop(file storeFile) {
	s := ns.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = file
	ns.dropping = false
	ns.policy = s.policies.New()
	ns.dropOwed = ns.incarnation - 1
	if err := ns.payDropLocked(); err != nil {
		s.log.Debug("the record of a drop waits until the log has room", "namespace", ns.descriptor.Name, "cause", err)
	}
	s.wakeLocked()
}

// payDropLocked logs the drop that the log had no room for, before any put of the next
// incarnation: whoever watches events would else take such a block for a dropped one. The
// record only cleans the index and tells the watchers; the store file is what counts.
func (ns *Namespace) payDropLocked() error {
	if ns.dropOwed == 0 {
		return nil
	}
	if _, err := ns.s.appendLocked(appendDrop(nil, ns.number, ns.dropOwed), false); err != nil {
		return err
	}
	ns.dropOwed = 0
	return nil
}

package node

import (
	"errors"
	"fmt"
	"time"
)

// Update takes other options for a node that serves: tokens and users, namespace
// rules, bounds, patience and the put queues. Stores, Memory, Pool, PeerFrameBytes, Prefetch, Server, Logger,
// KeepRegionsUnpinned and InOrder stay as they are. Bounds and tokens hold for connections and
// namespaces opened from now on, everything else at once.
//
// An error that matches ErrOptions has changed nothing. Any other is that of a quota
// that a store refused; all else holds.
func (n *Node) Update(o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o.setDefaults()
	n.opening.Lock() // no space is opened by the old rules meanwhile
	defer n.opening.Unlock()
	before := n.options.Load()
	o.Stores, o.Memory, o.Prefetch, o.Server, o.Logger = before.Stores, before.Memory, before.Prefetch, before.Server, before.Logger
	o.Pool, o.PeerFrameBytes = before.Pool, before.PeerFrameBytes
	o.KeepRegionsUnpinned, o.InOrder = before.KeepRegionsUnpinned, before.InOrder
	n.options.Store(&o)
	for _, d := range n.drives {
		d.setBounds(o.PutQueueBytes, o.PutQueueTime)
		if o.Admission != before.Admission {
			d.setLimits(&o.Admission)
		}
	}
	n.setSights(&o)
	var errs []error
	for _, s := range n.openSpaces() {
		rule := o.Namespaces[s.name]
		s.compute.Store(o.computeOf(&s.descriptor))
		for i := range s.parts {
			s.parts[i].drive.setWeight(s.parts[i].flow, float64(max(rule.Share, 1)))
			s.parts[i].drive.budget.SetWeight(s.parts[i].writes, o.writeShare(s.name))
		}
		if rule.QuotaBytes == before.Namespaces[s.name].QuotaBytes {
			continue // what was set by other means stays
		}
		if err := s.setQuota(rule.QuotaBytes); err != nil {
			errs = append(errs, fmt.Errorf("quota of namespace %q: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// openSpaces are all that have been opened.
func (n *Node) openSpaces() []*space {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*space, 0, len(n.spaces))
	for _, s := range n.spaces {
		all = append(all, s)
	}
	return all
}

func (d *drive) setBounds(bytes int64, time time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queueBytes, d.queueTime = bytes, time
}

func (d *drive) setWeight(f *flow, weight float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.weight = weight
}

// weight is a namespace's on this drive.
func (d *drive) weight(f *flow) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return f.weight
}

// Options are those that hold now.
func (n *Node) Options() Options { return *n.options.Load() }

package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
)

// startPool joins the pool, if there is one.
func (n *Node) startPool(o *Options) (err error) {
	if o.Pool == nil {
		return nil
	}
	if n.frames, err = n.newPeerFrames(o.PeerFrameBytes); err != nil {
		return err
	}
	n.pool = o.Pool
	if err := n.pool.Start(local{n}); err != nil {
		n.frames.Free()
		return fmt.Errorf("join the pool: %w", err)
	}
	return nil
}

// stopPool ends what startPool began. No client's request runs any more.
func (n *Node) stopPool(ctx context.Context) error {
	if n.pool == nil {
		return nil
	}
	err := n.pool.Close(ctx)
	for {
		returned := n.frames.Notify()
		if n.frames.InUse() == 0 {
			break
		}
		<-returned // of a read that came too late for its peer
	}
	n.frames.Free()
	return err
}

// local is the node's own part of a pool. It implements pool.Local.
type local struct{ n *Node }

// Space implements pool.Local.
func (l local) Space(id [32]byte) pool.Space {
	if s, _ := l.n.openedSpace(id); s != nil {
		return poolSpace{s, l.n}
	}
	for _, store := range l.n.stores {
		ns := store.NamespaceOf(id)
		if ns == nil {
			continue
		}
		s, err := l.n.open(ns.Descriptor())
		if err != nil {
			l.n.log.Warn("a namespace could not be opened for the pool", "namespace", ns.Descriptor().Name, "cause", err)
			return nil
		}
		return poolSpace{s, l.n}
	}
	return nil
}

// OpenSpace implements pool.Local.
func (l local) OpenSpace(d engine.Descriptor) (pool.Space, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	o := l.n.options.Load()
	if _, listed := o.Namespaces[d.Name]; o.OnlyListed && !listed {
		return nil, fmt.Errorf("%w: namespace %q is not listed in the daemon's configuration", errDenied, d.Name)
	}
	s, err := l.n.open(d)
	if err != nil {
		return nil, err
	}
	return poolSpace{s, l.n}, nil
}

// Spaces implements pool.Local.
func (l local) Spaces() (all []pool.Space) {
	seen := map[[32]byte]bool{}
	for _, store := range l.n.stores {
		for _, ns := range store.Stat().Namespaces {
			var id [32]byte
			if _, err := hex.Decode(id[:], []byte(ns.ID)); err != nil || seen[id] {
				continue
			}
			seen[id] = true
			if s := l.Space(id); s != nil {
				all = append(all, s)
			}
		}
	}
	return all
}

// Room implements pool.Local. What a sick or read-only store has does not count.
func (l local) Room() (capacityBytes, freeBytes int64) {
	for _, store := range l.n.stores {
		if store.Health() != nil {
			continue
		}
		st := store.Stat()
		capacityBytes += st.CapacityBytes
		free := int64(0)
		for i := range st.Namespaces { // what one may grow by, another may as well, but not both
			one := &st.Namespaces[i]
			free = max(free, int64(one.Slots-one.Blocks)*int64(one.SlotBytes))
		}
		if len(st.Namespaces) == 0 {
			free = st.CapacityBytes - st.CapacityBytes/16 // some of it is index, log and slots kept free
		}
		freeBytes += free
	}
	return capacityBytes, freeBytes
}

// incarnation is the highest of the parts'.
func (s *space) incarnation() (highest uint32) {
	for i := range s.parts {
		highest = max(highest, s.parts[i].ns.Incarnation())
	}
	return highest
}

// raise raises all parts to an incarnation, durably.
func (s *space) raise(incarnation uint32) error {
	var errs []error
	for i := range s.parts {
		errs = append(errs, s.parts[i].ns.RaiseTo(incarnation))
	}
	return errors.Join(errs...)
}

// note logs what went wrong with a block on its way from or to a peer.
func (n *Node) note(what string, cause error) { n.log.Debug(what, "for", "a peer", "cause", cause) }

// well reports whether what the part holds can be read.
func (p *part) well() bool { return !errors.Is(p.store.Health(), engine.ErrSick) }

// PoolSpace is a namespace as the pool sees it on this node, opened if the stores know it;
// nil if they do not.
func (n *Node) PoolSpace(id [32]byte) pool.Space { return local{n}.Space(id) }

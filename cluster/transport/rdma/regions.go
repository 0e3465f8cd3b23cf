package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// regions are the memory that all ports know. Who looks memory up takes no lock: changes
// make a new list.
type regions struct {
	ports []*port
	now   atomic.Pointer[[]*region] // by base; the list does not change

	mu     sync.Mutex // held by who changes now, and while a device is asked
	closed bool       // devices are closed once nothing is registered
}

// region is one piece of memory that is registered with every port.
type region struct {
	base, end uint64
	use       transport.Use
	at        []registered // by port.index
}

// registered is a region as one port knows it.
type registered struct {
	fabric.Region
	address             uint64
	localKey, remoteKey uint32
}

func (s *regions) list() []*region {
	if list := s.now.Load(); list != nil {
		return *list
	}
	return nil
}

// errClosed is the cause of what ends, or does not begin, because this side has closed it.
var errClosed = errors.New("it was closed here")

// add registers memory with every port, or with none.
func (s *regions) add(mem []byte, use transport.Use) (*region, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	rights := fabric.Rights(0)
	if use&transport.Destination != 0 {
		rights = fabric.RemoteWrite
	}
	r := &region{base: addressOf(mem), end: addressOf(mem) + uint64(len(mem)), use: use}
	for _, p := range s.ports {
		if most := p.info.Limits.RegionBytesMax; most > 0 && int64(len(mem)) > most {
			return nil, errors.Join(fmt.Errorf("%s registers at most %d bytes at once", p.info.Name(), most), r.deregister())
		}
		at, err := p.device.Register(mem, rights)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("register %d bytes with %s: %w", len(mem), p.info.Name(), err), r.deregister())
		}
		r.at = append(r.at, registered{at, at.Address(), at.LocalKey(), at.RemoteKey()})
	}
	list := append(slices.Clone(s.list()), r)
	slices.SortFunc(list, func(a, b *region) int { return cmp.Compare(a.base, b.base) })
	s.now.Store(&list)
	return r, nil
}

// remove ends a registration. After an error memory stays registered with some port.
func (s *regions) remove(r *region) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(s.list()), func(other *region) bool { return other == r })
	s.now.Store(&list)
	err := r.deregister()
	if s.closed && len(list) == 0 {
		err = errors.Join(err, s.closeDevices())
	}
	return err
}

func (r *region) deregister() (err error) {
	for _, at := range r.at {
		err = errors.Join(err, at.Deregister())
	}
	return err
}

// close closes the devices once nothing is registered any more, and lets nothing be added.
func (s *regions) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; len(s.list()) > 0 {
		return nil
	}
	return s.closeDevices()
}

func (s *regions) closeDevices() (err error) {
	for _, p := range s.ports {
		err = errors.Join(err, p.device.Close())
	}
	return err
}

// find is the region that has all of piece, or nil.
func (s *regions) find(piece []byte) *region {
	list := s.list()
	base := addressOf(piece)
	i, found := slices.BinarySearchFunc(list, base, func(r *region, base uint64) int { return cmp.Compare(r.base, base) })
	if !found {
		i--
	}
	if i < 0 || base+uint64(len(piece)) > list[i].end {
		return nil
	}
	return list[i]
}

// sourceOf is where a port finds a piece that is to be sent; false: its memory is not
// registered.
func (t *Transport) sourceOf(p *port, piece []byte) (address uint64, key uint32, ok bool) {
	r := t.regions.find(piece)
	if r == nil {
		return 0, 0, false
	}
	at := &r.at[p.index]
	return at.address + addressOf(piece) - r.base, at.localKey, true
}

// targetOf is where a peer writes to a piece through a port. The piece is in memory that
// landable has said yes of.
func (t *Transport) targetOf(p *port, piece []byte) (target, bool) {
	r := t.regions.find(piece)
	if r == nil || r.use&transport.Destination == 0 {
		return target{}, false
	}
	at := &r.at[p.index]
	return target{address: at.address + addressOf(piece) - r.base, key: at.remoteKey, bytes: uint32(len(piece))}, true
}

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
	now   atomic.Pointer[snapshot]

	mu     sync.Mutex // held by who changes now, and while a device is asked
	closed bool
}

// snapshot is what was registered at some time, by base. It does not change.
type snapshot []*region

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

func (s *regions) list() snapshot {
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

// remove ends a registration, if it has not ended before. After an error memory stays
// registered with some port.
func (s *regions) remove(r *region) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.list())
	i := slices.Index(list, r)
	if i < 0 {
		return nil
	}
	list = slices.Delete(list, i, i+1)
	s.now.Store(&list)
	return r.deregister()
}

func (r *region) deregister() (err error) {
	for _, at := range r.at {
		err = errors.Join(err, at.Deregister())
	}
	return err
}

// close ends all registrations, and closes the devices.
func (s *regions) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list() {
		err = errors.Join(err, r.deregister())
	}
	s.now.Store(nil)
	s.closed = true
	for _, p := range s.ports {
		err = errors.Join(err, p.device.Close())
	}
	return err
}

// find is the region that has the first bytes of piece, and how many; nil: there is none.
func (list snapshot) find(piece []byte) (r *region, n int) {
	base := addressOf(piece)
	i, found := slices.BinarySearchFunc(list, base, func(r *region, base uint64) int { return cmp.Compare(r.base, base) })
	if !found {
		i--
	}
	if i < 0 || base >= list[i].end {
		return nil, 0
	}
	return list[i], int(min(list[i].end-base, uint64(len(piece))))
}

// source is where a port finds the first n bytes of mem, which are to be sent; 0: they are
// not registered.
func (s *regions) source(port int, mem []byte) (address uint64, key uint32, n int) {
	r, n := s.list().find(mem)
	if n == 0 {
		return 0, 0, 0
	}
	at := &r.at[port]
	return at.address + addressOf(mem) - r.base, at.localKey, n
}

// landable reports whether peers may write to all of some pieces.
func (list snapshot) landable(pieces [][]byte) bool {
	for _, p := range pieces {
		for len(p) > 0 {
			r, n := list.find(p)
			if n == 0 || r.use&transport.Destination == 0 {
				return false
			}
			p = p[n:]
		}
	}
	return true
}

// targets appends to to where a peer writes to pieces through a port. They are landable.
func (list snapshot) targets(to []target, port int, pieces [][]byte) []target {
	for _, p := range pieces {
		for len(p) > 0 {
			r, n := list.find(p)
			at := &r.at[port]
			to = append(to, target{address: at.address + addressOf(p) - r.base, key: at.remoteKey, bytes: uint32(n)})
			p = p[n:]
		}
	}
	return to
}

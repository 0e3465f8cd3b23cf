package sim

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// device is one open port.
type device struct {
	port *port
	gid  fabric.GID

	// guarded by Network.mu
	closed        bool
	remote, local map[uint32]*region // by key
	queues        int
}

// region is registered memory.
type region struct {
	d                   *device
	mem                 []byte
	address             uint64
	rights              fabric.Rights
	localKey, remoteKey uint32
	gone                bool
}

var _ fabric.Device = (*device)(nil)

func (d *device) net() *Network { return d.port.m.net }

// Port is the port as it is now.
func (d *device) Port() fabric.Port {
	d.net().mu.Lock()
	defer d.net().mu.Unlock()
	return d.port.info
}

func (d *device) GID() fabric.GID { return d.gid }

func (d *device) Register(mem []byte, rights fabric.Rights) (fabric.Region, error) {
	n, m := d.net(), d.port.m
	n.mu.Lock()
	defer n.mu.Unlock()
	limit, nBytes := m.c.MemoryLockBytes, int64(len(mem))
	switch {
	case d.closed || m.dead:
		return nil, fabric.ErrClosed
	case nBytes == 0 || nBytes > d.port.info.Limits.RegionBytesMax:
		return nil, fmt.Errorf("%w: a region of %d bytes", fabric.ErrUnsupported, nBytes)
	case limit > 0 && m.locked+nBytes > limit:
		return nil, fmt.Errorf("%w: %d bytes, of %d are %d in use", fabric.ErrMemoryLock, nBytes, limit, m.locked)
	}
	m.locked += nBytes
	r := &region{d: d, mem: mem, address: addressOf(mem), rights: rights}
	for r.localKey = n.rng.Uint32(); d.local[r.localKey] != nil; {
		r.localKey = n.rng.Uint32()
	}
	for r.remoteKey = n.rng.Uint32(); d.remote[r.remoteKey] != nil; {
		r.remoteKey = n.rng.Uint32()
	}
	d.local[r.localKey], d.remote[r.remoteKey] = r, r
	return r, nil
}

func (d *device) RegisterGPU(int, uint64, uint64, uint64, fabric.Rights) (fabric.Region, error) {
	return nil, fmt.Errorf("%w: memory of a GPU", fabric.ErrUnsupported)
}

// Close ends the device. A region or a queue pair that is left is an error.
func (d *device) Close() error {
	d.net().mu.Lock()
	defer d.net().mu.Unlock()
	switch {
	case d.closed:
		return fabric.ErrClosed
	case d.port.m.dead:
	case len(d.local) > 0 || d.queues > 0:
		return fmt.Errorf("device %s is closed with %d regions and %d queue pairs left", d.port.info.Name(), len(d.local), d.queues)
	}
	d.closed = true
	return nil
}

// killLocked takes away what the device has of a dead process.
func (d *device) killLocked() {
	for _, q := range d.port.queues {
		if q.d == d {
			q.endLocked()
		}
	}
	clear(d.local)
	clear(d.remote)
}

func (r *region) Address() uint64   { return r.address }
func (r *region) Bytes() int64      { return int64(len(r.mem)) }
func (r *region) LocalKey() uint32  { return r.localKey }
func (r *region) RemoteKey() uint32 { return r.remoteKey }

func (r *region) Deregister() error {
	n := r.d.net()
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.gone {
		return errors.New("the region is deregistered already")
	}
	r.gone = true
	r.d.port.m.locked -= int64(len(r.mem))
	delete(r.d.local, r.localKey)
	delete(r.d.remote, r.remoteKey)
	return nil
}

// at is a part of the region, false if it is not inside.
func (r *region) at(address uint64, nBytes uint32) ([]byte, bool) {
	offset := address - r.address
	if address < r.address || offset > uint64(len(r.mem)) || uint64(nBytes) > uint64(len(r.mem))-offset {
		return nil, false
	}
	return r.mem[offset : offset+uint64(nBytes)], true
}

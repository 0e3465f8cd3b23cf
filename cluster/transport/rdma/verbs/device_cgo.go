//go:build verbs && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// device is an open port.
type device struct {
	gid    fabric.GID
	grh    bool // InfiniBand: every packet has a global header
	limits C.struct_sv_limits
	events *os.File
	taken  sync.WaitGroup // the goroutine that takes events

	mu     sync.RWMutex // held while context is used; for writing to close
	c      *C.struct_sv_context
	closed bool

	stateMu sync.Mutex // below mu
	port    fabric.Port
	parts   int // regions and queue pairs
}

// newDevice makes a device of an open context, which is the caller's after an error.
func newDevice(c *C.struct_sv_context, port fabric.Port, gid fabric.GID) (*device, error) {
	d := &device{gid: gid, c: c, port: port}
	var err error
	if d.limits, err = limitsOf(c); err != nil {
		return nil, err
	}
	if err := refresh(c, &d.port, d.limits); err != nil {
		return nil, err
	}
	if d.port.Ethernet == (gid.Type == fabric.InfiniBand) { // an iWARP device, for instance
		return nil, fmt.Errorf("%w: an address of %v on a port with Ethernet %v", fabric.ErrUnsupported, gid.Type, d.port.Ethernet)
	}
	if gid.Index < 0 || gid.Index > 255 {
		return nil, fmt.Errorf("address number %d cannot be used, 0 to 255 can", gid.Index)
	}
	var now [16]C.uint8_t
	if rc := C.sv_gid_query(c, C.uint8_t(port.Number), C.uint32_t(gid.Index), &now[0]); rc != 0 {
		return nil, fmt.Errorf("ask for address %d: %w", gid.Index, errno(int(rc)))
	}
	if addressOfGID(now) != gid.Address {
		return nil, fmt.Errorf("address %d is %v now, no longer %v", gid.Index, addressOfGID(now), gid.Address)
	}
	var p C.struct_sv_port
	if rc := C.sv_port_query(c, C.uint8_t(port.Number), &p); rc != 0 {
		return nil, fmt.Errorf("ask for the port: %w", errno(int(rc)))
	}
	d.grh = p.grh != 0
	if rc := C.sv_domain_open(c); rc != 0 {
		return nil, fmt.Errorf("allocate a protection domain: %w", errno(int(rc)))
	}
	if err := d.try(); err != nil {
		return nil, err
	}
	if d.events, err = duplicate(int(C.sv_events_fd(c)), "events of "+port.Device); err != nil {
		return nil, err
	}
	d.taken.Go(d.takeEvents)
	return d, nil
}

// try proves that the device has queue pairs of the kind wanted.
func (d *device) try() error {
	q, err := d.newPair(fabric.QueueOptions{Sends: 1, Receives: 1, RemoteWrite: true})
	if err != nil {
		return err
	}
	return q.Destroy()
}

func (d *device) Port() fabric.Port {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	return d.port
}

func (d *device) GID() fabric.GID { return d.gid }

// add counts regions and queue pairs.
func (d *device) add(n int) {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	d.parts += n
}

// Register pins memory.
func (d *device) Register(mem []byte, rights fabric.Rights) (fabric.Region, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return nil, fabric.ErrClosed
	}
	if len(mem) == 0 {
		panic("verbs: Register of no memory")
	}
	r := &region{d: d, address: uint64(addressOf(mem)), bytes: int64(len(mem))}
	if rc := C.sv_register(d.c, C.uintptr_t(r.address), C.size_t(len(mem)), writable(rights), &r.r, &r.keys); rc != 0 {
		return nil, refused(fmt.Sprintf("register %d bytes", len(mem)), errno(int(rc)))
	}
	d.add(1)
	return r, nil
}

// RegisterGPU makes memory of a GPU known.
func (d *device) RegisterGPU(dmaBuf int, offset, length, address uint64, rights fabric.Rights) (fabric.Region, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return nil, fabric.ErrClosed
	}
	r := &region{d: d, address: address, bytes: int64(length)}
	rc := C.sv_register_gpu(d.c, C.int(dmaBuf), C.uint64_t(offset), C.size_t(length), C.uint64_t(address), writable(rights), &r.r, &r.keys)
	if rc != 0 {
		if err := errno(int(rc)); !unsupported(err) {
			return nil, fmt.Errorf("register %d bytes of a GPU: %w", length, err)
		}
		return nil, fmt.Errorf("%w: memory of a GPU (dma-buf) with %s; it needs libibverbs 34, Linux 5.12 and a device whose driver has it, such as mlx5",
			fabric.ErrUnsupported, d.port.Device)
	}
	d.add(1)
	return r, nil
}

func writable(rights fabric.Rights) C.int {
	if rights&fabric.RemoteWrite != 0 {
		return 1
	}
	return 0
}

// NewQueuePair makes a queue pair, which is to be connected.
func (d *device) NewQueuePair(o fabric.QueueOptions) (fabric.QueuePair, error) {
	q, err := d.newPair(o)
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (d *device) newPair(o fabric.QueueOptions) (*pair, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return nil, fabric.ErrClosed
	}
	port := d.Port()
	if l := port.Limits; o.Sends < 1 || o.Receives < 1 || o.Sends > l.SendsMax || o.Receives > l.ReceivesMax {
		return nil, fmt.Errorf("a queue pair of %d writes and %d receives: %s takes 1 to %d and 1 to %d", o.Sends, o.Receives, port.Name(), l.SendsMax, l.ReceivesMax)
	}
	q := &pair{d: d, room: o, local: fabric.Endpoint{
		Packet: rand.Uint32() & numberMax, GID: d.gid.Address, LID: port.LID, MTUBytes: port.MTUBytes, Ethernet: port.Ethernet}}
	remoteWrite := C.int(0)
	if o.RemoteWrite {
		remoteWrite = 1
	}
	var number C.uint32_t
	if rc := C.sv_pair_open(d.c, C.uint8_t(port.Number), C.uint32_t(o.Sends), C.uint32_t(o.Receives), remoteWrite, &q.p, &number); rc != 0 {
		return nil, refused("make a queue pair", errno(int(rc)))
	}
	q.local.Number = uint32(number)
	if err := q.start(); err != nil {
		C.sv_pair_close(q.p)
		return nil, err
	}
	d.add(1)
	return q, nil
}

// takeEvents empties the device's events, which would pile up in the kernel, and keeps the
// state of the port.
func (d *device) takeEvents() {
	raw, err := d.events.SyscallConn()
	for err == nil {
		err = raw.Read(func(uintptr) bool { return d.takeEvent() })
	}
}

// takeEvent takes one event, if there is one.
func (d *device) takeEvent() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	var event C.int
	if rc := C.sv_event_take(d.c, &event); rc != 0 {
		if err := errno(int(rc)); !nothingThere(err) {
			d.failed("no events any more: " + err.Error())
		}
		return false
	}
	switch event {
	case C.SV_EVENT_PORT:
		d.stateMu.Lock()
		err := refresh(d.c, &d.port, d.limits)
		d.stateMu.Unlock()
		if err != nil {
			d.failed(err.Error())
		}
	case C.SV_EVENT_FATAL:
		d.failed("the device has failed")
	}
	return true
}

// failed marks the port as of no use.
func (d *device) failed(state string) {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	d.port.Active, d.port.State = false, state
}

var errInUse = errors.New("the RDMA device still has regions or queue pairs")

// Close gives the device back.
func (d *device) Close() error {
	d.mu.Lock()
	switch {
	case d.closed:
		d.mu.Unlock()
		return fabric.ErrClosed
	case d.used() > 0:
		d.mu.Unlock()
		return errInUse
	}
	d.closed = true
	d.mu.Unlock()
	err := d.events.Close()
	d.taken.Wait()
	if rc := C.sv_context_close(d.c); rc != 0 {
		err = errors.Join(err, fmt.Errorf("close %s: %w", d.port.Device, errno(int(rc))))
	}
	return err
}

func (d *device) used() int {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	return d.parts
}

//go:build verbs && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// numberMax is the largest number of a queue pair, or of a packet.
const numberMax = 1<<24 - 1

// pair is a queue pair.
//
// mu guards what C has of it: everything that uses p holds it for reading, and Destroy sets
// state to destroyed with it held for writing; after that nobody touches p but Destroy.
type pair struct {
	d        *device
	room     fabric.QueueOptions
	local    fabric.Endpoint
	sends    sendQueue
	receives receiveQueue

	mu    sync.RWMutex
	p     *C.struct_sv_pair
	state pairState
}

type pairState uint8

const (
	fresh pairState = iota
	connected
	failed // a completion said so; no fence
	destroyed
)

var errFailed = fmt.Errorf("%w: an earlier write has failed", fabric.ErrClosed)

// start prepares the queues.
func (q *pair) start() error {
	if err := q.sends.open(q); err != nil {
		return err
	}
	if err := q.receives.open(q); err != nil {
		q.sends.shut()
		return err
	}
	return nil
}

func (q *pair) Local() fabric.Endpoint { return q.local }

func (q *pair) Receives() fabric.Queue { return &q.receives }

func (q *pair) Sends() fabric.Queue { return &q.sends }

// Connect brings the queue pair into use.
func (q *pair) Connect(remote fabric.Endpoint, path fabric.Path) error {
	if err := q.checkPath(remote, path); err != nil {
		return fmt.Errorf("connect a queue pair: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.state {
	case destroyed:
		return fabric.ErrClosed
	case fresh:
	default:
		return errors.New("connect a queue pair: it was connected before")
	}
	c := C.struct_sv_path{
		gid:             gidOfAddress(remote.GID),
		number:          C.uint32_t(remote.Number),
		packet_local:    C.uint32_t(q.local.Packet),
		packet_remote:   C.uint32_t(remote.Packet),
		mtu_bytes:       C.uint32_t(min(q.local.MTUBytes, remote.MTUBytes)),
		gid_index_local: C.uint32_t(q.d.gid.Index),
		lid:             C.uint16_t(remote.LID),
		port:            C.uint8_t(q.d.Port().Number),
		timeout:         C.uint8_t(path.Timeout),
		retries:         C.uint8_t(path.Retries),
		traffic_class:   C.uint8_t(path.TrafficClass),
		service_level:   C.uint8_t(path.ServiceLevel),
		hop_limit:       C.uint8_t(path.HopLimit),
	}
	if q.global(remote) {
		c.global = 1
	}
	if rc := C.sv_pair_connect(q.p, &c); rc != 0 {
		q.state = failed
		return fmt.Errorf("connect a queue pair of %s with number %d at %v: %w", q.d.port.Name(), remote.Number, remote.GID, errno(int(rc)))
	}
	q.state = connected
	return nil
}

// global says whether packets need a global header: always with Ethernet, where it is the IP
// header, and between subnets of InfiniBand.
func (q *pair) global(remote fabric.Endpoint) bool {
	a, b := q.local.GID.As16(), remote.GID.As16()
	return q.local.Ethernet || q.d.grh || [8]byte(a[:8]) != [8]byte(b[:8])
}

// checkPath judges what the other side says of itself.
func (q *pair) checkPath(remote fabric.Endpoint, path fabric.Path) error {
	switch {
	case remote.Ethernet != q.local.Ethernet:
		return errors.New("one side is Ethernet, the other InfiniBand")
	case remote.Number > numberMax || remote.Number < 2 || remote.Packet > numberMax:
		return fmt.Errorf("the other side has number %d and first packet %d, want 24 bits, and no number below 2", remote.Number, remote.Packet)
	case remote.MTUBytes < 256 || remote.MTUBytes > 4096 || q.local.MTUBytes < 256:
		return fmt.Errorf("packets of %d bytes here and %d there, want 256 to 4096", q.local.MTUBytes, remote.MTUBytes)
	case !remote.GID.Is6() || remote.GID.Zone() != "" || remote.GID.IsUnspecified() || remote.GID.IsMulticast():
		return fmt.Errorf("the other side has address %v", remote.GID)
	case !remote.Ethernet && (remote.LID == 0 || remote.LID >= 0xc000):
		return fmt.Errorf("the other side has LID %d", remote.LID)
	case path.Timeout < 1 || path.Timeout > 31 || path.Retries < 1 || path.Retries > 6 || path.ServiceLevel > 15:
		return fmt.Errorf("path %+v, want a timeout of 1 to 31, 1 to 6 retries, and a service level of at most 15", path)
	}
	return nil
}

// fail marks the queue pair as of no use, after a completion that says so.
func (q *pair) fail() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != destroyed {
		q.state = failed
	}
}

func (q *pair) closed() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.state == destroyed
}

// usableLocked says why nothing can be posted.
func (q *pair) usableLocked() error {
	switch q.state {
	case destroyed:
		return fabric.ErrClosed
	case failed:
		return errFailed
	}
	return nil
}

// Destroy is the fence.
func (q *pair) Destroy() error {
	q.mu.Lock()
	if q.state == destroyed {
		q.mu.Unlock()
		return fabric.ErrClosed
	}
	q.state = destroyed
	q.mu.Unlock()
	q.sends.shut()
	q.receives.shut()
	if rc := C.sv_pair_close(q.p); rc != 0 {
		return fmt.Errorf("destroy a queue pair of %s: %w", q.d.port.Name(), errno(int(rc)))
	}
	q.d.add(-1)
	return nil
}

//go:build verbs && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// region is registered memory.
type region struct {
	d       *device
	address uint64
	bytes   int64
	keys    C.struct_sv_keys

	mu sync.Mutex
	r  *C.struct_sv_region // nil: deregistered
}

func (r *region) Address() uint64 { return r.address }

func (r *region) Bytes() int64 { return r.bytes }

func (r *region) LocalKey() uint32 { return uint32(r.keys.local) }

func (r *region) RemoteKey() uint32 { return uint32(r.keys.remote) }

func (r *region) Deregister() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.r == nil {
		return fabric.ErrClosed
	}
	if rc := C.sv_deregister(r.r); rc != 0 {
		return fmt.Errorf("deregister %d bytes: %w", r.bytes, errno(int(rc)))
	}
	r.r = nil
	r.d.add(-1)
	return nil
}

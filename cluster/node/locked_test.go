package node

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// TestLockedMemoryIsCounted asks the kernel what LockNeed says of it: that it counts what rings
// and RDMA devices have registered together, and the same memory for each device anew. It wants
// two RDMA ports, and a limit of 32 MiB to 1 GiB that holds for this user: integration/vm/run
// -uid 65534 -memlock 67108864.
func TestLockedMemoryIsCounted(t *testing.T) {
	ports, err := verbs.New().Ports()
	if err != nil {
		t.Skip(err)
	}
	chosen, _, err := rdma.Choose(ports, nil, 0)
	limit := lockedMemoryMax()
	if err != nil || len(chosen) < 2 || limit < 32<<20 || limit > 1<<30 {
		t.Skipf("%d ports, %v, a limit of %d bytes", len(chosen), err, limit)
	}
	var devices []fabric.Device
	for _, c := range chosen[:2] {
		d, err := verbs.New().Open(c.Port, c.GID)
		meshMust(t, err)
		defer d.Close()
		devices = append(devices, d)
	}
	most := int(limit) - 8<<20
	mem, err := unix.Mmap(-1, 0, most, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	meshMust(t, err)
	defer unix.Munmap(mem)
	first, err := devices[0].Register(mem, 0)
	if err != nil {
		t.Fatalf("%d bytes of %d: %v", most, limit, err)
	}
	if second, err := devices[1].Register(mem, 0); !errors.Is(err, fabric.ErrMemoryLock) {
		t.Errorf("the same memory with a second device: %v, %v", second, err)
	}
	meshMust(t, first.Deregister())
	ring, err := iouring.Open(iouring.Config{Entries: 8, Calls: iouring.Kernel})
	if err != nil {
		t.Skip(err)
	}
	defer ring.Close()
	meshMust(t, ring.RegisterBuffers(1))
	meshMust(t, ring.SetBuffer(0, mem[:16<<20]))
	if again, err := devices[0].Register(mem, 0); !errors.Is(err, fabric.ErrMemoryLock) {
		t.Errorf("beside what a ring has: %v, %v", again, err)
	}
	beside, err := devices[0].Register(mem[:most-16<<20], 0)
	meshMust(t, err)
	meshMust(t, beside.Deregister())
}

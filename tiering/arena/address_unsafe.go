package arena

import (
	"fmt"
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"
)

func addressOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// nodesMax bounds NUMA node numbers (the kernel's own bound).
const nodesMax = 1024

// bind lets pages of mem that are not there yet come from these NUMA nodes only.
func bind(mem []byte, nodes []int) error {
	const policyBind = 2 // MPOL_BIND, frozen
	var mask [nodesMax / bits.UintSize]uint
	for _, n := range nodes {
		if n < 0 || n >= nodesMax {
			return fmt.Errorf("%w: NUMA node %d", unix.EINVAL, n)
		}
		mask[n/bits.UintSize] |= 1 << (n % bits.UintSize)
	}
	// The kernel reads one bit less than it is told.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, addressOf(mem), uintptr(len(mem)), policyBind,
		uintptr(unsafe.Pointer(&mask)), nodesMax+1, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

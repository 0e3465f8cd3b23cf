package machine

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nvmeAdmin is NVME_IOCTL_ADMIN_CMD, _IOWR('N', 0x41, struct nvme_admin_cmd) of
// linux/nvme_ioctl.h.
const nvmeAdmin = 0xc0484e41

// adminCommand is struct nvme_admin_cmd of linux/nvme_ioctl.h, 72 bytes.
type adminCommand struct {
	opcode, flags              uint8
	_                          uint16
	namespace                  uint32
	cdw2, cdw3                 uint32
	metadata, address          uint64
	metadataBytes, dataBytes   uint32
	cdw10, cdw11, cdw12, cdw13 uint32
	cdw14, cdw15               uint32
	timeoutMS, result          uint32
}

// healthLog asks an NVMe drive for its health log (log page 2 of all namespaces).
// It takes CAP_SYS_ADMIN.
func healthLog(device string) ([]byte, error) {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing to lose
	log := make([]byte, healthLogBytes)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&log[0])
	const getLogPage, allNamespaces, health = 0x02, 0xffffffff, 0x02
	c := adminCommand{opcode: getLogPage, namespace: allNamespaces, address: uint64(uintptr(unsafe.Pointer(&log[0]))),
		dataBytes: healthLogBytes, cdw10: (healthLogBytes/4-1)<<16 | health, timeoutMS: 1000}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), nvmeAdmin, uintptr(unsafe.Pointer(&c))); errno != 0 {
		return nil, errno
	}
	return log, nil
}

package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
)

// spaceOf is the room on a directory's file system; FreeBytes is what a process
// without privileges may still use.
func spaceOf(dir string) (device.Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return device.Space{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	unit := s.Frsize
	if unit == 0 {
		unit = s.Bsize
	}
	return device.Space{TotalBytes: int64(s.Blocks) * unit, FreeBytes: int64(s.Bavail) * unit}, nil
}

// mayUse says why this process may not open a device's file for reading and writing.
func mayUse(path string) error {
	if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// What io_uring's set-up may be refused with.
var (
	errNotPermitted = error(unix.EPERM)
	errNoSystemCall = error(unix.ENOSYS)
	errNoMemory     = error(unix.ENOMEM)
)

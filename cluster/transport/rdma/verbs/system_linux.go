//go:build verbs && cgo

package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// errno is the error of a number that the C side returned.
func errno(rc int) error {
	if rc < 0 {
		rc = -rc
	}
	return syscall.Errno(rc)
}

// unsupported: the kernel, the driver or the device has no such thing.
func unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPROTONOSUPPORT)
}

// nothingThere: a queue or a channel is empty for now.
func nothingThere(err error) bool { return errors.Is(err, unix.EAGAIN) }

// duplicate is fd once more, as a file that parks its readers in the poller.
func duplicate(fd int, name string) (*os.File, error) {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate the descriptor of %s: %w", name, err)
	}
	return os.NewFile(uintptr(again), name), nil
}

// whyNotOpened says what to do about a device file that cannot be opened.
func whyNotOpened(file string, err error) string {
	// The library looks for the file elsewhere too, and tells the error of that.
	if f, own := os.OpenFile(file, os.O_RDWR, 0); own == nil {
		f.Close()
	} else {
		err = own
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("permission denied on %s%s", file, remedy(file))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no %s: load ib_uverbs (modprobe ib_uverbs), or give the container /dev/infiniband", file)
	}
	return fmt.Sprintf("%s cannot be used: %v", file, err)
}

// remedy says how to get at a device file.
func remedy(file string) string {
	const rule = `a udev rule such as KERNEL=="uverbs*", GROUP="rdma", MODE="0660" makes a group for it`
	var s unix.Stat_t
	if err := unix.Stat(file, &s); err != nil {
		return ": " + rule
	}
	if s.Gid == 0 || s.Mode&0o060 != 0o060 {
		return fmt.Sprintf(" (mode %04o): %s", s.Mode&0o777, rule)
	}
	group := strconv.FormatUint(uint64(s.Gid), 10)
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return fmt.Sprintf(": it is open to the group %s, make this user a member (usermod -aG %s USER, or SupplementaryGroups=%s in the unit)", group, group, group)
}

// refused is the error of a device that did not do what it was asked for, with memory that it
// wants to pin.
func refused(what string, err error) error {
	var limit unix.Rlimit
	switch {
	case !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EPERM),
		unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil, limit.Cur == unix.RLIM_INFINITY, mayLock():
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%w: it is %d bytes for all together, and the device was to %s (%w): set LimitMEMLOCK=infinity in the systemd unit, ulimit -l unlimited before the start, or docker run --ulimit memlock=-1",
		fabric.ErrMemoryLock, limit.Cur, what, err)
}

// mayLock says whether the limit on locked memory does not hold for this process.
func mayLock() bool {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

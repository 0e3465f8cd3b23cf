package doctor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/engine/device/iouring"
	"github.com/spillway-kv/spillway/fio/units"
)

func kernel(f *Facts, _ Plan) []Check {
	const name = "kernel"
	major, minor, ok := release(f.Kernel)
	found := "Linux " + f.Kernel
	const upgrade = "sudo apt-get full-upgrade && sudo reboot"
	switch {
	case !ok:
		return one(name, Warn, found, "its version could not be read", "uname -r")
	case major < 5 || major == 5 && minor < 6:
		return one(name, Warn, found, "older than 5.6: no usable io_uring; reads and writes cost more CPU", upgrade)
	case major < 6 || major == 6 && minor < 1:
		return one(name, OK, found, "older than 6.1: it does not tell the alignment of direct I/O, which is tried out instead", "")
	}
	return one(name, OK, found, "it has io_uring and tells the alignment of direct I/O", "")
}

func release(text string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(text, ".")
	second, _, _ := strings.Cut(rest, ".")
	second, _, _ = strings.Cut(second, "-")
	major, errA := strconv.Atoi(first)
	minor, errB := strconv.Atoi(second)
	return major, minor, errA == nil && errB == nil
}

const (
	withoutUring = "reads and writes go through blocking calls (psync): it works, with more CPU for each"
	allowUring   = "docker run --security-opt seccomp=unconfined ..."
)

func uring(f *Facts, _ Plan) []Check {
	const name = "io_uring"
	if f.Uring == nil {
		return one(name, OK, "a ring was set up", "one system call submits a whole batch of reads", "")
	}
	found := fmt.Sprintf("refused: %v", f.Uring)
	filtered := f.Seccomp != "" && f.Seccomp != "0"
	switch {
	case errors.Is(f.Uring, errNotPermitted) && f.UringDisabled != "" && f.UringDisabled != "0":
		return one(name, Warn, found+"; kernel.io_uring_disabled is "+f.UringDisabled, withoutUring, "sudo sysctl -w kernel.io_uring_disabled=0")
	case errors.Is(f.Uring, errNotPermitted), errors.Is(f.Uring, errNoSystemCall) && filtered:
		return one(name, Warn, found+"; seccomp mode is "+f.Seccomp, withoutUring+"; a container's or service's seccomp filter refuses it", allowUring)
	case errors.Is(f.Uring, errNoSystemCall):
		return one(name, Warn, found, withoutUring+"; this kernel is built without it", "grep CONFIG_IO_URING /boot/config-$(uname -r)")
	case errors.Is(f.Uring, iouring.ErrOld):
		return one(name, Warn, found, withoutUring+"; the kernel is too old", "uname -r")
	case errors.Is(f.Uring, errNoMemory):
		return one(name, Warn, found, withoutUring+"; old kernels charge rings to the limit of locked memory", raiseLocked)
	}
	return one(name, Warn, found, withoutUring, "dmesg | tail")
}

// wantedLocked is the memory that a store registers with the drive's rings:
// Options.FrameBytes of package engine, by default.
const wantedLocked = 64 << 20

const raiseLocked = "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/spillway-memlock.conf"

func lockedMemory(f *Facts, _ Plan) []Check {
	const name = "locked memory"
	found := fmt.Sprintf("limit %s, at most %s", limit(f.LockedSoft), limit(f.LockedHard))
	means := fmt.Sprintf("the %s of frames can be registered once and need not be pinned for each transfer", units.Bytes(wantedLocked))
	switch {
	case f.MayLock:
		return one(name, OK, found+"; this process has CAP_IPC_LOCK", means, "")
	case f.LockedSoft >= wantedLocked:
		return one(name, OK, found, means, "")
	case f.LockedHard >= wantedLocked:
		return one(name, Warn, found, fmt.Sprintf("less than the %s of frames: they are pinned for each transfer, which costs CPU", units.Bytes(wantedLocked)),
			fmt.Sprintf("ulimit -l %d", wantedLocked>>10))
	}
	return one(name, Warn, found, fmt.Sprintf("less than the %s of frames: they are pinned for each transfer, which costs CPU; "+
		"a service needs LimitMEMLOCK=infinity, a container --ulimit memlock=-1", units.Bytes(wantedLocked)), raiseLocked)
}

func hugePages(f *Facts, _ Plan) []Check {
	const name = "huge pages"
	found := fmt.Sprintf("%d reserved, transparent ones: %s", max(f.HugePages, 0), f.Transparent)
	if f.Transparent == "always" || f.Transparent == "madvise" {
		return one(name, OK, found, "large memory can be had in pages of 2 MiB", "")
	}
	if f.Transparent == "" {
		found = fmt.Sprintf("%d reserved, no transparent ones in this kernel", max(f.HugePages, 0))
		return one(name, Warn, found, "index and frames lie in pages of 4 KiB: look-ups miss the TLB more often; a kernel with them serves better",
			`grep TRANSPARENT_HUGEPAGE /boot/config-"$(uname -r)"`)
	}
	return one(name, Warn, found, "index and frames lie in pages of 4 KiB: look-ups miss the TLB more often",
		"echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
}

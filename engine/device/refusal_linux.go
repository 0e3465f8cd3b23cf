package device

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

const disabledPath = "/proc/sys/kernel/io_uring_disabled"

// refusal explains why io_uring cannot be used, and what to do about it.
// disabled is the value of the sysctl, "" where there is none.
func refusal(err error, disabled string) (problem, remedy string) {
	const orPsync = ", or choose the engine psync to do without"
	problem = fmt.Sprintf("io_uring is refused (%v)", err)
	switch {
	case errors.Is(err, syscall.EPERM):
		if disabled != "" && disabled != "0" {
			return fmt.Sprintf("%s: the sysctl kernel.io_uring_disabled is %s", problem, disabled),
				"allow it with sysctl -w kernel.io_uring_disabled=0" + orPsync
		}
		return problem + ": most likely by the seccomp filter of a container or service",
			"allow io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile" + orPsync
	case errors.Is(err, syscall.ENOSYS):
		return problem + ": this kernel is built without it or older than 5.6, or a seccomp filter hides it",
			"use a newer kernel, or allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile" + orPsync
	case errors.Is(err, iouring.ErrOld):
		return problem, "use Linux 5.6 or newer" + orPsync
	case errors.Is(err, syscall.ENOMEM):
		return problem + ": too little memory, or on old kernels too low a limit of locked memory",
			"raise the limit (ulimit -l, LimitMEMLOCK= of a service, --ulimit memlock= of a container)" + orPsync
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return problem, "raise the limit of open files (ulimit -n)" + orPsync
	}
	return problem, "choose the engine psync to do without"
}

// uringDisabled is the value of the sysctl, "" where there is none.
func uringDisabled() string {
	text, err := os.ReadFile(disabledPath)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

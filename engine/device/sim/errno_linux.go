package sim

import "syscall"

// The errnos this device answers with.
const (
	errIO      = syscall.EIO
	errNoSpace = syscall.ENOSPC
)

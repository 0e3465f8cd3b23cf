package device

import (
	"errors"
	"syscall"
)

// NotTheDrive reports whether the error of an op says nothing about the drive: the
// memory was bad (EFAULT, as when its owner has unmapped it or cut its file short)
// or short (ENOMEM), or the op never got there.
func NotTheDrive(err error) bool {
	for _, cause := range []error{syscall.EFAULT, syscall.ENOMEM, ErrUnaligned, ErrQueueFull, ErrClosed, ErrLate} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

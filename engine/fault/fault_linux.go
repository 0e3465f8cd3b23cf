// Package fault survives memory that goes away under us: a mapping of a file
// that its owner cuts short raises a signal at the next access.
package fault

import (
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"
)

// Guard runs touch, which reads or writes memory that may be somebody else's, and
// returns an error that matches syscall.EFAULT if some of it is not there. Whatever
// touch had done by then stays done. Other panics go through. It holds for this
// goroutine only, and costs some nanoseconds.
func Guard(touch func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // a runtime.Error of a memory fault
			err = fmt.Errorf("memory at %#x: %w", p.Addr(), syscall.EFAULT)
		default:
			panic(p)
		}
	}()
	touch()
	return nil
}

// OfMemory reports whether err says that memory is not there: one of Guard, or of a system
// call.
func OfMemory(err error) bool { return errors.Is(err, syscall.EFAULT) }

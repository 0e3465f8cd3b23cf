// Package descriptor reaches the descriptors beneath files and sockets, for both ends
// of a connection.
package descriptor

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// With calls f with the descriptor of c, which stays open meanwhile. The error is f's,
// or says that c is closed.
func With(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = raw.Control(func(fd uintptr) { callErr = f(int(fd)) })
	return errors.Join(err, callErr)
}

// Duplicate is another descriptor of the same open file.
func Duplicate(f *os.File) (*os.File, error) {
	var number int
	err := With(f, func(fd int) (err error) {
		number, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("duplicate the descriptor of %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(number), f.Name()), nil
}

package device

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName       = "LOCK"
	lockRetryEvery = 50 * time.Millisecond
	holderMaxBytes = 256
)

// lockDir takes the directory's lock, which the returned file and handle hold
// until closed. It is a lock of the open file description: it excludes a second
// opening in the same process as well, follows the inode through links and
// bind mounts, and dies with the process.
func lockDir(root *os.Root, handle *os.File, dir string, wait time.Duration) (*os.File, error) {
	deadline := time.Now().Add(wait)
	for {
		f, err := tryLock(root, handle)
		if err == nil {
			return f, nil
		}
		var held *heldError
		if !errors.As(err, &held) {
			return nil, fmt.Errorf("device %s: lock: %w", dir, err)
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, &InUseError{Dir: dir, Holder: held.holder}
		}
		time.Sleep(min(left, lockRetryEvery))
	}
}

// heldError: somebody else has the lock at this moment.
type heldError struct{ holder string }

func (e *heldError) Error() string { return "held by " + e.holder }

func tryLock(root *os.Root, handle *os.File) (_ *os.File, err error) {
	f, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = retry(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole) })
	if err == unix.EAGAIN || err == unix.EACCES {
		return nil, &heldError{readHolder(f)}
	}
	if err != nil {
		return nil, err
	}
	// The directory itself is locked as well, against a second holder after
	// somebody removed the lock file. Where directories cannot be locked, the
	// file's lock has to do.
	if retry(func() error { return unix.Flock(int(handle.Fd()), unix.LOCK_EX|unix.LOCK_NB) }) == unix.EWOULDBLOCK {
		return nil, &heldError{"a process whose lock file was removed"}
	}
	return f, writeHolder(f)
}

// readHolder tells who wrote the lock file last.
func readHolder(f *os.File) string {
	text := make([]byte, holderMaxBytes)
	n, _ := f.ReadAt(text, 0) // an unreadable name is an unknown one
	if holder := strings.TrimSpace(strings.ToValidUTF8(string(text[:n]), "?")); holder != "" {
		return holder
	}
	return "an unknown process"
}

// writeHolder replaces the text of a lock file that this process has locked.
// On a full disk the lock holds without a name.
func writeHolder(f *os.File) error {
	text := fmt.Sprintf("pid %d (%s)\n", os.Getpid(), filepath.Base(os.Args[0]))
	if len(text) > holderMaxBytes {
		text = text[:holderMaxBytes]
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil && !isFull(err) {
		return err
	}
	return nil
}

// isFull: the file system or a quota has no room.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Listener is a Unix socket in the file system that is ours alone: a lock file
// beside it is held, so that of two daemons the second is refused and cannot take
// the first one's socket away.
type Listener struct {
	*net.UnixListener
	path string
	lock *os.File
}

// SocketError says why a socket could not be made at a path.
type SocketError struct {
	Path    string
	Problem string
	Remedy  string
	Cause   error // may be nil
}

func (e *SocketError) Error() string {
	s := fmt.Sprintf("socket %s: %s", e.Path, e.Problem)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s + "; " + e.Remedy
}

// Unwrap gives the cause.
func (e *SocketError) Unwrap() error { return e.Cause }

// Listen makes a socket at path with these permissions. A socket that a dead
// daemon has left there is replaced. One that somebody answers, and anything that
// is no socket, is left alone and refused.
func Listen(path string, mode fs.FileMode) (*Listener, error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &SocketError{path, "cannot make its lock file", "make the folder, or give another path with --socket", err}
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, &SocketError{path, "another daemon holds it", "stop that one, or give another path with --socket", err}
	}
	l, err := listenLocked(path, mode)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &Listener{l, path, lock}, nil
}

// Close ends listening, removes the socket and lets others have the path.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	_ = os.Remove(l.path) // it is ours while the lock is held
	_ = l.lock.Close()
	return err
}

func listenLocked(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// Under another name first: nobody connects before the permissions are right.
	temp := path + ".new"
	_ = os.Remove(temp) // of a daemon that died here; the lock is held
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, &SocketError{path, "cannot listen", "make the folder, or give a shorter path with --socket (107 bytes at most)", err}
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(temp, mode)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = l.Close()
		_ = os.Remove(temp)
		return nil, &SocketError{path, "cannot make it", "check who owns the folder", err}
	}
	return l, nil
}

// removeStale removes what a dead daemon has left.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &SocketError{path, "cannot look at it", "check the path", err}
	}
	if info.Mode().Type() != fs.ModeSocket {
		return &SocketError{path, "something else is there, of type " + info.Mode().Type().String(), "give another path with --socket, or remove it yourself", nil}
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return &SocketError{path, "somebody listens there", "stop that program, or give another path with --socket", nil}
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return &SocketError{path, "cannot tell whether somebody listens there", "remove it yourself if nobody does", err}
	}
	if err := os.Remove(path); err != nil {
		return &SocketError{path, "cannot remove what a dead daemon left", "remove it yourself", err}
	}
	return nil
}

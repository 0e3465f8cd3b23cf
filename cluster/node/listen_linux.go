package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Reservation is a path for a Unix socket that is ours alone: a lock file beside it
// is held, from before the first store is opened until the last is closed. So of two
// daemons the second is refused at once, also while the first starts or stops, and
// cannot take the first one's socket away.
type Reservation struct {
	path string
	lock *os.File
	sock fs.FileInfo // the socket we made; nil for none
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
	return s
}

// Unwrap gives the cause.
func (e *SocketError) Unwrap() error { return e.Cause }

// Reserve takes a path. A socket that a dead daemon has left there is removed. One
// that somebody answers, and anything that is no socket, is left alone and refused,
// with a *SocketError.
func Reserve(path string) (*Reservation, error) {
	if len(path) == 0 || len(path) > SocketPathMax {
		return nil, &SocketError{path, fmt.Sprintf("a path of %d bytes", len(path)), fmt.Sprintf("give one of 1 to %d", SocketPathMax), nil}
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &SocketError{path, "cannot make its lock file", "make the folder, or give another path", err}
	}
	if err := flock(lock); err != nil {
		defer lock.Close()
		problem := "cannot be locked"
		if errors.Is(err, unix.EWOULDBLOCK) {
			err, problem = nil, "another daemon holds it"+holder(lock)
		}
		return nil, &SocketError{path, problem, "stop that one and wait for its end, or give another path", err}
	}
	if err := removeStale(path); err != nil {
		_ = lock.Close()
		return nil, err
	}
	if err := lock.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(lock, "%d\n", os.Getpid()) // for holder: nothing depends on it
	}
	return &Reservation{path: path, lock: lock}, nil
}

// lockGrace is for how long a lock is tried: that of a killed daemon goes when the
// system has put its memory away.
const lockGrace = time.Second

func flock(lock *os.File) (err error) {
	for end := time.Now().Add(lockGrace); ; time.Sleep(10 * time.Millisecond) {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(end) {
			return err
		}
	}
}

const newSuffix = ".new"

// SocketPathMax is the longest path of a socket, in bytes: the system's 107 less
// what it is called while it is made.
const SocketPathMax = 107 - len(newSuffix)

// holder says whose lock file this is, if it is known.
func holder(lock *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(lock, 20))
	if pid := strings.TrimSpace(string(text)); pid != "" {
		return ", pid " + pid
	}
	return ""
}

// Listen makes the socket, with these permissions and this group, -1 for that of
// the process. It is there when it can be connected to, not before.
func (r *Reservation) Listen(mode fs.FileMode, group int) (*net.UnixListener, error) {
	if err := removeStale(r.path); err != nil {
		return nil, err
	}
	// Under another name first: nobody connects before the permissions are right.
	temp := r.path + newSuffix
	_ = os.Remove(temp) // of a daemon that died here; the lock is held
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, &SocketError{r.path, "cannot listen", "check the folder", err}
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(temp, mode); err == nil && group >= 0 {
		err = os.Chown(temp, -1, group)
	}
	if err == nil {
		err = os.Rename(temp, r.path)
	}
	if err != nil {
		_ = l.Close()
		_ = os.Remove(temp)
		return nil, &SocketError{r.path, "cannot make it", "check who owns the folder, and that the daemon may give files to the group", err}
	}
	r.sock, _ = os.Lstat(r.path) // without it nothing is removed
	return l, nil
}

// Unlisten removes the socket, so that nobody tries to connect any more; the path
// stays reserved.
func (r *Reservation) Unlisten() {
	// Somebody may have removed socket and lock by hand, and another daemon made its own.
	if there, err := os.Lstat(r.path); err == nil && r.sock != nil && os.SameFile(there, r.sock) {
		_ = os.Remove(r.path)
	}
	r.sock = nil
}

// Close removes the socket and lets others have the path. The lock file stays:
// whoever removed it could remove that of the next.
func (r *Reservation) Close() {
	r.Unlisten()
	_ = r.lock.Truncate(0)
	_ = r.lock.Close()
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
		return &SocketError{path, "something else is there (" + info.Mode().String() + ")", "give another path, or remove it yourself", nil}
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return &SocketError{path, "somebody listens there", "stop that program, or give another path", nil}
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return &SocketError{path, "cannot tell whether somebody listens there", "remove it yourself if nobody does", err}
	}
	if err := os.Remove(path); err != nil {
		return &SocketError{path, "cannot remove what a dead daemon left", "remove it yourself", err}
	}
	return nil
}

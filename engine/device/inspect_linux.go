package device

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// Probed is what Probe found out about a directory.
type Probed struct {
	Facts Facts // Device and QueueOps are not set
	// Allowed: OpenDir takes this file system without Options.AnyFileSystem.
	Allowed bool
	// InMemory file systems may accept direct I/O, which then means nothing.
	InMemory bool
	// NoDirect says why direct I/O does not work; nil where it does.
	NoDirect error
}

// Probe finds out what OpenDir would about an existing directory. It takes no
// lock, so that it works beside whoever holds the directory, and leaves nothing:
// it writes some blocks to files that have lost their name at once.
func Probe(dir string) (p Probed, err error) {
	for _, buffered := range []bool{false, true} {
		p.Facts, err = probeDir(dir, buffered)
		if refused, ok := errors.AsType[*UnsupportedError](err); ok && !buffered {
			p.NoDirect = errors.New(refused.Problem)
			continue
		}
		break
	}
	p.Allowed, p.InMemory = slices.Contains(allowedFileSystems, p.Facts.FileSystem), slices.Contains(inMemory, p.Facts.FileSystem)
	return p, err
}

func probeDir(dir string, buffered bool) (_ Facts, err error) {
	d := &psync{dir: dir, options: Options{BufferedIO: buffered, AnyFileSystem: true}.withDefaults(), calls: kernelCalls}
	d.tempSeq.Store(uint64(os.Getpid()) << 32) // no name that a holder uses at this moment
	defer func() {
		if d.root != nil {
			_ = d.root.Close()
		}
		if d.handle != nil {
			_ = d.handle.Close()
		}
	}()
	if d.root, err = os.OpenRoot(dir); err != nil {
		return d.facts, err
	}
	if d.handle, err = d.root.Open("."); err != nil {
		return d.facts, d.where(err)
	}
	if d.facts.FileSystem, err = fileSystemName(d.handle); err != nil {
		return d.facts, d.where(err)
	}
	err = d.probe()
	return d.facts, err
}

// ProbeUring sets an io_uring up as OpenDir would and closes it. The error
// matches the errno, or iouring.ErrOld for a kernel that is too old.
func ProbeUring() error {
	ring, err := iouring.Open(iouring.Config{Entries: queueDepthDefault, Flags: ringFlags, Calls: iouring.Kernel})
	if err != nil {
		return err
	}
	ring.Close()
	return nil
}

// Holder tells who has a directory open, without taking its lock or changing
// anything; held is false where nobody has, as in a directory without LOCK.
func Holder(dir string) (holder string, held bool, err error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := retry(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole) }); err != nil {
		return "", false, fmt.Errorf("asking for the lock of %s: %w", dir, err)
	}
	if whole.Type == unix.F_UNLCK {
		return "", false, nil
	}
	return readHolder(f), true, nil
}

package target

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isFull says whether a file system had no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// gap is a part of a file that was never written.
type gap struct{ from, to int64 }

// unwritten finds the parts of [from, to) of a file that hold no data: holes, and
// space that is reserved only. A file system that cannot tell has none.
func unwritten(path string, from, to int64) (gaps []gap, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd := int(f.Fd())
	for from < to {
		hole, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if errors.Is(err, syscall.ENXIO) || err == nil && hole >= to {
			break
		}
		if errors.Is(err, syscall.EINVAL) {
			return nil, nil
		}
		if err != nil {
			return nil, &os.PathError{Op: "seek", Path: path, Err: err}
		}
		data, err := unix.Seek(fd, hole, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) {
			data = to
		} else if err != nil {
			return nil, &os.PathError{Op: "seek", Path: path, Err: err}
		}
		if data = min(data, to); hole < data {
			gaps = append(gaps, gap{hole, data})
		}
		from = data
	}
	return gaps, nil
}

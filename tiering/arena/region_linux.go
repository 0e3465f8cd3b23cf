package arena

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// MapRegion maps the first nBytes of a client's memory: a memfd, or a file of
// tmpfs or hugetlbfs, open for reading and writing and at least that long.
// Anything else is refused with an error matching ErrNotMemory or ErrSize. The
// file stays the caller's, who may close it.
func MapRegion(file *os.File, nBytes int64) (*Region, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("arena: region: %w", err)
	}
	var region *Region
	var mapErr error
	if err := conn.Control(func(fd uintptr) { region, mapErr = mapRegion(int(fd), nBytes) }); err != nil {
		return nil, fmt.Errorf("arena: region: %w", err)
	}
	return region, mapErr
}

func mapRegion(fd int, nBytes int64) (*Region, error) {
	pageBytes, err := checkMemory(fd, nBytes)
	if err != nil {
		return nil, err
	}
	// Whole pages, of the file's kind: munmap wants them.
	mapped := (nBytes + pageBytes - 1) / pageBytes * pageBytes
	mem, err := unix.Mmap(fd, 0, int(mapped), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("%w: it is sealed against writing: %w", ErrNotMemory, err)
	}
	if err != nil {
		return nil, fmt.Errorf("arena: map a region of %d bytes: %w", nBytes, err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP) // only keeps core files small
	return newRegion(mem[:nBytes:nBytes], func() {
		if err := unix.Munmap(mem); err != nil {
			panic(fmt.Sprintf("arena: unmap: %v", err)) // it was mapped here
		}
	}), nil
}

// checkMemory says whether a descriptor may become a region, and the size of
// its pages.
func checkMemory(fd int, nBytes int64) (pageBytes int64, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0, fmt.Errorf("arena: region: fstat: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, fmt.Errorf("arena: region: fstatfs: %w", err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, fmt.Errorf("arena: region: fcntl: %w", err)
	}
	pageBytes = int64(os.Getpagesize())
	switch fs.Type {
	case unix.TMPFS_MAGIC:
	case unix.HUGETLBFS_MAGIC:
		pageBytes = max(pageBytes, fs.Bsize)
	default:
		return 0, fmt.Errorf("%w: it is on a file system of type %#x, not a memfd, tmpfs or hugetlbfs", ErrNotMemory, fs.Type)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, fmt.Errorf("%w: it is no regular file", ErrNotMemory)
	case flags&unix.O_ACCMODE != unix.O_RDWR || flags&unix.O_PATH != 0:
		return 0, fmt.Errorf("%w: it is not open for reading and writing", ErrNotMemory)
	case nBytes <= 0 || nBytes > math.MaxInt64-pageBytes || nBytes > stat.Size:
		return 0, fmt.Errorf("%w: a region of %d bytes in a file of %d", ErrSize, nBytes, stat.Size)
	}
	return pageBytes, nil
}

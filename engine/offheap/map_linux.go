package offheap

import "golang.org/x/sys/unix"

// reserve maps sizeBytes of zeros without committing memory to them.
func reserve(sizeBytes int) ([]byte, error) {
	mapped, err := unix.Mmap(-1, 0, sizeBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// Only advice: a kernel without huge pages answers EINVAL, and 4 KiB pages
	// serve as well.
	_ = unix.Madvise(mapped, unix.MADV_HUGEPAGE)
	return mapped, nil
}

func release(mapped []byte) error { return unix.Munmap(mapped) }

package fabrictest

import "golang.org/x/sys/unix"

// mapMemory maps memory outside the Go heap.
func mapMemory(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func unmapMemory(mem []byte) {
	if err := unix.Munmap(mem); err != nil {
		panic(err)
	}
}

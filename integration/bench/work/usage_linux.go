package work

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuSeconds is the CPU time of this process so far, user and system.
func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// processSeconds is the CPU time of another process so far; 0 if it is gone. The
// kernel counts it in hundredths of a second.
func processSeconds(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// threadSeconds is the CPU time of this thread so far.
func threadSeconds() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return float64(t.Nano()) / 1e9
}

// openDirect opens a file past the page cache.
func openDirect(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
}

// forget drops a file's pages from the page cache; all of them must be clean.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}

// residentBytes is the memory of this process that is in RAM, files excluded.
func residentBytes() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for line := range strings.Lines(string(text)) {
		var kib float64
		name, rest, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			return 0, fmt.Errorf("/proc/self/status: %q: %w", line, err)
		}
		total += kib * 1024
	}
	return total, nil
}

// sharedPages maps a memfd, as the memory of a client is.
func sharedPages(nBytes int) (mem []byte, unmap func(), err error) {
	fd, err := unix.MemfdCreate("bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(nBytes)); err != nil {
		return nil, nil, err
	}
	mem, err = unix.Mmap(fd, 0, nBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return mem, func() { _ = unix.Munmap(mem) }, err
}

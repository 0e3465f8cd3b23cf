package arena

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// transparentFile is where the kernel says whether memory may have transparent huge pages.
func transparentFile(shared bool) (path, allows string) {
	if shared {
		return "/sys/kernel/mm/transparent_hugepage/shmem_enabled", "advise"
	}
	return "/sys/kernel/mm/transparent_hugepage/enabled", "madvise"
}

func noTransparent(shared bool) string {
	path, allows := transparentFile(shared)
	return fmt.Sprintf("no transparent huge pages: copies and look-ups cost more; echo %s > %s allows them", allows, path)
}

// transparent reports whether memory may have transparent huge pages.
func transparent(shared bool) bool {
	path, _ := transparentFile(shared)
	_, rest, _ := strings.Cut(readText(path), "[")
	mode, _, _ := strings.Cut(rest, "]")
	return mode != "" && mode != "never" && mode != "deny"
}

// EnoughMemory refuses what would make the kernel kill this process or another:
// more than the machine has left, or than a control group above this process
// may have at all. Where the kernel does not tell, it allows.
func EnoughMemory(nBytes int64) error {
	if left, ok := memoryLeft(readText("/proc/meminfo")); ok && left < nBytes {
		return fmt.Errorf("%w: %d bytes, but %d bytes of memory are available; give a smaller size", ErrSize, nBytes, left)
	}
	if limit, ok := groupLimit("/sys/fs/cgroup", readText("/proc/self/cgroup")); ok && limit < nBytes {
		return fmt.Errorf("%w: %d bytes, but the control group may have %d; give a smaller size, or the container more", ErrSize, nBytes, limit)
	}
	return nil
}

// readText is a file's content, "" if it cannot be read.
func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// memoryLeft is the available memory by the text of meminfo.
func memoryLeft(meminfo string) (nBytes int64, ok bool) {
	for line := range strings.Lines(meminfo) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// groupLimit is the smallest limit of memory on the way from the control group
// (version 2) in the text of /proc/self/cgroup up to root.
func groupLimit(root, self string) (nBytes int64, ok bool) {
	for line := range strings.Lines(self) {
		group, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !found {
			continue
		}
		for {
			limit, err := strconv.ParseInt(strings.TrimSpace(readText(filepath.Join(root, group, "memory.max"))), 10, 64)
			if err == nil && (!ok || limit < nBytes) { // no limit reads max
				nBytes, ok = limit, true
			}
			if group == "/" || group == "." {
				return nBytes, ok
			}
			group = path.Dir(group)
		}
	}
	return 0, false
}

// hugeBytes counts what of mem is mapped in huge pages, 0 if the kernel does
// not tell.
func hugeBytes(mem []byte) int64 {
	return hugeBytesIn(readText("/proc/self/smaps"), uint64(addressOf(mem)), uint64(len(mem)))
}

// hugeBytesIn is hugeBytes for n bytes at start, by the text of smaps.
func hugeBytesIn(smaps string, start, n uint64) (sum int64) {
	ours := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if !strings.HasSuffix(fields[0], ":") { // the head of a mapping: its addresses
			low, _, _ := strings.Cut(fields[0], "-")
			at, err := strconv.ParseUint(low, 16, 64)
			ours = err == nil && at >= start && at-start < n
			continue
		}
		if ours && (fields[0] == "ShmemPmdMapped:" || fields[0] == "AnonHugePages:") && len(fields) > 1 {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += kib << 10
		}
	}
	return sum
}

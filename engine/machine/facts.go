package machine

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Facts are what a result depends on. Texts are "" and numbers -1 where unknown.
type Facts struct {
	Kernel      string
	CPU         string // model
	Cores       int    // that Go uses
	MemoryBytes int64
	Mount       Mount   // that the path lies on; none for a block device
	Drives      []Drive // below the path
}

// FactsOf gathers them for a file, a folder or a block device. A path that does
// not exist yet is taken for the nearest folder above it.
func (s System) FactsOf(path string) Facts {
	f := Facts{Kernel: s.Text("proc/sys/kernel/osrelease"), CPU: s.cpu(), Cores: runtime.NumCPU(), MemoryBytes: s.memory()}
	path = nearest(path)
	if device := blockDevice(path); device != "" {
		f.Drives = s.DrivesBelow(device)
		return f
	}
	f.Mount = s.MountOf(path)
	f.Drives = s.DrivesOf(f.Mount)
	return f
}

// nearest is path, absolute and without links, or the nearest folder above that
// exists.
func nearest(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return "/"
	}
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil || path == filepath.Dir(path) {
			return real
		}
		path = filepath.Dir(path)
	}
}

// cpu is the model of the first processor.
func (s System) cpu() string {
	_, model, _ := strings.Cut(s.Field("proc/cpuinfo", "model name"), ":")
	return strings.TrimSpace(model)
}

// memory reads a line such as "MemTotal:  24684084 kB".
func (s System) memory() int64 {
	number, unit, _ := strings.Cut(s.Field("proc/meminfo", "MemTotal:"), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || unit != "kB" {
		return -1
	}
	return n << 10
}

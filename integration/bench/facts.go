package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spillway-kv/spillway/engine"
)

// facts say where the numbers come from.
type facts struct {
	Kernel      string  `json:"kernel"`
	FileSystem  string  `json:"file_system"`
	DirectIO    bool    `json:"direct_io"`
	StoreDevice string  `json:"store_device"`
	CPU         string  `json:"cpu"`
	Cores       int     `json:"cores"`
	Memory      string  `json:"memory"`
	Drive       string  `json:"drive"`
	LoadAverage float64 `json:"load_average"` // before the first item
	Fio         string  `json:"fio"`
	Go          string  `json:"go"`
}

// factsOf asks the system, and a small store in dir.
func factsOf(ctx context.Context, dir string) (facts, error) {
	probe := filepath.Join(dir, "probe")
	s, err := engine.Open(engine.Options{Dir: probe, CapacityBytes: 256 << 20})
	if err != nil {
		return facts{}, err
	}
	st := s.Stat()
	f := facts{
		Kernel:      firstLine("/proc/sys/kernel/osrelease"),
		FileSystem:  st.FileSystem,
		DirectIO:    st.DirectIO,
		StoreDevice: st.Device,
		CPU:         field("/proc/cpuinfo", "model name"),
		Cores:       runtime.NumCPU(),
		Memory:      field("/proc/meminfo", "MemTotal"),
		Drive:       driveOf(ctx, dir),
		LoadAverage: loadAverage(),
		Fio:         output(ctx, "fio", "--version"),
		Go:          runtime.Version(),
	}
	return f, errors.Join(s.Close(), os.RemoveAll(probe))
}

func (f facts) String() string {
	return fmt.Sprintf("Kernel %s, %s, direct I/O %t, store on %s; %s, %d cores, memory %s; drive %s; load average %.1f before the first item; %s, %s.",
		f.Kernel, f.FileSystem, f.DirectIO, f.StoreDevice, f.CPU, f.Cores, f.Memory, f.Drive, f.LoadAverage, f.Fio, f.Go)
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// field is the value of the first "name: value" line.
func field(path, name string) string {
	text, _ := os.ReadFile(path) // an empty one has no such line
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func output(ctx context.Context, name string, args ...string) string {
	out, err := command(ctx, name, args...)
	if err != nil {
		return "unknown"
	}
	return out
}

// commit names the source, with a mark if it was changed.
func commit(ctx context.Context) string {
	hash := output(ctx, "git", "rev-parse", "--short=12", "HEAD")
	if output(ctx, "git", "status", "--porcelain", "--", ":!docs") != "" { // the results lie in docs
		hash += "-dirty"
	}
	return hash
}

// driveOf names the block device below dir, with its model where it has one.
func driveOf(ctx context.Context, dir string) string {
	source := output(ctx, "findmnt", "-no", "SOURCE", "-T", dir)
	name := filepath.Base(source)
	model := firstLine(filepath.Join("/sys/class/block", name, "device/model"))
	kind := map[string]string{"0": "not rotational", "1": "said to be rotational"}[firstLine(filepath.Join("/sys/class/block", name, "queue/rotational"))]
	if model == "unknown" && strings.HasPrefix(name, "vd") {
		model = "virtual disk"
	}
	return fmt.Sprintf("%s, model %s, %s", source, strings.TrimSpace(model), kind)
}

// loadAverage is that of the last minute.
func loadAverage() (load float64) {
	if _, err := fmt.Sscan(firstLine("/proc/loadavg"), &load); err != nil {
		return -1
	}
	return load
}

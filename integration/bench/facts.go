package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spillway-kv/spillway/engine"
)

// facts say where the numbers come from.
type facts struct {
	Kernel      string `json:"kernel"`
	FileSystem  string `json:"file_system"`
	DirectIO    bool   `json:"direct_io"`
	StoreDevice string `json:"store_device"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	Memory      string `json:"memory"`
	Drive       string `json:"drive"`
	Fio         string `json:"fio"`
	Go          string `json:"go"`
}

func factsOf(dir string, st engine.Stat) facts {
	return facts{
		Kernel:      firstLine("/proc/sys/kernel/osrelease"),
		FileSystem:  st.FileSystem,
		DirectIO:    st.DirectIO,
		StoreDevice: st.Device,
		CPU:         field("/proc/cpuinfo", "model name"),
		Cores:       runtime.NumCPU(),
		Memory:      field("/proc/meminfo", "MemTotal"),
		Drive:       driveOf(dir),
		Fio:         output("fio", "--version"),
		Go:          runtime.Version(),
	}
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

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// driveOf names the block device below dir, with its model where it has one.
func driveOf(dir string) string {
	source := output("findmnt", "-no", "SOURCE", "-T", dir)
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

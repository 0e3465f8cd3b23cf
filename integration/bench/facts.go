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
	"github.com/spillway-kv/spillway/engine/machine"
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
	st, m := s.Stat(), machine.This().FactsOf(dir)
	f := facts{
		Kernel:      known(m.Kernel),
		FileSystem:  st.FileSystem,
		DirectIO:    st.DirectIO,
		StoreDevice: st.Device,
		CPU:         known(m.CPU),
		Cores:       m.Cores,
		Memory:      fmt.Sprintf("%d kB", m.MemoryBytes>>10),
		Drive:       driveOf(m),
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

func known(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
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

// driveOf names what the directory lies on, with the first drive's model where it
// has one.
func driveOf(m machine.Facts) string {
	var drive machine.Drive
	if len(m.Drives) > 0 {
		drive = m.Drives[0]
	}
	model := known(drive.Model)
	if drive.Model == "" && strings.HasPrefix(drive.Name, "vd") {
		model = "virtual disk"
	}
	kind := map[int64]string{0: "not rotational", 1: "said to be rotational"}[drive.Rotational]
	return fmt.Sprintf("%s, model %s, %s", m.Mount.Source, model, kind)
}

// loadAverage is that of the last minute.
func loadAverage() (load float64) {
	if _, err := fmt.Sscan(machine.This().Text("proc/loadavg"), &load); err != nil {
		return -1
	}
	return load
}

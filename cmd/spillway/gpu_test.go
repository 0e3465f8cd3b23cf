package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

// plugged is a folder of /sys with a GPU where the stand-in for CUDA has its own,
// on a link of half its width, and one that CUDA does not see.
func plugged(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range map[string]string{
		"0000:ab:00.0/vendor": "0x10de", "0000:ab:00.0/class": "0x030200", "0000:ab:00.0/device": "0x2335", "0000:ab:00.0/numa_node": "1",
		"0000:ab:00.0/current_link_speed": "32.0 GT/s PCIe", "0000:ab:00.0/current_link_width": "8",
		"0000:ab:00.0/max_link_speed": "32.0 GT/s PCIe", "0000:ab:00.0/max_link_width": "16",
		"0000:01:00.0/vendor": "0x10de", "0000:01:00.0/class": "0x030000", "0000:01:00.0/device": "0x2204",
	} {
		path = filepath.Join(root, "sys/bus/pci/devices", path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestGPU(t *testing.T) {
	library, root := gputest.CUDA(t, "DEVICES=1", "BATCH=0"), plugged(t)
	sources := &gpuSources{
		driver:  func() (gpu.Driver, error) { return gpu.OpenCUDA(library) },
		monitor: func() gpu.Monitor { return gpu.SysfsMonitor(root, errors.New("no NVML today")) },
	}
	got := process{t: t, gpus: sources}.run("gpu").want(t, exitPass, "0000:ab:00.0  Stub H200", "").stdout
	for _, want := range []string{"gen 5 x8", "gen 5 x16", "64 MiB", "2 by sysfs", "API 12.0", "no NVML today", "has 8 lanes of 16",
		"0000:01:00.0 is not seen by CUDA", "0000:01:00.0 has none", "batch copies"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Index(got, "0000:01") > strings.Index(got, "0000:ab") {
		t.Error("not in order")
	}
	v := process{t: t, gpus: sources}.run("gpu", "--json").want(t, exitPass, "", "").object(t, "gpu")
	gpus := v["gpus"].([]any)
	first, second := gpus[0].(map[string]any), gpus[1].(map[string]any)
	if len(gpus) != 2 || first["cuda_index"] != nil || second["cuda_index"] != 0.0 || second["numa_node"] != 1.0 ||
		second["compute_capability"] != "9.0" || second["memory_bytes"] != float64(64<<20) || v["cuda"] != "12.0" || v["warn"] != 5.0 {
		t.Errorf("got %v", v)
	}
}

// TestNoGPU: a machine without a GPU is no error, and is told what is missing.
func TestNoGPU(t *testing.T) {
	sources := &gpuSources{
		driver:  func() (gpu.Driver, error) { return gpu.OpenCUDA(filepath.Join(t.TempDir(), "libcuda.so.1")) },
		monitor: func() gpu.Monitor { return gpu.SysfsMonitor(t.TempDir(), errors.New("no NVML today")) },
	}
	got := process{t: t, gpus: sources}.run("gpu").want(t, exitPass, "no GPU\n", "").stdout
	for _, want := range []string{"install the NVIDIA driver", "lspci -d 10de:", "a store needs no GPU"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	v := process{t: t, gpus: sources}.run("gpu", "--json").want(t, exitPass, "", "").object(t, "gpu")
	if gpus, ok := v["gpus"].([]any); !ok || len(gpus) != 0 || v["cuda"] != "" || v["warn"] != 3.0 {
		t.Errorf("got %v", v)
	}
}

// TestGPUHere runs the command as it is on this machine.
func TestGPUHere(t *testing.T) {
	process{t: t}.run("gpu").want(t, exitPass, "cuda", "")
	process{t: t}.run("gpu", "--json").want(t, exitPass, "", "").object(t, "gpu")
}

package gpucheck

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

// TestFacts says where all else was measured.
func TestFacts(t *testing.T) {
	for _, path := range []string{"/proc/sys/kernel/osrelease", "/proc/sys/kernel/io_uring_disabled", "/proc/driver/nvidia/version",
		"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/shmem_enabled", "/sys/devices/system/node/online"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Logf("INFO %s: %v", path, err)
			continue
		}
		t.Logf("INFO %s: %s", path, strings.TrimSpace(string(text)))
	}
	t.Logf("INFO io_uring: %v (nil: allowed; else the store uses psync)", device.ProbeUring())
	driver, _ := openDriver(t)
	for _, info := range driver.Devices() {
		t.Logf("INFO API %d: %+v", driver.Version(), info)
		report(t, finding{Name: info.Name, Value: float64(info.MemoryBytes) / gib, Unit: "GiB", Text: fmt.Sprintf("CUDA %d, %s", driver.Version(), info.PCIBusID)})
		if real && !info.RegisterHost {
			t.Error("host memory cannot be registered")
		}
	}
}

// TestMonitor asks for every fact: values, or a typed refusal.
func TestMonitor(t *testing.T) {
	m := openMonitor(t)
	defer m.Close()
	t.Logf("INFO by %s; NVML is missing: %v", m.Source(), m.Missing())
	n, err := m.Count()
	if err != nil || real && n == 0 {
		t.Fatalf("%d GPUs, %v", n, err)
	}
	check := func(what string, value any, err error) {
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
			return
		}
		t.Logf("INFO %s: %v, %v", what, value, err)
	}
	version, err := m.DriverVersion()
	check("driver", version, err)
	report(t, finding{Name: "facts by " + m.Source(), Text: "driver " + version})
	for i := range n {
		name, err := m.Name(i)
		check("name", name, err)
		uuid, err := m.UUID(i)
		check("UUID", uuid, err)
		id, err := m.PCIBusID(i)
		check("PCI bus id", id, err)
		node, err := m.NUMANode(i)
		check("NUMA node", node, err)
		link, err := m.Link(i)
		check("link", link, err)
		free, total, err := m.Memory(i)
		check("memory", [2]uint64{free, total}, err)
		width, clock, err := m.MemoryBus(i)
		check("memory bus in bits and MHz", [2]int{width, clock}, err)
		energy, err := m.EnergyMJ(i)
		check("energy in mJ", energy, err)
		degrees, err := m.TemperatureC(i)
		check("temperature", degrees, err)
	}
}

// TestDriver runs the suite of package gpu.
func TestDriver(t *testing.T) {
	driver, _ := openDriver(t)
	gputest.Run(t, driver)
}

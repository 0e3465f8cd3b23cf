package gpu_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spillway-kv/spillway/tiering/gpu"
)

// pciTree is a machine with two GPUs, one of them without a driver, and a
// network card.
func pciTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range map[string]string{
		"sys/bus/pci/devices/0000:18:00.0/vendor":             "0x10de\n",
		"sys/bus/pci/devices/0000:18:00.0/class":              "0x030200\n",
		"sys/bus/pci/devices/0000:18:00.0/device":             "0x2335\n",
		"sys/bus/pci/devices/0000:18:00.0/numa_node":          "1\n",
		"sys/bus/pci/devices/0000:18:00.0/current_link_speed": "2.5 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:18:00.0/current_link_width": "16\n",
		"sys/bus/pci/devices/0000:18:00.0/max_link_speed":     "32.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:18:00.0/max_link_width":     "16\n",
		"sys/bus/pci/devices/0000:2a:00.0/vendor":             "0x10de\n",
		"sys/bus/pci/devices/0000:2a:00.0/class":              "0x030000\n",
		"sys/bus/pci/devices/0000:2a:00.0/device":             "0x2204\n",
		"sys/bus/pci/devices/0000:2a:00.1/vendor":             "0x10de\n", // its sound
		"sys/bus/pci/devices/0000:2a:00.1/class":              "0x040300\n",
		"sys/bus/pci/devices/0000:3b:00.0/vendor":             "0x15b3\n",
		"sys/bus/pci/devices/0000:3b:00.0/class":              "0x020000\n",
		"proc/driver/nvidia/gpus/0000:18:00.0/information":    "Model: \t\t NVIDIA H200\nIRQ:   5\nGPU UUID: \t GPU-1-2\n",
		"sys/module/nvidia/version":                           "580.65.06\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSysfs(t *testing.T) {
	m := gpu.SysfsMonitor(pciTree(t), errors.New("none today"))
	defer m.Close()
	if n, err := m.Count(); n != 2 || err != nil || m.Source() != "sysfs" || m.Missing() == nil {
		t.Fatalf("%d, %v, %s", n, err, m.Source())
	}
	if v, err := m.DriverVersion(); v != "580.65.06" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	for i, want := range []struct {
		name, id, uuid string
		node           int
		link           gpu.Link
	}{
		{"NVIDIA H200", "0000:18:00.0", "GPU-1-2", 1, gpu.Link{Generation: 1, Width: 16, GenerationMax: 5, WidthMax: 16}},
		{"NVIDIA device 0x2204", "0000:2a:00.0", "", -1, gpu.Link{}},
	} {
		name, err1 := m.Name(i)
		id, err2 := m.PCIBusID(i)
		node, err3 := m.NUMANode(i)
		if err := errors.Join(err1, err2, err3); err != nil || name != want.name || id != want.id || node != want.node {
			t.Errorf("%d: %q %q %d, %v", i, name, id, node, err)
		}
		uuid, err := m.UUID(i)
		if uuid != want.uuid || (uuid == "") != errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%d: %q, %v", i, uuid, err)
		}
		link, err := m.Link(i)
		if link != want.link || (link == gpu.Link{}) != errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%d: %+v, %v", i, link, err)
		}
		unsupported(t, m, i)
	}
	if _, err := m.Name(2); err == nil {
		t.Error("a third GPU")
	}
	if _, err := m.PCIBusID(-1); err == nil {
		t.Error("one before the first")
	}
	if n, err := gpu.SysfsMonitor(t.TempDir(), nil).Count(); n != 0 || err != nil {
		t.Errorf("without PCI: %d, %v", n, err)
	}
}

func unsupported(t *testing.T, m gpu.Monitor, i int) {
	t.Helper()
	_, _, err1 := m.Memory(i)
	_, err2 := m.EnergyMJ(i)
	_, err3 := m.TemperatureC(i)
	_, _, err4 := m.MemoryBus(i)
	for _, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
}

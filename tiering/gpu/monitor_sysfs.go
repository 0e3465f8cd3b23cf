package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sysfs is a Monitor that needs neither NVML nor a driver.
type sysfs struct {
	root    string
	missing error
	gpus    []pciDevice
}

const sourceSysfs = "sysfs"

// SysfsMonitor tells what /sys and /proc below root know: all that the placement
// of memory needs, without use of memory, energy and temperature. It finds GPUs
// without a driver too. missing is why no better source serves.
func SysfsMonitor(root string, missing error) Monitor {
	m := &sysfs{root: root, missing: missing}
	entries, err := os.ReadDir(filepath.Join(root, "sys/bus/pci/devices"))
	if err != nil {
		return m // no PCI, no GPUs
	}
	for _, e := range entries {
		d := pciDevice{root, e.Name()}
		class := d.text("class")
		// Display controllers: VGA (0300) and 3D (0302).
		if d.text("vendor") == "0x10de" && (strings.HasPrefix(class, "0x0300") || strings.HasPrefix(class, "0x0302")) {
			m.gpus = append(m.gpus, d)
		}
	}
	slices.SortFunc(m.gpus, func(a, b pciDevice) int { return strings.Compare(a.id, b.id) })
	return m
}

func (m *sysfs) Source() string { return sourceSysfs }

func (m *sysfs) Missing() error { return m.missing }

func (m *sysfs) DriverVersion() (string, error) {
	if version := readText(m.root, "sys/module/nvidia/version"); version != "" {
		return version, nil
	}
	return "", unsupported("driver version", sourceSysfs)
}

func (m *sysfs) Count() (int, error) { return len(m.gpus), nil }

func (m *sysfs) gpu(index int) (pciDevice, error) {
	if index < 0 || index >= len(m.gpus) {
		return pciDevice{}, noSuchGPU(index, len(m.gpus))
	}
	return m.gpus[index], nil
}

// information is a line of what the driver, if it is loaded, says of a GPU.
func (d pciDevice) information(name string) string {
	for line := range strings.Lines(readText(d.root, "proc/driver/nvidia/gpus", d.id, "information")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (m *sysfs) Name(index int) (string, error) {
	d, err := m.gpu(index)
	if err != nil {
		return "", err
	}
	if name := d.information("Model"); name != "" {
		return name, nil
	}
	return "NVIDIA device " + d.text("device"), nil
}

func (m *sysfs) UUID(index int) (string, error) {
	d, err := m.gpu(index)
	if err != nil {
		return "", err
	}
	uuid := d.information("GPU UUID")
	if uuid == "" || strings.Contains(uuid, "?") { // not yet known
		return "", unsupported("UUID", sourceSysfs)
	}
	return uuid, nil
}

func (m *sysfs) PCIBusID(index int) (string, error) {
	d, err := m.gpu(index)
	return d.id, err
}

func (m *sysfs) NUMANode(index int) (int, error) {
	d, err := m.gpu(index)
	if err != nil {
		return 0, err
	}
	return d.numaNode(), nil
}

func (m *sysfs) Link(index int) (Link, error) {
	d, err := m.gpu(index)
	if err != nil {
		return Link{}, err
	}
	if link := d.link(); link != (Link{}) {
		return link, nil
	}
	return Link{}, unsupported("PCIe link", sourceSysfs)
}

func (m *sysfs) Memory(int) (freeBytes, totalBytes uint64, err error) {
	return 0, 0, unsupported("memory", sourceSysfs)
}

func (m *sysfs) EnergyMJ(int) (uint64, error) { return 0, unsupported("energy", sourceSysfs) }

func (m *sysfs) MemoryBus(int) (widthBits, clockMaxMHz int, err error) {
	return 0, 0, unsupported("memory bus", sourceSysfs)
}

func (m *sysfs) TemperatureC(int) (int, error) { return 0, unsupported("temperature", sourceSysfs) }

func (m *sysfs) Close() {}

//go:build cgo

package gpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlMonitor is a Monitor by NVML. The library is bound lazily: a call before
// its start, after its end, or of a symbol that it lacks ends the process and
// nothing can recover. So every call goes through ask, which lets none of these
// pass.
type nvmlMonitor struct {
	library nvml.Interface

	mu     sync.RWMutex // held for reading during a call, for writing by Close
	closed bool
}

const sourceNVML = "nvml"

// errMonitorClosed: the monitor was closed.
var errMonitorClosed = errors.New("gpu: monitor closed")

// Symbols without which NVML is of no use: without the last, asking an error
// for its text would end the process.
var neededSymbols = []string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlErrorString"}

// OpenMonitor gives a Monitor by NVML, or by /sys if NVML is not to be had. A
// path names the library in place of the usual one. One library per process: the
// first that was bound serves for ever.
func OpenMonitor(path ...string) Monitor {
	var options []nvml.LibraryOption
	for _, p := range path {
		options = append(options, nvml.WithLibraryPath(p))
	}
	library := nvml.New(options...)
	if r := library.Init(); r != nvml.SUCCESS {
		return SysfsMonitor("/", whyNot(library, r))
	}
	n := &nvmlMonitor{library: library}
	for _, symbol := range neededSymbols {
		if err := library.Extensions().LookupSymbol(symbol); err != nil {
			n.Close()
			return SysfsMonitor("/", fmt.Errorf("gpu: NVML is too old: %w", err))
		}
	}
	return n
}

// whyNot names what Init answered, without asking a library that may not know.
func whyNot(library nvml.Interface, r nvml.Return) error {
	switch r {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return &NoGPUError{Cause: errors.New("libnvidia-ml.so.1 was not found"), Remedy: installDriver}
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return &NoGPUError{Cause: errors.New("the kernel's driver is not loaded"), Remedy: "modprobe nvidia; a container needs --gpus all"}
	case nvml.ERROR_NO_PERMISSION:
		return &NoGPUError{Cause: errors.New("no permission to talk to the driver"), Remedy: "ls -l /dev/nvidia*; allow this user to read and write them"}
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return &NoGPUError{Cause: errors.New("the driver's library and kernel module differ"), Remedy: "reboot after the update, or use an image that fits"}
	}
	if library.Extensions().LookupSymbol("nvmlErrorString") != nil {
		return fmt.Errorf("gpu: NVML did not start: %d", int32(r))
	}
	return fmt.Errorf("gpu: NVML did not start: %w (%d)", r, int32(r))
}

// ask makes a call of NVML if the library is open and has the symbol.
func (m *nvmlMonitor) ask(what, symbol string, call func() nvml.Return) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return errMonitorClosed
	}
	if m.library.Extensions().LookupSymbol(symbol) != nil {
		return unsupported(what, "this driver's NVML")
	}
	switch r := call(); r {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND:
		return unsupported(what, "this GPU")
	default:
		return fmt.Errorf("gpu: %s: %w (%d)", what, r, int32(r))
	}
}

// askGPU is ask of one GPU.
func (m *nvmlMonitor) askGPU(index int, what, symbol string, call func(nvml.Device) nvml.Return) error {
	return m.ask(what, symbol, func() nvml.Return {
		device, r := m.library.DeviceGetHandleByIndex(index)
		if r != nvml.SUCCESS {
			return r
		}
		return call(device)
	})
}

func (m *nvmlMonitor) Source() string { return sourceNVML }

func (m *nvmlMonitor) Missing() error { return nil }

func (m *nvmlMonitor) DriverVersion() (version string, err error) {
	err = m.ask("driver version", "nvmlSystemGetDriverVersion", func() (r nvml.Return) {
		version, r = m.library.SystemGetDriverVersion()
		return r
	})
	return version, err
}

func (m *nvmlMonitor) Count() (count int, err error) {
	err = m.ask("count", "nvmlDeviceGetCount_v2", func() (r nvml.Return) {
		count, r = m.library.DeviceGetCount()
		return r
	})
	return count, err
}

func (m *nvmlMonitor) Name(index int) (name string, err error) {
	err = m.askGPU(index, "name", "nvmlDeviceGetName", func(d nvml.Device) (r nvml.Return) {
		name, r = d.GetName()
		return r
	})
	return name, err
}

func (m *nvmlMonitor) UUID(index int) (uuid string, err error) {
	err = m.askGPU(index, "UUID", "nvmlDeviceGetUUID", func(d nvml.Device) (r nvml.Return) {
		uuid, r = d.GetUUID()
		return r
	})
	return uuid, err
}

func (m *nvmlMonitor) PCIBusID(index int) (id string, err error) {
	err = m.askGPU(index, "PCI bus id", "nvmlDeviceGetPciInfo_v3", func(d nvml.Device) nvml.Return {
		info, r := d.GetPciInfo()
		id = busID(text(info.BusId[:]))
		return r
	})
	return id, err
}

// NUMANode is from /sys: NVML's own answer is about the memory of Grace's GPUs.
func (m *nvmlMonitor) NUMANode(index int) (int, error) {
	id, err := m.PCIBusID(index)
	if err != nil {
		return 0, err
	}
	return pciDevice{"/", id}.numaNode(), nil
}

func (m *nvmlMonitor) Link(index int) (link Link, err error) {
	for _, part := range []struct {
		symbol string
		at     *int
		get    func(nvml.Device) (int, nvml.Return)
	}{
		{"nvmlDeviceGetCurrPcieLinkGeneration", &link.Generation, nvml.Device.GetCurrPcieLinkGeneration},
		{"nvmlDeviceGetCurrPcieLinkWidth", &link.Width, nvml.Device.GetCurrPcieLinkWidth},
		{"nvmlDeviceGetMaxPcieLinkGeneration", &link.GenerationMax, nvml.Device.GetMaxPcieLinkGeneration},
		{"nvmlDeviceGetMaxPcieLinkWidth", &link.WidthMax, nvml.Device.GetMaxPcieLinkWidth},
	} {
		if err := m.askGPU(index, "PCIe link", part.symbol, func(d nvml.Device) (r nvml.Return) {
			*part.at, r = part.get(d)
			return r
		}); err != nil {
			return Link{}, err
		}
	}
	return link, nil
}

func (m *nvmlMonitor) Memory(index int) (freeBytes, totalBytes uint64, err error) {
	err = m.askGPU(index, "memory", "nvmlDeviceGetMemoryInfo_v2", func(d nvml.Device) nvml.Return {
		memory, r := d.GetMemoryInfo_v2()
		freeBytes, totalBytes = memory.Free, memory.Total
		return r
	})
	return freeBytes, totalBytes, err
}

func (m *nvmlMonitor) MemoryBus(index int) (widthBits, clockMaxMHz int, err error) {
	err = m.askGPU(index, "memory bus", "nvmlDeviceGetMemoryBusWidth", func(d nvml.Device) nvml.Return {
		width, r := d.GetMemoryBusWidth()
		widthBits = int(width)
		return r
	})
	if err != nil {
		return 0, 0, err
	}
	err = m.askGPU(index, "memory clock", "nvmlDeviceGetMaxClockInfo", func(d nvml.Device) nvml.Return {
		clock, r := d.GetMaxClockInfo(nvml.CLOCK_MEM)
		clockMaxMHz = int(clock)
		return r
	})
	return widthBits, clockMaxMHz, err
}

func (m *nvmlMonitor) EnergyMJ(index int) (energyMJ uint64, err error) {
	err = m.askGPU(index, "energy", "nvmlDeviceGetTotalEnergyConsumption", func(d nvml.Device) (r nvml.Return) {
		energyMJ, r = d.GetTotalEnergyConsumption()
		return r
	})
	return energyMJ, err
}

func (m *nvmlMonitor) TemperatureC(index int) (degrees int, err error) {
	err = m.askGPU(index, "temperature", "nvmlDeviceGetTemperature", func(d nvml.Device) nvml.Return {
		t, r := d.GetTemperature(nvml.TEMPERATURE_GPU)
		degrees = int(t)
		return r
	})
	return degrees, err
}

func (m *nvmlMonitor) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	_ = m.library.Shutdown() // there is nothing to do about it
}

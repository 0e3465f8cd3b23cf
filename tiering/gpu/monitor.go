package gpu

import (
	"errors"
	"fmt"
)

// Monitor tells facts about the GPUs of a machine. Its indexes are its own: a
// GPU is the same as a Driver's if its PCI bus id is. Its methods may be called
// from many goroutines, and after Close, when they fail. A fact that is not to be
// had answers an error matching errors.ErrUnsupported.
type Monitor interface {
	// Source is where the facts come from: nvml or sysfs.
	Source() string
	// Missing says why the source is not nvml; nil if it is.
	Missing() error
	// DriverVersion is that of the kernel's driver, such as 580.65.06.
	DriverVersion() (string, error)
	// Count is the number of GPUs.
	Count() (int, error)
	// Name is the maker's name of a GPU.
	Name(index int) (string, error)
	// UUID is GPU- and a UUID.
	UUID(index int) (string, error)
	// PCIBusID is as in /sys/bus/pci/devices, 0000:18:00.0.
	PCIBusID(index int) (string, error)
	// NUMANode is the memory node that a GPU is near to; -1: the machine has no
	// opinion.
	NUMANode(index int) (int, error)
	// Link is the PCIe link to a GPU. Its generation drops while nothing is copied.
	Link(index int) (Link, error)
	// Memory is what is free on a GPU, and all it has, in bytes.
	Memory(index int) (freeBytes, totalBytes uint64, err error)
	// MemoryBus is the width of the bus to a GPU's memory, in bits, and the highest
	// clock of that memory, in MHz. It moves bits at twice the clock.
	MemoryBus(index int) (widthBits, clockMaxMHz int, err error)
	// EnergyMJ is what a GPU has used since the driver was loaded, in millijoules.
	EnergyMJ(index int) (uint64, error)
	// TemperatureC of a GPU, in degrees Celsius.
	TemperatureC(index int) (int, error)
	// Close ends it. More than one call has no effect.
	Close()
}

// Link is a PCIe link: now, and at most; 0 is unknown.
type Link struct {
	Generation, Width       int
	GenerationMax, WidthMax int
}

// ErrNotBuilt: NVML is not used because this build cannot.
var ErrNotBuilt = errors.New("gpu: this build is without cgo, which NVML needs")

func unsupported(what, source string) error {
	return fmt.Errorf("gpu: %s: %w by %s", what, errors.ErrUnsupported, source)
}

func noSuchGPU(index, count int) error {
	return fmt.Errorf("gpu: no GPU %d of %d", index, count)
}

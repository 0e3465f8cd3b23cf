package gpu

import (
	"errors"
	"fmt"
	"unsafe"
)

// cuda is the driver of this machine.
type cuda struct {
	symbols *symbols
	version int
	devices []Info
	handles []int32 // CUdevice
}

// OpenCUDA loads the driver's library and starts it. Without paths it looks in
// the usual places. A machine without a usable GPU, or driver, answers with a
// *NoGPUError. A library that was loaded stays loaded for ever.
func OpenCUDA(paths ...string) (Driver, error) {
	if len(paths) == 0 {
		paths = usualPaths
	}
	s, err := load(paths)
	if err != nil {
		return nil, err
	}
	c := &cuda{symbols: s}
	if err := c.start(); err != nil {
		var answer *Error
		if errors.As(err, &answer) && known[answer.Code].noGPU {
			return nil, &NoGPUError{Cause: &Error{Call: answer.Call, Code: answer.Code, Name: answer.Name}, Remedy: answer.Remedy()}
		}
		return nil, err
	}
	return c, nil
}

func (c *cuda) start() error {
	s := c.symbols
	if err := s.check("cuInit", s.init, 0); err != nil {
		return err
	}
	var version, count int32
	if err := s.check("cuDriverGetVersion", s.driverVersion, uintptr(unsafe.Pointer(&version))); err != nil {
		return err
	}
	c.version = int(version)
	if err := s.check("cuDeviceGetCount", s.deviceCount, uintptr(unsafe.Pointer(&count))); err != nil {
		return err
	}
	if count < 1 {
		return fault("cuDeviceGetCount", 100)
	}
	for i := range int(count) {
		if err := c.describe(i); err != nil {
			return err
		}
	}
	return nil
}

// Attributes of a device, as CUDA numbers them.
const (
	attributeMajor            = 75
	attributeMinor            = 76
	attributeHostPointer      = 91
	attributeRegisterHost     = 99
	attributeRegisterReadOnly = 113
	attributeDMABuf           = 124
)

func (c *cuda) describe(i int) error {
	s := c.symbols
	var device int32
	if err := s.check("cuDeviceGet", s.deviceGet, uintptr(unsafe.Pointer(&device)), uintptr(i)); err != nil {
		return err
	}
	var name [256]byte
	var bus [32]byte
	var uuid [16]byte
	info := Info{Index: i}
	if err := errors.Join(
		s.check("cuDeviceGetName", s.deviceName, uintptr(unsafe.Pointer(&name)), uintptr(len(name)), uintptr(device)),
		s.check("cuDeviceGetPCIBusId", s.devicePCI, uintptr(unsafe.Pointer(&bus)), uintptr(len(bus)), uintptr(device)),
		s.check("cuDeviceGetUuid", s.deviceUUID, uintptr(unsafe.Pointer(&uuid)), uintptr(device)),
		s.check("cuDeviceTotalMem", s.deviceMemory, uintptr(unsafe.Pointer(&info.MemoryBytes)), uintptr(device)),
	); err != nil {
		return err
	}
	info.Name = text(name[:])
	info.PCIBusID = busID(text(bus[:]))
	info.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
	info.NUMANode = pciDevice{"/", info.PCIBusID}.numaNode()
	info.Major, info.Minor = c.attribute(device, attributeMajor), c.attribute(device, attributeMinor)
	info.HostPointer = c.attribute(device, attributeHostPointer) == 1
	info.RegisterHost = c.attribute(device, attributeRegisterHost) == 1
	info.RegisterReadOnly = c.attribute(device, attributeRegisterReadOnly) == 1
	info.DMABuf = c.attribute(device, attributeDMABuf) == 1
	c.devices, c.handles = append(c.devices, info), append(c.handles, device)
	return nil
}

// attribute is 0 where the driver does not know it.
func (c *cuda) attribute(device int32, number uintptr) int {
	var value int32
	if call(c.symbols.deviceAttribute, uintptr(unsafe.Pointer(&value)), number, uintptr(device)) != 0 {
		return 0
	}
	return int(value)
}

func (c *cuda) Name() string    { return "cuda" }
func (c *cuda) Version() int    { return c.version }
func (c *cuda) Devices() []Info { return append([]Info(nil), c.devices...) }

func (c *cuda) Device(index int) (Device, error) {
	if index < 0 || index >= len(c.devices) {
		return nil, fault("cuDeviceGet", codeInvalidDevice)
	}
	d := &cudaDevice{symbols: c.symbols, info: c.devices[index], handle: c.handles[index]}
	// The primary context is the one that everybody in the process shares.
	if err := d.symbols.check("cuDevicePrimaryCtxRetain", d.symbols.contextRetain,
		uintptr(unsafe.Pointer(&d.context)), uintptr(d.handle)); err != nil {
		return nil, err
	}
	return d, nil
}

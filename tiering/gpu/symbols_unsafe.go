package gpu

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// symbols are the addresses of the driver's functions. Of a name without
// version the library has the oldest form, so each is named exactly. The forms
// for a default stream per thread (_ptsz) are never used: a goroutine has no
// thread of its own.
type symbols struct {
	init, driverVersion, errorName                                    uintptr
	deviceCount, deviceGet, deviceName, deviceAttribute               uintptr
	deviceMemory, deviceUUID, devicePCI                               uintptr
	contextRetain, contextRelease, contextSet                         uintptr
	hostRegister, hostUnregister, memAlloc, memFree, memInfo          uintptr
	streamCreate, streamDestroy, streamWait, copyToDevice, copyToHost uintptr
	copyOnDevice                                                      uintptr
	eventCreate, eventRecord, eventQuery, eventDestroy                uintptr

	addressHandle uintptr // CUDA 11.7

	batch8 uintptr // CUDA 13: 8 arguments
	batch9 uintptr // CUDA 12.8: 9, a fail index before the stream
}

// table names the symbols; the last three may be missing.
func (s *symbols) table() []struct {
	at   *uintptr
	name string
} {
	return []struct {
		at   *uintptr
		name string
	}{
		{&s.init, "cuInit"},
		{&s.driverVersion, "cuDriverGetVersion"},
		{&s.errorName, "cuGetErrorName"},
		{&s.deviceCount, "cuDeviceGetCount"},
		{&s.deviceGet, "cuDeviceGet"},
		{&s.deviceName, "cuDeviceGetName"},
		{&s.deviceAttribute, "cuDeviceGetAttribute"},
		{&s.deviceMemory, "cuDeviceTotalMem_v2"},
		{&s.deviceUUID, "cuDeviceGetUuid_v2"},
		{&s.devicePCI, "cuDeviceGetPCIBusId"},
		{&s.contextRetain, "cuDevicePrimaryCtxRetain"},
		{&s.contextRelease, "cuDevicePrimaryCtxRelease_v2"},
		{&s.contextSet, "cuCtxSetCurrent"},
		{&s.hostRegister, "cuMemHostRegister_v2"},
		{&s.hostUnregister, "cuMemHostUnregister"},
		{&s.memAlloc, "cuMemAlloc_v2"},
		{&s.memFree, "cuMemFree_v2"},
		{&s.memInfo, "cuMemGetInfo_v2"},
		{&s.streamCreate, "cuStreamCreate"},
		{&s.streamDestroy, "cuStreamDestroy_v2"},
		{&s.streamWait, "cuStreamWaitEvent"},
		{&s.copyToDevice, "cuMemcpyHtoDAsync_v2"},
		{&s.copyToHost, "cuMemcpyDtoHAsync_v2"},
		{&s.copyOnDevice, "cuMemcpyDtoDAsync_v2"},
		{&s.eventCreate, "cuEventCreate"},
		{&s.eventRecord, "cuEventRecord"},
		{&s.eventQuery, "cuEventQuery"},
		{&s.eventDestroy, "cuEventDestroy_v2"},
		{&s.addressHandle, "cuMemGetHandleForAddressRange"},
		{&s.batch8, "cuMemcpyBatchAsync_v2"},
		{&s.batch9, "cuMemcpyBatchAsync"},
	}
}

const optionalSymbols = 3 // at the end of the table

// usualPaths are where the driver's library is.
var usualPaths = []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

// load finds the driver's library and its functions.
func load(paths []string) (*symbols, error) {
	var library uintptr
	var errs []error
	for _, path := range paths {
		var err error
		if library, err = purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
			break
		}
		errs = append(errs, err)
	}
	if library == 0 {
		return nil, &NoGPUError{Cause: errors.Join(errs[:1]...), Remedy: installDriver}
	}
	s := new(symbols)
	table := s.table()
	var missing []string
	for i, symbol := range table {
		at, err := purego.Dlsym(library, symbol.name)
		if err != nil && i < len(table)-optionalSymbols {
			missing = append(missing, symbol.name)
		}
		*symbol.at = at
	}
	if missing != nil {
		return nil, &NoGPUError{Cause: fmt.Errorf("the driver lacks %s", strings.Join(missing, ", ")), Remedy: "install a newer NVIDIA driver, of CUDA 11.4 at least"}
	}
	return s, nil
}

// call calls a function that returns a CUresult. That has 32 bits; the upper
// half of the register may hold anything.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) int {
	r, _, _ := purego.SyscallN(fn, args...)
	return int(int32(uint32(r)))
}

// check calls a function and turns what is not success into an *Error. name is
// that of CUDA's documentation.
//
//go:uintptrescapes
func (s *symbols) check(name string, fn uintptr, args ...uintptr) error {
	return s.explain(name, call(fn, args...))
}

// explain is nil for success, else an *Error with the driver's name for it.
func (s *symbols) explain(name string, code int) error {
	if code == 0 {
		return nil
	}
	e := fault(name, code)
	var text *byte
	if call(s.errorName, uintptr(uint32(code)), uintptr(unsafe.Pointer(&text))) == 0 && text != nil {
		e.Name = cString(text)
	}
	return e
}

func cString(at *byte) string {
	const bytesMax = 256
	return text(unsafe.Slice(at, bytesMax)) // it stops at the zero byte
}

func addressOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

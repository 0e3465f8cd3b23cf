package gpu

import (
	"errors"
	"fmt"
)

// ErrNoGPU is matched by the error of a machine without a usable GPU.
var ErrNoGPU = errors.New("gpu: no usable GPU")

// ErrNoDMABuf is matched by the error of a GPU whose memory cannot be exported.
var ErrNoDMABuf = errors.New("gpu: its memory cannot be exported as a dma-buf; that needs a driver of CUDA 11.7 with open kernel modules, and Linux 5.12, or later")

// NoGPUError says why there is no usable GPU. It matches ErrNoGPU.
type NoGPUError struct {
	Cause  error
	Remedy string // what mends it
}

func (e *NoGPUError) Error() string {
	return fmt.Sprintf("%v: %v; %s", ErrNoGPU, e.Cause, e.Remedy)
}

func (e *NoGPUError) Unwrap() []error { return []error{ErrNoGPU, e.Cause} }

// Codes of CUDA that this package gives or acts on.
const (
	codeInvalidValue      = 1
	codeOutOfMemory       = 2
	codeInvalidDevice     = 101
	codeNotReady          = 600
	codeAlreadyRegistered = 712
	codeNotRegistered     = 713
	codeNotSupported      = 801
)

// Error is an answer of the driver.
type Error struct {
	Call string // the function of CUDA
	Code int    // CUDA's number
	Name string // CUDA's name for it
}

func (e *Error) Error() string {
	text := fmt.Sprintf("gpu: %s: %s (%d)", e.Call, e.Name, e.Code)
	if remedy := e.Remedy(); remedy != "" {
		text += "; " + remedy
	}
	return text
}

// Remedy says what to do about the common ones, "" about the rest.
func (e *Error) Remedy() string { return known[e.Code].remedy }

// fault is an Error with the name we know.
func fault(call string, code int) *Error {
	name := known[code].name
	if name == "" {
		name = "CUDA error"
	}
	return &Error{Call: call, Code: code, Name: name}
}

const installDriver = "install the NVIDIA driver; a container needs --gpus all"

// known are the codes of which more than the name can be said. A code that
// means "no GPU" when the driver starts is marked.
var known = map[int]struct {
	name, remedy string
	noGPU        bool
}{
	1:   {"CUDA_ERROR_INVALID_VALUE", "an argument is wrong; host memory of a copy must lie within one registration", false},
	2:   {"CUDA_ERROR_OUT_OF_MEMORY", "free memory of the GPU (nvidia-smi shows who has it), or registered host memory", false},
	3:   {"CUDA_ERROR_NOT_INITIALIZED", "", false},
	34:  {"CUDA_ERROR_STUB_LIBRARY", "the toolkit's stub was found in place of the driver's library: take its folder out of LD_LIBRARY_PATH", true},
	46:  {"CUDA_ERROR_DEVICE_UNAVAILABLE", "another process has the GPU for itself: nvidia-smi -c DEFAULT", true},
	100: {"CUDA_ERROR_NO_DEVICE", "ls /dev/nvidia*; a container needs --gpus all; CUDA_VISIBLE_DEVICES may hide them", true},
	101: {"CUDA_ERROR_INVALID_DEVICE", "", false},
	201: {"CUDA_ERROR_INVALID_CONTEXT", "", false},
	214: {"CUDA_ERROR_ECC_UNCORRECTABLE", "a memory error of the GPU: nvidia-smi -q -d ECC, then reset or replace it", false},
	600: {"CUDA_ERROR_NOT_READY", "", false},
	700: {"CUDA_ERROR_ILLEGAL_ADDRESS", "the process cannot use this GPU any more: start it again", false},
	712: {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "release the other registration first", false},
	713: {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "", false},
	719: {"CUDA_ERROR_LAUNCH_FAILED", "the process cannot use this GPU any more: start it again", false},
	801: {"CUDA_ERROR_NOT_SUPPORTED", "", false},
	802: {"CUDA_ERROR_SYSTEM_NOT_READY", "systemctl start nvidia-fabricmanager, on machines with NVSwitch", true},
	803: {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the driver's library and kernel module differ: reboot after the update, or use an image that fits", true},
	804: {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "take CUDA's compat folder out of LD_LIBRARY_PATH", true},
	999: {"CUDA_ERROR_UNKNOWN", "modprobe nvidia nvidia-uvm; dmesg | grep -i -e nvrm -e xid says more", true},
}

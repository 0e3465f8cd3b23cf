// Package gpu copies between this process's memory and NVIDIA GPUs, and says
// what GPUs a machine has.
//
// A Driver is the CUDA driver API, found at run time (OpenCUDA), or a fake of it
// in plain memory for tests (NewFake): nothing here needs CUDA to build, and one
// binary serves machines with and without a GPU. A Monitor tells facts about
// GPUs: by NVML where it can, else from /sys alone.
//
// Host memory of copies is mapped memory, never of the Go heap, and lies within
// one registration. A copy is done when an event recorded behind it is done, and
// not before: until then its memory belongs to the GPU, whatever the caller has
// given up meanwhile.
package gpu

import (
	"context"
	"os"
)

// Driver gives the GPUs of this machine. Its methods may be called from many
// goroutines. It is never closed: a driver library cannot be unloaded.
type Driver interface {
	// Name is cuda or fake.
	Name() string
	// Version is that of the driver API: 1000 times the major, 10 times the minor.
	Version() int
	// Devices describes the GPUs, at least one, by index.
	Devices() []Info
	// Device takes hold of a GPU, of its primary context, which costs some hundred
	// MiB of its memory if nothing else in this process has.
	Device(index int) (Device, error)
}

// Info describes a GPU.
type Info struct {
	Index            int    // for Driver.Device
	Name             string // as its maker calls it
	UUID             string // GPU- and a UUID, as nvidia-smi shows it
	PCIBusID         string // as in /sys/bus/pci/devices, 0000:18:00.0
	NUMANode         int    // the memory node it is near to; -1: unknown
	Major, Minor     int    // compute capability
	MemoryBytes      uint64 // in all
	HostPointer      bool   // it can use host addresses of registered memory as they are; not so under WSL
	RegisterHost     bool   // registering host memory is supported
	RegisterReadOnly bool   // so is memory that this process may only read
	DMABuf           bool   // its memory can be exported as a dma-buf
}

// Pointer is an address in a GPU's memory.
type Pointer uint64

// RegisterFlags say what registered memory is for.
type RegisterFlags uint32

// The flags, as CUDA numbers them.
const (
	Portable  RegisterFlags = 1 // registered for all GPUs
	DeviceMap RegisterFlags = 2 // GPU code may use it too
	ReadOnly  RegisterFlags = 8 // the GPU only reads it; needs Info.RegisterReadOnly
)

// Device is one GPU. Its methods may be called from many goroutines.
type Device interface {
	// Info describes it.
	Info() Info
	// Memory is what is free on it, and all it has, in bytes.
	Memory() (freeBytes, totalBytes uint64, err error)
	// RegisterHost pins mem, so that copies to and from it go at full speed, in
	// pieces of at most 64 GiB; a copy may not cross from one to the next. All of it
	// or nothing is registered. mem must not be registered already, be mapped and
	// populated, and stay mapped until release has returned, which is called with
	// no copy in flight; more than one call has no effect.
	RegisterHost(mem []byte, flags RegisterFlags) (release func(), err error)
	// Alloc takes memory of the GPU, aligned to 256 bytes, with unknown content.
	Alloc(nBytes uint64) (Pointer, error)
	// Free gives back what Alloc gave. No copy with it may be in flight.
	Free(Pointer) error
	// DMABuf exports memory of the GPU as a dma-buf, for a device that moves data by itself,
	// such as a NIC: nBytes from p on, both multiples of 4096, within one allocation. That
	// stays until the file, and all that was made of it, is gone. The error matches ErrNoDMABuf
	// where GPU, driver or kernel cannot.
	DMABuf(p Pointer, nBytes uint64) (*os.File, error)
	// Stream makes a queue of copies. Different streams run beside each other.
	Stream() (Stream, error)
	// Close lets the GPU go. Nothing made by the device may be used afterwards.
	Close() error
}

// Copy is a copy of len(Host) bytes, at least one. All of Host lies within one
// registration, all of the GPU's side within one allocation.
type Copy struct {
	Device Pointer
	Host   []byte
}

// Stream runs what it is given one after the other, each batch of copies in any
// order. Its methods return at once and may be called from many goroutines.
type Stream interface {
	// ToDevice queues copies from host memory. The source must not change until
	// they are done. After an error some of them may be queued.
	ToDevice(copies []Copy) error
	// ToHost queues copies to host memory.
	ToHost(copies []Copy) error
	// OnDevice queues a copy of n bytes from one place of the GPU's memory to another,
	// which do not overlap.
	OnDevice(to, from Pointer, nBytes uint64) error
	// Record queues an event: it is done when all that was queued before it is.
	Record() (Event, error)
	// Await lets what is queued from now on wait for an event of another stream.
	Await(Event) error
	// Close lets the stream go; what is queued still runs.
	Close() error
}

// Event is a place in a stream. Its methods may be called from many goroutines.
type Event interface {
	// Done asks whether all before it is done. An error is of the copies.
	Done() (bool, error)
	// Wait waits for it without holding a thread. When ctx ends first the answer is
	// ctx.Err(), and the copies go on: their memory is still in use.
	Wait(ctx context.Context) error
	// Close lets the event go, done or not.
	Close() error
}

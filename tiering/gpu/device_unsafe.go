package gpu

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cudaDevice is a GPU with its primary context.
type cudaDevice struct {
	symbols *symbols
	info    Info
	handle  int32 // CUdevice
	context uintptr
}

// try calls a function with the device's context. A context is current per
// thread, and goroutines change threads: so for each call the thread is held and
// its context set, which costs 0.3 µs; to hand the call to a thread of the
// context's own would cost a hundred times that.
//
//go:uintptrescapes
func (d *cudaDevice) try(fn uintptr, args ...uintptr) (code int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.symbols.check("cuCtxSetCurrent", d.symbols.contextSet, d.context); err != nil {
		return 0, err
	}
	return call(fn, args...), nil
}

// do is try for calls that should succeed.
//
//go:uintptrescapes
func (d *cudaDevice) do(name string, fn uintptr, args ...uintptr) error {
	code, err := d.try(fn, args...)
	if err != nil {
		return err
	}
	return d.symbols.explain(name, code)
}

func (d *cudaDevice) Info() Info { return d.info }

func (d *cudaDevice) Memory() (freeBytes, totalBytes uint64, err error) {
	err = d.do("cuMemGetInfo", d.symbols.memInfo, uintptr(unsafe.Pointer(&freeBytes)), uintptr(unsafe.Pointer(&totalBytes)))
	return freeBytes, totalBytes, err
}

func (d *cudaDevice) RegisterHost(mem []byte, flags RegisterFlags) (release func(), err error) {
	return inPieces(mem, pieceBytesMax, func(piece []byte) (func(), error) {
		start := addressOf(piece)
		if err := d.do("cuMemHostRegister", d.symbols.hostRegister, start, uintptr(len(piece)), uintptr(flags)); err != nil {
			return nil, err
		}
		return func() {
			// It fails when the context is broken, which has unpinned all, or was closed
			// against the contract.
			_ = d.do("cuMemHostUnregister", d.symbols.hostUnregister, start)
		}, nil
	})
}

func (d *cudaDevice) Alloc(nBytes uint64) (p Pointer, err error) {
	err = d.do("cuMemAlloc", d.symbols.memAlloc, uintptr(unsafe.Pointer(&p)), uintptr(nBytes))
	return p, err
}

func (d *cudaDevice) Free(p Pointer) error {
	return d.do("cuMemFree", d.symbols.memFree, uintptr(p))
}

func (d *cudaDevice) DMABuf(p Pointer, nBytes uint64) (*os.File, error) {
	if !d.info.DMABuf || d.symbols.addressHandle == 0 {
		return nil, ErrNoDMABuf
	}
	const dmaBufHandle, noFlags = 1, 0
	var fd int32
	err := d.do("cuMemGetHandleForAddressRange", d.symbols.addressHandle, uintptr(unsafe.Pointer(&fd)), uintptr(p), uintptr(nBytes), dmaBufHandle, noFlags)
	var answer *Error
	if errors.As(err, &answer) && answer.Code == codeNotSupported {
		return nil, fmt.Errorf("%w: %w", ErrNoDMABuf, err)
	}
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(int(fd))
	return os.NewFile(uintptr(fd), "dma-buf"), nil
}

func (d *cudaDevice) Stream() (Stream, error) {
	const nonBlocking = 1 // it does not wait for the default stream, nor that for it
	s := &cudaStream{device: d}
	if err := d.do("cuStreamCreate", d.symbols.streamCreate, uintptr(unsafe.Pointer(&s.handle)), nonBlocking); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *cudaDevice) Close() error {
	return d.symbols.check("cuDevicePrimaryCtxRelease", d.symbols.contextRelease, uintptr(d.handle))
}

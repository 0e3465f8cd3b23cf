package gpu

import (
	"context"
	"errors"
	"fmt"
	"unsafe"
)

type cudaStream struct {
	device *cudaDevice
	handle uintptr
}

func (s *cudaStream) ToDevice(copies []Copy) error { return s.copy(copies, true) }
func (s *cudaStream) ToHost(copies []Copy) error   { return s.copy(copies, false) }

func (s *cudaStream) OnDevice(to, from Pointer, nBytes uint64) error {
	return s.device.do("cuMemcpyDtoDAsync", s.device.symbols.copyOnDevice, uintptr(to), uintptr(from), uintptr(nBytes), s.handle)
}

// copy takes the best form that the driver has: one call for all copies, else
// one for each.
func (s *cudaStream) copy(copies []Copy, toDevice bool) error {
	const name = "cuMemcpyAsync"
	if err := checkCopies(name, copies); err != nil || len(copies) == 0 {
		return err
	}
	symbols := s.device.symbols
	if len(copies) > 1 && (symbols.batch8 != 0 || symbols.batch9 != 0) {
		return s.batch(copies, toDevice)
	}
	for _, c := range copies {
		host, n := addressOf(c.Host), uintptr(len(c.Host))
		var err error
		if toDevice {
			err = s.device.do(name, symbols.copyToDevice, uintptr(c.Device), host, n, s.handle)
		} else {
			err = s.device.do(name, symbols.copyToHost, host, uintptr(c.Device), n, s.handle)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyAttributes is CUmemcpyAttributes: 24 bytes. Locations are hints, for
// managed memory only.
type copyAttributes struct {
	order          uint32
	source, target struct{ kind, id int32 }
	flags          uint32
}

// orderStream: a source is read when the stream gets there.
const orderStream = 1

func (s *cudaStream) batch(copies []Copy, toDevice bool) error {
	n := len(copies)
	// The driver reads all arrays before it returns.
	device, host, sizes := make([]uint64, n), make([]uint64, n), make([]uint64, n)
	for i, c := range copies {
		device[i], host[i], sizes[i] = uint64(c.Device), uint64(addressOf(c.Host)), uint64(len(c.Host))
	}
	target, source := host, device
	if toDevice {
		target, source = device, host
	}
	attributes := copyAttributes{order: orderStream}
	var first, failed uint64 // the attributes are for all from the first on
	symbols := s.device.symbols
	const name = "cuMemcpyBatchAsync"
	if symbols.batch8 != 0 {
		return s.device.do(name, symbols.batch8, uintptr(unsafe.Pointer(&target[0])), uintptr(unsafe.Pointer(&source[0])),
			uintptr(unsafe.Pointer(&sizes[0])), uintptr(n), uintptr(unsafe.Pointer(&attributes)), uintptr(unsafe.Pointer(&first)), 1, s.handle)
	}
	err := s.device.do(name, symbols.batch9, uintptr(unsafe.Pointer(&target[0])), uintptr(unsafe.Pointer(&source[0])),
		uintptr(unsafe.Pointer(&sizes[0])), uintptr(n), uintptr(unsafe.Pointer(&attributes)), uintptr(unsafe.Pointer(&first)), 1,
		uintptr(unsafe.Pointer(&failed)), s.handle)
	if err != nil && failed < uint64(n) {
		err = fmt.Errorf("copy %d of %d: %w", failed, n, err)
	}
	return err
}

func (s *cudaStream) Record() (Event, error) {
	const disableTiming = 2
	e := &cudaEvent{device: s.device}
	if err := s.device.do("cuEventCreate", s.device.symbols.eventCreate, uintptr(unsafe.Pointer(&e.handle)), disableTiming); err != nil {
		return nil, err
	}
	if err := s.device.do("cuEventRecord", s.device.symbols.eventRecord, e.handle, s.handle); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (s *cudaStream) Await(event Event) error {
	e, ok := event.(*cudaEvent)
	if !ok {
		return fault("cuStreamWaitEvent", codeInvalidValue) // of another driver
	}
	return s.device.do("cuStreamWaitEvent", s.device.symbols.streamWait, s.handle, e.handle, 0)
}

func (s *cudaStream) Close() error {
	return s.device.do("cuStreamDestroy", s.device.symbols.streamDestroy, s.handle)
}

type cudaEvent struct {
	device *cudaDevice
	handle uintptr
}

func (e *cudaEvent) Done() (bool, error) {
	code, err := e.device.try(e.device.symbols.eventQuery, e.handle)
	if err != nil || code == codeNotReady {
		return false, err
	}
	err = e.device.symbols.explain("cuEventQuery", code)
	return err == nil, err
}

func (e *cudaEvent) Wait(ctx context.Context) error { return poll(ctx, e.Done) }

func (e *cudaEvent) Close() error {
	return e.device.do("cuEventDestroy", e.device.symbols.eventDestroy, e.handle)
}

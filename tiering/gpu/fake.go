package gpu

import (
	"os"
	"slices"
	"sync"
)

// FakeOptions shape a fake driver. The zero value is one GPU of 1 GiB whose
// copies are done when they are first asked for.
type FakeOptions struct {
	Devices     int    // number of GPUs; 0: 1
	MemoryBytes uint64 // of each; 0: 1 GiB. It is taken as it is allocated
	// Polls is how often an event whose copies are not done answers so before they
	// are made, all at once: whoever lets go of memory too early sees wrong bytes.
	Polls int
	// Fail, if it is there, is asked before each call, by CUDA's name of it without
	// version; what it answers is the call's error.
	Fail func(call string) error
}

// NewFake makes a driver that copies in plain memory, on the goroutine that asks
// for an event, and so does the same every time. It refuses what a real one
// refuses, and host memory of copies that is not registered, which a real one
// copies slowly.
func NewFake(o FakeOptions) Driver {
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 1 << 30
	}
	return &fake{options: o}
}

type fake struct {
	options FakeOptions

	mu         sync.Mutex
	registered []span // host memory, of all devices
	devices    map[int]*fakeMemory
}

// span is host memory by address.
type span struct{ start, end uintptr }

func spanOf(mem []byte) span {
	start := addressOf(mem)
	return span{start, start + uintptr(len(mem))}
}

// fakeMemory is what is allocated on one device.
type fakeMemory struct {
	blocks map[Pointer][]byte
	used   uint64
	next   Pointer
}

func (f *fake) Name() string { return "fake" }
func (f *fake) Version() int { return 13000 }

func (f *fake) Devices() (all []Info) {
	for i := range f.options.Devices {
		all = append(all, Info{Index: i, Name: "fake", NUMANode: -1, MemoryBytes: f.options.MemoryBytes, HostPointer: true, RegisterHost: true})
	}
	return all
}

func (f *fake) Device(index int) (Device, error) {
	if index < 0 || index >= f.options.Devices {
		return nil, fault("cuDeviceGet", codeInvalidDevice)
	}
	if err := f.fail("cuDevicePrimaryCtxRetain"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.devices == nil {
		f.devices = make(map[int]*fakeMemory)
	}
	if f.devices[index] == nil {
		// Addresses of devices differ, and none is one of the host.
		const firstAddress, perDevice = 1 << 56, 1 << 48
		f.devices[index] = &fakeMemory{blocks: make(map[Pointer][]byte), next: Pointer(firstAddress + index*perDevice)}
	}
	return &fakeDevice{driver: f, info: f.Devices()[index], memory: f.devices[index]}, nil
}

func (f *fake) fail(call string) error {
	if f.options.Fail == nil {
		return nil
	}
	return f.options.Fail(call)
}

type fakeDevice struct {
	driver *fake
	info   Info
	memory *fakeMemory
}

func (d *fakeDevice) Info() Info { return d.info }

func (d *fakeDevice) Memory() (freeBytes, totalBytes uint64, err error) {
	if err := d.driver.fail("cuMemGetInfo"); err != nil {
		return 0, 0, err
	}
	d.driver.mu.Lock()
	defer d.driver.mu.Unlock()
	return d.info.MemoryBytes - d.memory.used, d.info.MemoryBytes, nil
}

func (d *fakeDevice) RegisterHost(mem []byte, flags RegisterFlags) (release func(), err error) {
	return inPieces(mem, pieceBytesMax, func(piece []byte) (func(), error) {
		return d.driver.register(piece, flags)
	})
}

func (f *fake) register(mem []byte, flags RegisterFlags) (release func(), err error) {
	const call = "cuMemHostRegister"
	if err := f.fail(call); err != nil {
		return nil, err
	}
	if flags&^(Portable|DeviceMap|ReadOnly) != 0 {
		return nil, fault(call, codeInvalidValue)
	}
	own := spanOf(mem)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.registered {
		if own.start < s.end && s.start < own.end {
			return nil, fault(call, codeAlreadyRegistered)
		}
	}
	f.registered = append(f.registered, own)
	unlock := lock(mem)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.registered = slices.DeleteFunc(f.registered, func(s span) bool { return s == own })
		unlock()
	}, nil
}

func (d *fakeDevice) Alloc(nBytes uint64) (Pointer, error) {
	const call, alignBytes = "cuMemAlloc", 2 << 20
	if err := d.driver.fail(call); err != nil {
		return 0, err
	}
	d.driver.mu.Lock()
	defer d.driver.mu.Unlock()
	m := d.memory
	switch {
	case nBytes == 0:
		return 0, fault(call, codeInvalidValue)
	case nBytes > d.info.MemoryBytes-m.used:
		return 0, fault(call, codeOutOfMemory)
	}
	p := m.next
	m.next += Pointer((nBytes + alignBytes) / alignBytes * alignBytes) // a gap behind each
	m.used += nBytes
	m.blocks[p] = make([]byte, nBytes)
	return p, nil
}

func (d *fakeDevice) Free(p Pointer) error {
	const call = "cuMemFree"
	if err := d.driver.fail(call); err != nil {
		return err
	}
	d.driver.mu.Lock()
	defer d.driver.mu.Unlock()
	block, ok := d.memory.blocks[p]
	if !ok {
		return fault(call, codeInvalidValue)
	}
	delete(d.memory.blocks, p)
	d.memory.used -= uint64(len(block))
	return nil
}

// findLocked is n bytes of the GPU's memory, nil if they are not within one
// allocation.
func (m *fakeMemory) findLocked(p Pointer, n int) []byte {
	for start, block := range m.blocks {
		if p >= start && uint64(p-start) < uint64(len(block)) && uint64(n) <= uint64(len(block))-uint64(p-start) {
			return block[p-start:][:n]
		}
	}
	return nil
}

func (f *fake) registeredLocked(mem []byte) bool {
	own := spanOf(mem)
	return slices.ContainsFunc(f.registered, func(s span) bool { return s.start <= own.start && own.end <= s.end })
}

// DMABuf refuses: this memory is no device's.
func (d *fakeDevice) DMABuf(Pointer, uint64) (*os.File, error) { return nil, ErrNoDMABuf }

func (d *fakeDevice) Stream() (Stream, error) {
	if err := d.driver.fail("cuStreamCreate"); err != nil {
		return nil, err
	}
	return &fakeStream{device: d}, nil
}

func (d *fakeDevice) Close() error {
	return d.driver.fail("cuDevicePrimaryCtxRelease")
}

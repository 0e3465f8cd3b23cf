package target

import "github.com/spillway-kv/spillway/engine/offheap"

const (
	pageBytes     = 4 << 10
	hugePageBytes = 2 << 20
	hugeFrom      = 64 << 10 // less has 4 KiB pages: the rest of a huge one would be wasted
)

// memory is mapped memory, for IOs that begin on a page each: what drives read into
// it can be registered with the kernel. The IOs of a lane lie in one piece, so that
// it can have huge pages: a drive takes one of them as one address, and 4 KiB pages
// as 512.
type memory struct {
	ios      int    // how many will be taken; 0 is 1
	rest     []byte // of the newest map
	maps     []*offheap.Array[byte]
	releases []func()
}

// take gives the memory of one IO. register (may be nil) makes transfers cheaper;
// if it cannot, they work all the same.
func (m *memory) take(nBytes int, register func([]byte) (func(), error)) ([]byte, error) {
	stride := int(roundUp(int64(nBytes), pageBytes))
	if len(m.rest) < stride {
		if err := m.grow(stride*max(1, m.ios), register); err != nil {
			return nil, err
		}
		m.ios = 1 // more than was said
	}
	b := m.rest[:nBytes:nBytes]
	m.rest = m.rest[stride:]
	return b, nil
}

// grow maps at least nBytes, resident before anything is measured.
func (m *memory) grow(nBytes int, register func([]byte) (func(), error)) error {
	if nBytes >= hugeFrom {
		nBytes = int(roundUp(int64(nBytes), hugePageBytes))
	}
	a, err := offheap.Make[byte](nBytes)
	if err != nil {
		return err
	}
	m.maps = append(m.maps, a)
	m.rest = a.Slice()
	for i := 0; i < nBytes; i += pageBytes {
		m.rest[i] = 1
	}
	clear(m.rest)
	if register != nil {
		if release, err := register(m.rest); err == nil {
			m.releases = append(m.releases, release)
		}
	}
	return nil
}

// unregister undoes what register did; the device is still open, and nothing is in
// flight.
func (m *memory) unregister() {
	for _, release := range m.releases {
		release()
	}
	m.releases = nil
}

// free unmaps everything. Nothing can reach it any more.
func (m *memory) free() {
	for _, a := range m.maps {
		a.Free()
	}
	m.maps, m.rest = nil, nil
}

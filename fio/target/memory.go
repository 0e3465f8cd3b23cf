package target

import "github.com/spillway-kv/spillway/engine/offheap"

// memory is mapped memory that begins on a page, for one IO each: what drives read
// into it can be registered with the kernel.
type memory struct {
	maps     []*offheap.Array[byte]
	releases []func()
}

// take maps nBytes. register (may be nil) makes transfers cheaper; if it cannot,
// they work all the same.
func (m *memory) take(nBytes int, register func([]byte) (func(), error)) ([]byte, error) {
	a, err := offheap.Make[byte](nBytes)
	if err != nil {
		return nil, err
	}
	m.maps = append(m.maps, a)
	b := a.Slice()
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1 // resident before it is measured
	}
	clear(b)
	if register != nil {
		if release, err := register(b); err == nil {
			m.releases = append(m.releases, release)
		}
	}
	return b, nil
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
	m.maps = nil
}

package engine

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/engine/device"
)

// RegisterMemory makes reads into mem and puts out of it cost less processor
// time, where the store uses io_uring: the kernel pins the pages once and not
// for every transfer. The conditions on mem are those of
// device.MemoryRegistrar; among others it must be mapped memory, not of the Go
// heap, and stay mapped until release has returned, which may be called when no
// call on mem is left.
//
// It is an optimisation: on an error mem works as before. An error matching
// errors.ErrUnsupported means that this store's device registers nothing.
func (s *Store) RegisterMemory(mem []byte) (release func(), err error) {
	registrar, ok := s.dev.(device.MemoryRegistrar)
	if !ok {
		return nil, fmt.Errorf("register memory: %w by the device %s", errors.ErrUnsupported, s.facts.Device)
	}
	return registrar.RegisterMemory(mem)
}

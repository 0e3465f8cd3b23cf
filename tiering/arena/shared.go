package arena

import (
	"fmt"
	"math"
	"os"
)

// Shared is memory made for one user of one namespace, who maps it too. Nobody
// can resize it. It is dropped in the end and never used for another user, since
// a client's GPU may go on writing there for as long as the client has it.
type Shared struct {
	*Region
	memory *memory
}

// SharedUnitBytes is what the size of a Shared is rounded up to.
const SharedUnitBytes = hugePageBytes

// NewShared makes memory of nBytes, rounded up to SharedUnitBytes, of the best kind of
// pages that the machine grants. name says whose it is, in /proc/PID/maps.
func NewShared(name string, nBytes int64) (*Shared, error) {
	if nBytes <= 0 || nBytes > math.MaxInt64-hugePageBytes {
		return nil, fmt.Errorf("%w: shared memory of %d bytes", ErrSize, nBytes)
	}
	nBytes = (nBytes + hugePageBytes - 1) / hugePageBytes * hugePageBytes
	m, err := makeMemory(wish{name: "spillway-" + name, nBytes: nBytes})
	if err != nil {
		return nil, err
	}
	return &Shared{Region: newRegion(m.mem, m.close), memory: m}, nil
}

// Facts say what the machine granted.
func (s *Shared) Facts() Facts { return s.memory.facts }

// File is the descriptor to pass to the client. It stays the memory's own and is
// closed when that is dropped: the caller has acquired the region.
func (s *Shared) File() *os.File { return s.memory.file }

package gpu

import (
	"slices"
	"sync"
)

// pieceBytesMax bounds one registration: drivers refuse 512 GiB.
const pieceBytesMax = 64 << 30

// Registrar registers memory with a device, as package arena wants it.
type Registrar struct {
	Device Device
	Flags  RegisterFlags
}

// Register is Device.RegisterHost with these flags.
func (r Registrar) Register(mem []byte) (release func(), err error) {
	return r.Device.RegisterHost(mem, r.Flags)
}

// inPieces registers mem in pieces, all or none; release takes them back, the
// last first, once.
func inPieces(mem []byte, pieceBytes int, register func([]byte) (release func(), err error)) (release func(), err error) {
	if len(mem) == 0 {
		return nil, fault("cuMemHostRegister", codeInvalidValue)
	}
	var releases []func()
	undo := func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}
	for piece := range slices.Chunk(mem, pieceBytes) {
		release, err := register(piece)
		if err != nil {
			undo()
			return nil, err
		}
		releases = append(releases, release)
	}
	return sync.OnceFunc(undo), nil
}

// checkCopies refuses empty ones, which drivers take differently.
func checkCopies(call string, copies []Copy) error {
	for _, c := range copies {
		if len(c.Host) == 0 {
			return fault(call, codeInvalidValue)
		}
	}
	return nil
}

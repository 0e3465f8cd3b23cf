package rdma

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/tiering/gpu"
)

// RegisterGPU makes memory of a GPU known to a device, so that it can be written to, or sent
// from, without a copy in the machine's memory: nBytes from p on, both multiples of 4096. The
// memory stays allocated until the region is deregistered. The error matches
// fabric.ErrUnsupported where the GPU cannot export its memory, or the device not take it.
//
// Blocks of a pool do not go there: their bytes are proven by the processor.
func RegisterGPU(d fabric.Device, g gpu.Device, p gpu.Pointer, nBytes uint64, rights fabric.Rights) (fabric.Region, error) {
	file, err := g.DMABuf(p, nBytes)
	if errors.Is(err, gpu.ErrNoDMABuf) {
		return nil, fmt.Errorf("%w: %w", fabric.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() // the region has its own hold on it
	return d.RegisterGPU(int(file.Fd()), 0, nBytes, uint64(p), rights)
}

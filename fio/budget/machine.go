package budget

import (
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/model"
)

// gpuOfMachine asks for the GPU that this machine has.
const gpuOfMachine = "auto"

func (a *Ask) gpu(m Machine) (*model.GPU, error) {
	if a.GPU == "" {
		return nil, nil
	}
	if strings.EqualFold(a.GPU, gpuOfMachine) {
		return firstGPU(m)
	}
	g, err := model.FindGPU(a.GPU)
	if err != nil {
		return nil, &UsageError{"gpu", err}
	}
	return g, nil
}

// firstGPU is the first GPU of the machine: by its name, else by its memory bus.
func firstGPU(m Machine) (*model.GPU, error) {
	open := m.Monitor
	if open == nil {
		open = func() gpu.Monitor { return gpu.OpenMonitor() }
	}
	monitor := open()
	defer monitor.Close()
	n, err := monitor.Count()
	if err == nil && n == 0 {
		err = monitor.Missing()
		if err == nil {
			err = gpu.ErrNoGPU
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--gpu=%s: %w; name a GPU in its place", gpuOfMachine, err)
	}
	name, err := monitor.Name(0)
	if err != nil {
		return nil, fmt.Errorf("--gpu=%s: %w; name a GPU in its place", gpuOfMachine, err)
	}
	if g, err := model.FindGPU(name); err == nil {
		return g, nil
	}
	bits, clock, err := monitor.MemoryBus(0)
	if err == nil && (bits <= 0 || clock <= 0) {
		err = fmt.Errorf("a bus of %d bits at %d MHz", bits, clock)
	}
	if err != nil {
		return nil, fmt.Errorf("--gpu=%s: %q is in no table, and its memory is unknown: %w; name one that is like it", gpuOfMachine, name, err)
	}
	return model.GPUOfBus(name, bits, clock), nil
}

// fits warns if a setup cannot run because its memory is too small.
func fits(s *model.Setup) []string {
	if s.GPU.MemoryGB == 0 {
		return nil
	}
	p := &s.Model.Params
	needs := (s.Weights.Bytes(p.Total) + float64(int64(s.Batch)*s.Model.KeptBytes(s.Context, s.KV))) / 1e9
	has := s.GPU.MemoryGB * float64(s.Tensor*s.Pipeline)
	if needs <= has {
		return nil
	}
	return []string{fmt.Sprintf("weights and KV take %.0f GB, and %s has %.0f GB: it cannot run so", needs, Describe(s), has)}
}

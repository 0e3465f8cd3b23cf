package gputest

import (
	"errors"
	"testing"

	"github.com/spillway-kv/spillway/tiering/gpu"
)

// dmaBuf: memory is exported, or the device says that it cannot be.
func dmaBuf(t *testing.T, r *rig) {
	p := r.alloc(t, 2<<20)
	file, err := r.device.DMABuf(p, 2<<20)
	if !r.device.Info().DMABuf {
		if !errors.Is(err, gpu.ErrNoDMABuf) {
			t.Errorf("not a clean refusal: %v", err)
		}
		return
	}
	if errors.Is(err, gpu.ErrNoDMABuf) {
		t.Skip(err) // the driver knows of it, and cannot
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.device.DMABuf(p, 1<<40); err == nil {
		t.Error("more than was allocated has been exported")
	}
}

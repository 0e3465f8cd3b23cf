package gputest

import (
	"context"
	"errors"
	"testing"

	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/gpu"
)

// rig is a device with registered host memory.
type rig struct {
	driver gpu.Driver
	device gpu.Device
	arena  *arena.Arena
}

const hostBytes = 20 << 20

func newRig(t *testing.T, driver gpu.Driver) *rig {
	t.Helper()
	d, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	a := newArena(t, hostBytes)
	if _, err := a.Register(gpu.Registrar{Device: d, Flags: gpu.Portable | gpu.DeviceMap}, arena.CUDAPieceBytes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return &rig{driver, d, a}
}

func newArena(t *testing.T, nBytes int64) *arena.Arena {
	t.Helper()
	a, err := arena.New(arena.Options{Bytes: nBytes, Pages: arena.PagesSmall})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// host lends registered memory until the test ends.
func (r *rig) host(t *testing.T, nBytes int) []byte {
	t.Helper()
	f, err := r.arena.Get(nBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Release)
	return f.Bytes()
}

// alloc lends memory of the GPU until the test ends.
func (r *rig) alloc(t *testing.T, nBytes uint64) gpu.Pointer {
	t.Helper()
	p, err := r.device.Alloc(nBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.device.Free(p); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (r *rig) stream(t *testing.T) gpu.Stream {
	t.Helper()
	s, err := r.device.Stream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// finish waits for all that is queued.
func finish(s gpu.Stream) error {
	e, err := s.Record()
	if err != nil {
		return err
	}
	return errors.Join(e.Wait(context.Background()), e.Close())
}

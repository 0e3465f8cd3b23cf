// Package gpucheck is the one prepared check of a machine with a GPU: that what
// arena and gpu rely on holds there, and how fast it is.
//
// make gpu-check runs it. With SPILLWAY_GPU=1 it takes the first GPU of this
// machine, and ends with exit code 3 and "no GPU" if there is none. Without, it
// runs in small against a stand-in for CUDA, so that the check itself is known to
// work before a GPU is at hand. SPILLWAY_GPU_GIB is the size of its arena (4),
// SPILLWAY_GPU_DIR the directory of its store, best on a drive.
//
// Lines that begin with PASS or INFO are results; a failure is a failed test.
package gpucheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	exitNoGPU = 3

	realGPU     = "SPILLWAY_GPU"
	arenaGiB    = "SPILLWAY_GPU_GIB"
	storeDir    = "SPILLWAY_GPU_DIR"
	clientBytes = "SPILLWAY_GPU_CLIENT" // set in the client's process: bytes to copy
	clientStub  = "SPILLWAY_GPU_STUB"   // the client's stand-in, if it has one
)

// real reports whether the check runs on a GPU.
var real = os.Getenv(realGPU) != ""

func TestMain(m *testing.M) {
	if os.Getenv(clientBytes) != "" {
		if err := client(); err != nil {
			fmt.Fprintln(os.Stderr, "client:", err)
			os.Exit(1)
		}
		return
	}
	if real {
		if _, err := gpu.OpenCUDA(); errors.Is(err, gpu.ErrNoGPU) {
			fmt.Println("no GPU:", err)
			os.Exit(exitNoGPU)
		}
	}
	goleak.VerifyTestMain(m)
}

// openDriver is the machine's driver, or a stand-in.
func openDriver(t *testing.T) (driver gpu.Driver, library string) {
	t.Helper()
	var err error
	if real {
		driver, err = gpu.OpenCUDA()
	} else {
		library = gputest.CUDA(t)
		driver, err = gpu.OpenCUDA(library)
	}
	if err != nil {
		t.Fatal(err)
	}
	return driver, library
}

func openDevice(t *testing.T) (d gpu.Device, library string) {
	t.Helper()
	driver, library := openDriver(t)
	d, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, library
}

// arenaBytes is the size of the arenas.
func arenaBytes(t *testing.T) int64 {
	t.Helper()
	if !real {
		return 64 * mib
	}
	n, err := strconv.ParseInt(os.Getenv(arenaGiB), 10, 64)
	if err != nil {
		n = 4
	}
	return n * gib
}

// registered is an arena that the device knows.
func registered(t *testing.T, d gpu.Device) *arena.Arena {
	t.Helper()
	a, err := arena.New(arena.Options{Bytes: arenaBytes(t), Nodes: nearest(d)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := a.Register(gpu.Registrar{Device: d, Flags: gpu.Portable | gpu.DeviceMap}, arena.CUDAPieceBytes); err != nil {
		t.Fatal(err)
	}
	return a
}

// nearest are the nodes of memory that the GPU is near to, if it is known.
func nearest(d gpu.Device) []int {
	if node := d.Info().NUMANode; node >= 0 {
		return []int{node}
	}
	return nil
}

func frame(t *testing.T, a *arena.Arena, nBytes int) arena.Frame {
	t.Helper()
	f, err := a.Get(nBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Release)
	return f
}

func alloc(t *testing.T, d gpu.Device, nBytes uint64) gpu.Pointer {
	t.Helper()
	p, err := d.Alloc(nBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Free(p); err != nil {
			t.Error(err)
		}
	})
	return p
}

func stream(t *testing.T, d gpu.Device) gpu.Stream {
	t.Helper()
	s, err := d.Stream()
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := s.Record()
	if err != nil {
		return err
	}
	return errors.Join(e.Wait(ctx), e.Close())
}

// same fails the test unless the bytes are.
func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: other bytes", what)
		return
	}
	t.Logf("PASS %s: %d bytes are the same", what, len(want))
}

func perGiB(d time.Duration, nBytes int64) float64 { return d.Seconds() * gib / float64(nBytes) }

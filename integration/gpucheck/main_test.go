// Package gpucheck is the one prepared check of a machine with a GPU: that what
// arena and gpu rely on holds there, and how fast it is.
//
// make gpu-check runs it. With SPILLWAY_GPU=1 it takes the first GPU of this
// machine, step by step, each within a limit, and ends with exit code 3 and "no GPU"
// if there is none. Without, its tests run in small against stand-ins for CUDA and
// NVML, so that the check itself is known to work before a GPU is at hand.
// docs/gpu.md says how to run it and how to read it; the constants below name the
// variables that shape it.
//
// Lines that begin with PASS or INFO are results; a failure is a failed test.
package gpucheck

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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

	// Said by who runs the check.
	realGPU       = "SPILLWAY_GPU"         // not empty: on a GPU
	arenaGiB      = "SPILLWAY_GPU_GIB"     // size of its arenas; 4 unless said
	storeDir      = "SPILLWAY_GPU_DIR"     // of its stores, best on a drive; the working directory unless said
	outDir        = "SPILLWAY_GPU_OUT"     // of what it leaves; that of its binary unless said
	modelName     = "SPILLWAY_GPU_MODEL"   // whose decode step is measured; Llama-3.1-8B unless said
	contextTokens = "SPILLWAY_GPU_CONTEXT" // of each sequence; 4096 unless said
	pythonPath    = "SPILLWAY_GPU_PYTHON"  // with torch; python3 unless said
	spillwayPath  = "SPILLWAY_GPU_BIN"     // the command; spillway beside the check's binary unless said

	// Said by the check to its own processes.
	stepResults = "SPILLWAY_GPU_STEP"   // file for the findings of a step
	stepEnds    = "SPILLWAY_GPU_ENDS"   // when it is cut, in milliseconds since 1970
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
	if real && os.Getenv(stepResults) == "" {
		os.Exit(wholeCheck())
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if standIn.dir != "" {
			_ = os.RemoveAll(standIn.dir)
		}
		os.Exit(code)
	}))
}

// wholeCheck runs all steps on the GPU and gives the exit code.
func wholeCheck() int {
	if _, err := gpu.OpenCUDA(); errors.Is(err, gpu.ErrNoGPU) {
		fmt.Println("no GPU:", err)
		return exitNoGPU
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir := cmp.Or(os.Getenv(outDir), filepath.Dir(self))
	for _, old := range []string{summary, measurement} {
		if err := os.Remove(filepath.Join(dir, old)); err != nil && !os.IsNotExist(err) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	ctx, stop := untilSignal()
	defer stop()
	r, err := conduct(ctx, steps, wholeLimit, dir, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("The same is in %s.\n", filepath.Join(dir, summary))
	if path := filepath.Join(dir, measurement); exists(path) {
		fmt.Printf("For --budget-from: %s.\n", path)
	}
	if r.State != passed {
		return 1
	}
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// openMonitor is NVML of the machine, or a stand-in. A process can bind one only.
func openMonitor(t *testing.T) gpu.Monitor {
	t.Helper()
	if real {
		return gpu.OpenMonitor()
	}
	return gpu.OpenMonitor(standInNVML(t))
}

// standIn is the stand-in for NVML, which outlives the test that builds it: what a process
// has bound it keeps.
var standIn struct {
	once         sync.Once
	dir, library string
}

func standInNVML(t *testing.T) string {
	t.Helper()
	standIn.once.Do(func() {
		var err error
		if standIn.dir, err = os.MkdirTemp("", "gpucheck-nvml"); err != nil {
			t.Fatal(err)
		}
		standIn.library = gputest.NVML(keeping{t})
	})
	return standIn.library
}

// keeping is a test whose folder is not removed at its end.
type keeping struct{ *testing.T }

func (keeping) TempDir() string { return standIn.dir }

// directory is where stores are made.
func directory(t *testing.T) string {
	t.Helper()
	if !real {
		return t.TempDir()
	}
	return cmp.Or(os.Getenv(storeDir), ".")
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

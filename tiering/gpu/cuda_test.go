package gpu_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

// TestThisMachine opens the real driver: it is there and works, or says what is
// missing.
func TestThisMachine(t *testing.T) {
	driver, err := gpu.OpenCUDA()
	if err != nil {
		var none *gpu.NoGPUError
		if !errors.Is(err, gpu.ErrNoGPU) || !errors.As(err, &none) || none.Remedy == "" || none.Cause == nil {
			t.Fatalf("not a clean refusal: %v", err)
		}
		t.Log(err)
		return
	}
	gputest.Run(t, driver)
}

// TestStub runs the real path against a stand-in that checks its arguments, with
// each form of the batch call.
func TestStub(t *testing.T) {
	for batch, version := range map[int]int{8: 13000, 9: 12080, 0: 12000} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			driver, err := gpu.OpenCUDA("/does/not/exist", gputest.CUDA(t, fmt.Sprintf("BATCH=%d", batch)))
			if err != nil {
				t.Fatal(err)
			}
			if driver.Version() != version || driver.Name() != "cuda" {
				t.Errorf("%s %d", driver.Name(), driver.Version())
			}
			want := gpu.Info{Index: 1, Name: "Stub H200", UUID: "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf", PCIBusID: "0000:ab:00.0", NUMANode: -1,
				Major: 9, MemoryBytes: 64 << 20, HostPointer: true, RegisterHost: true, DMABuf: true}
			if got := driver.Devices(); len(got) != 2 || got[1] != want {
				t.Errorf("got %+v", got)
			}
			gputest.Run(t, driver)
			refusedCopies(t, driver)
		})
	}
}

// refusedCopies: memory that is not registered is refused, and the 9-argument
// form says which copy it was.
func refusedCopies(t *testing.T, driver gpu.Driver) {
	d, err := driver.Device(1)
	if err != nil {
		t.Fatal(err)
	}
	a, err := arena.New(arena.Options{Bytes: 4 << 20, Pages: arena.PagesSmall})
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Get(2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	mem := f.Bytes()
	release, err := d.RegisterHost(mem[:1<<20], gpu.Portable)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Stream()
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	copies := []gpu.Copy{{Device: p, Host: mem[:4096]}, {Device: p, Host: mem[1<<20:][:4096]}}
	var answer *gpu.Error
	for _, copies := range [][]gpu.Copy{copies, copies[1:]} {
		err := s.ToHost(copies)
		if !errors.As(err, &answer) || answer.Code != 1 || answer.Name != "STUB_INVALID_VALUE" {
			t.Errorf("%d copies, not registered: %v", len(copies), err)
		}
		if driver.Version() == 12080 && len(copies) == 2 && !strings.Contains(err.Error(), "copy 1 of 2") {
			t.Errorf("which one? %v", err)
		}
	}
	if err := d.Free(p + 4096); !errors.As(err, &answer) || answer.Call != "cuMemFree" {
		t.Errorf("freed a part: %v", err)
	}
	release()
	f.Release()
	if err := errors.Join(d.Free(p), s.Close(), d.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	// The context is gone with its last holder: this is the driver's own refusal.
	if _, err := d.Stream(); !errors.As(err, &answer) || answer.Name != "STUB_INVALID_CONTEXT" {
		t.Errorf("without a context: %v", err)
	}
}

// TestNoGPU: what the start of the driver answers says what to do.
func TestNoGPU(t *testing.T) {
	for code, want := range map[int]string{
		100: "cuInit: STUB_NO_DEVICE (100); ls /dev/nvidia*",
		803: "cuInit: STUB_MISMATCH (803); the driver's library and kernel module differ",
		34:  "cuInit: CUDA_ERROR_STUB_LIBRARY (34); the toolkit's stub",
		46:  "(46)", 802: "nvidia-fabricmanager", 999: "modprobe nvidia",
	} {
		_, err := gpu.OpenCUDA(gputest.CUDA(t, fmt.Sprintf("INIT=%d", code)))
		if !errors.Is(err, gpu.ErrNoGPU) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", code, err)
		}
		var answer *gpu.Error
		if !errors.As(err, &answer) || answer.Code != code {
			t.Errorf("%d: the cause is lost: %v", code, err)
		}
	}
	// Another failure is one, not the absence of a GPU.
	if _, err := gpu.OpenCUDA(gputest.CUDA(t, "INIT=7")); err == nil || errors.Is(err, gpu.ErrNoGPU) || !strings.Contains(err.Error(), "STUB_SEVEN (7)") {
		t.Errorf("got %v", err)
	}
	// So is a library that is another one.
	_, err := gpu.OpenCUDA(gputest.NVML(t))
	if !errors.Is(err, gpu.ErrNoGPU) || !strings.Contains(err.Error(), "lacks cuInit, cuDriverGetVersion") || strings.Contains(err.Error(), "Batch") {
		t.Errorf("got %v", err)
	}
	_, err = gpu.OpenCUDA(filepath.Join(t.TempDir(), "libcuda.so.1"))
	if !errors.Is(err, gpu.ErrNoGPU) || !strings.Contains(err.Error(), "install the NVIDIA driver") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkStubCall(b *testing.B) {
	driver, err := gpu.OpenCUDA(gputest.CUDA(b))
	if err != nil {
		b.Fatal(err)
	}
	d, err := driver.Device(0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.Memory(); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}

// TestDMABuf: the file is of the memory that was asked for; a driver that cannot says so.
func TestDMABuf(t *testing.T) {
	for kind, works := range map[int]bool{0: false, 1: true, 2: false} {
		driver, err := gpu.OpenCUDA(gputest.CUDA(t, fmt.Sprintf("DMABUF=%d", kind)))
		if err != nil {
			t.Fatal(err)
		}
		d, err := driver.Device(0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		file, err := d.DMABuf(p+8192, 64<<10)
		switch {
		case !works && !errors.Is(err, gpu.ErrNoDMABuf):
			t.Errorf("kind %d: %v", kind, err)
		case works && err != nil:
			t.Error(err)
		case works:
			if facts, err := file.Stat(); err != nil || facts.Size() != 64<<10 {
				t.Errorf("%v, %v", facts, err)
			}
			_ = file.Close() // nothing was written
			var answer *gpu.Error
			if _, err := d.DMABuf(p+1, 4096); !errors.As(err, &answer) || answer.Code != 1 {
				t.Errorf("memory that does not begin on a page: %v", err)
			}
		}
		if err := errors.Join(d.Free(p), d.Close()); err != nil {
			t.Error(err)
		}
	}
}

//go:build cgo

package gpu_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

// A process can bind one library only, so each test of NVML runs in its own.
const nvmlPath, nvmlTest = "SPILLWAY_TEST_NVML_PATH", "SPILLWAY_TEST_NVML"

// inOwnProcess runs the calling test again, with this library.
func inOwnProcess(t *testing.T, library string) (path string) {
	t.Helper()
	if os.Getenv(nvmlTest) == t.Name() {
		return os.Getenv(nvmlPath)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), nvmlTest+"="+t.Name(), nvmlPath+"="+library)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("it did not run:\n%s", out)
	}
	return ""
}

func TestNVML(t *testing.T) {
	path := inOwnProcess(t, gputest.NVML(t))
	if path == "" {
		return
	}
	m := gpu.OpenMonitor(path)
	if m.Missing() != nil || m.Source() != "nvml" {
		t.Fatalf("%s, %v", m.Source(), m.Missing())
	}
	if n, err := m.Count(); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if v, err := m.DriverVersion(); v != "580.65.06" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	for i := range 2 {
		want := fmt.Sprintf("Stub H200 %d GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae%02x 0000:%02x:00.0 -1", i, 0xaf+i, 0xab+i)
		name, err1 := m.Name(i)
		uuid, err2 := m.UUID(i)
		id, err3 := m.PCIBusID(i)
		node, err4 := m.NUMANode(i)
		if got := fmt.Sprint(name, " ", uuid, " ", id, " ", node); got != want || errors.Join(err1, err2, err3, err4) != nil {
			t.Errorf("%s, %v", got, errors.Join(err1, err2, err3, err4))
		}
		if link, err := m.Link(i); err != nil || link != (gpu.Link{Generation: 1, Width: 16 >> i, GenerationMax: 5, WidthMax: 16}) {
			t.Errorf("%+v, %v", link, err)
		}
		if free, total, err := m.Memory(i); free != 100<<30 || total != 150<<30 || err != nil {
			t.Errorf("%d of %d, %v", free, total, err)
		}
		// There is no such symbol: to call it would end the process.
		if _, err := m.TemperatureC(i); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("temperature: %v", err)
		}
	}
	if mJ, err := m.EnergyMJ(0); mJ != 0x123456789ab || err != nil {
		t.Errorf("%#x, %v", mJ, err)
	}
	if bits, clock, err := m.MemoryBus(0); bits != 6144 || clock != 3201 || err != nil {
		t.Errorf("bus of %d bits at %d MHz, %v", bits, clock, err)
	}
	if _, _, err := m.MemoryBus(1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("refused clock: %v", err)
	}
	if _, err := m.EnergyMJ(1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("refused energy: %v", err)
	}
	if _, err := m.Name(5); err == nil || !strings.Contains(err.Error(), "stub: invalid argument (2)") {
		t.Errorf("a sixth GPU: %v", err)
	}
	var group sync.WaitGroup // calls and their end at once
	for range 4 {
		group.Go(func() {
			for range 200 {
				if _, err := m.Name(0); err != nil {
					return
				}
			}
		})
	}
	m.Close()
	m.Close()
	group.Wait()
	if _, err := m.Name(0); err == nil {
		t.Error("it answers after its close")
	}
}

func TestNVMLWithoutDriver(t *testing.T) {
	path := inOwnProcess(t, gputest.NVML(t, "INIT=9"))
	if path == "" {
		return
	}
	m := gpu.OpenMonitor(path)
	err := m.Missing()
	if m.Source() != "sysfs" || !errors.Is(err, gpu.ErrNoGPU) || !strings.Contains(err.Error(), "modprobe") {
		t.Errorf("%s, %v", m.Source(), err)
	}
}

func TestNVMLUnknownFailure(t *testing.T) {
	path := inOwnProcess(t, gputest.NVML(t, "INIT=77"))
	if path == "" {
		return
	}
	m := gpu.OpenMonitor(path)
	err := m.Missing()
	if m.Source() != "sysfs" || err == nil || !strings.Contains(err.Error(), "stub: error (77)") {
		t.Errorf("%s, %v", m.Source(), err)
	}
}

// TestMonitorHere: this machine has NVML, or says why not, and the facts of /sys
// are there all the same.
func TestMonitorHere(t *testing.T) {
	path := inOwnProcess(t, "none")
	if path == "" {
		return
	}
	m := gpu.OpenMonitor()
	defer m.Close()
	why := m.Missing()
	n, err := m.Count()
	t.Logf("%s: %d GPUs; %v", m.Source(), n, why)
	if (m.Source() == "nvml") == (why != nil) || err != nil {
		t.Errorf("%s, %v, %v", m.Source(), why, err)
	}
}

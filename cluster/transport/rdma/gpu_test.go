package rdma_test

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

// taking is a device that takes memory of GPUs.
type taking struct {
	fabric.Device
	t    *testing.T
	want []byte
}

func (d taking) RegisterGPU(dmaBuf int, offset, length, address uint64, rights fabric.Rights) (fabric.Region, error) {
	got := make([]byte, length)
	// The stand-in's is a file with the bytes.
	if _, err := unix.Pread(dmaBuf, got, int64(offset)); err != nil || !bytes.Equal(got, d.want) {
		d.t.Errorf("the dma-buf is not of the memory: %v", err)
	}
	if rights != fabric.RemoteWrite || address == 0 {
		d.t.Errorf("address %#x, rights %d", address, rights)
	}
	return nil, errTaken
}

var errTaken = errors.New("taken")

// TestRegisterGPU: the device is handed exactly the GPU's memory, and where one of the two
// cannot, that is said.
func TestRegisterGPU(t *testing.T) {
	net := sim.New(sim.Config{})
	defer net.Close()
	m, err := net.Machine("a", sim.MachineConfig{Ports: sim.RoCE(1, 1)})
	noError(t, err)
	ports, err := m.Ports()
	noError(t, err)
	nic, err := m.Open(ports[0], ports[0].GIDs[1])
	noError(t, err)
	driver, err := gpu.OpenCUDA(gputest.CUDA(t))
	noError(t, err)
	g, err := driver.Device(0)
	noError(t, err)
	p, err := g.Alloc(1 << 20)
	noError(t, err)
	want := fill(t, g, p+4096, 64<<10)
	if _, err := rdma.RegisterGPU(taking{nic, t, want}, g, p+4096, 64<<10, fabric.RemoteWrite); !errors.Is(err, errTaken) {
		t.Error(err)
	}
	if _, err := rdma.RegisterGPU(nic, g, p, 4096, 0); !errors.Is(err, fabric.ErrUnsupported) {
		t.Errorf("a device that cannot: %v", err)
	}
	fake, err := gpu.NewFake(gpu.FakeOptions{}).Device(0)
	noError(t, err)
	if _, err := rdma.RegisterGPU(taking{nic, t, nil}, fake, p, 4096, 0); !errors.Is(err, fabric.ErrUnsupported) || !errors.Is(err, gpu.ErrNoDMABuf) {
		t.Errorf("a GPU that cannot: %v", err)
	}
	noError(t, errors.Join(g.Free(p), g.Close(), nic.Close()))
}

// fill writes bytes to a GPU's memory, and returns them.
func fill(t *testing.T, g gpu.Device, p gpu.Pointer, nBytes int) []byte {
	a, err := arena.New(arena.Options{Bytes: arena.MinBytes, Pages: arena.PagesSmall})
	noError(t, err)
	_, err = a.Register(gpu.Registrar{Device: g}, arena.CUDAPieceBytes)
	noError(t, err)
	f, err := a.Get(nBytes)
	noError(t, err)
	for i := range f.Bytes() {
		f.Bytes()[i] = byte(i * 7)
	}
	want := bytes.Clone(f.Bytes())
	s, err := g.Stream()
	noError(t, err)
	noError(t, s.ToDevice([]gpu.Copy{{Device: p, Host: f.Bytes()}}))
	e, err := s.Record()
	noError(t, err)
	noError(t, errors.Join(e.Wait(t.Context()), e.Close(), s.Close()))
	f.Release()
	noError(t, a.Close())
	return want
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

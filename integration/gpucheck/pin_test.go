package gpucheck

import (
	"errors"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/gpu"
)

// openStore makes a store in the directory of the check.
func openStore(t *testing.T, capacityBytes int64) *engine.Store {
	t.Helper()
	dir, err := os.MkdirTemp(directory(t), "gpucheck")
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Open(engine.Options{Dir: dir, CapacityBytes: capacityBytes, AnyFileSystem: true, BufferedIO: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestPins: memory of each kind of pages can be registered with CUDA and with
// io_uring, in either order, and how long that takes.
func TestPins(t *testing.T) {
	d, _ := openDevice(t)
	s := openStore(t, 256*mib)
	cuda := gpu.Registrar{Device: d, Flags: gpu.Portable | gpu.DeviceMap}
	uring := arena.RegistrarFunc(s.RegisterMemory)
	for _, pages := range []arena.Pages{arena.PagesSmall, arena.PagesTHP, arena.PagesHugeTLB} {
		start := time.Now()
		a, err := arena.New(arena.Options{Bytes: arenaBytes(t), Pages: pages, Nodes: nearest(d)})
		if err != nil {
			t.Fatal(err)
		}
		n := a.Facts().Bytes
		t.Logf("INFO asked for %s: %v; populated in %.3f s/GiB; %q", pages, a.Facts(), perGiB(time.Since(start), n), a.Facts().Notes)
		timed := func(what string, r arena.Registrar, pieceBytes int64) func() {
			start := time.Now()
			release, err := a.Register(r, pieceBytes)
			if errors.Is(err, errors.ErrUnsupported) { // psync, or a low limit of locked memory
				t.Logf("INFO %s: %v", what, err)
				return func() {}
			}
			if err != nil {
				t.Errorf("%s of pages %s: %v", what, a.Facts().Pages, err)
				return func() {}
			}
			took := perGiB(time.Since(start), n)
			t.Logf("PASS %s of pages %s: %.4f s/GiB", what, a.Facts().Pages, took)
			report(t, finding{fmt.Sprintf("register with %s, pages %s", what, a.Facts().Pages), took, "s/GiB", fmt.Sprintf("asked for %s", pages)})
			return release
		}
		release := timed("CUDA", cuda, arena.CUDAPieceBytes)
		timed("io_uring after CUDA", uring, arena.UringPieceBytes)()
		release()
		release = timed("io_uring", uring, arena.UringPieceBytes)
		timed("CUDA after io_uring", cuda, arena.CUDAPieceBytes)()
		start = time.Now()
		release()
		t.Logf("INFO the last release: %.4f s/GiB", perGiB(time.Since(start), n))
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReadOnly tells whether memory that a client may only read can be
// registered.
func TestReadOnly(t *testing.T) {
	d, _ := openDevice(t)
	s, err := arena.NewShared("gpucheck", 16*mib)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mem, err := unix.Mmap(int(s.File().Fd()), 0, 16*mib, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	for _, flags := range []gpu.RegisterFlags{gpu.Portable, gpu.Portable | gpu.ReadOnly} {
		release, err := d.RegisterHost(mem, flags)
		t.Logf("INFO a mapping for reading, flags %d (the device says read-only is supported: %t): %v", flags, d.Info().RegisterReadOnly, err)
		if err == nil {
			release()
		} else if flags&gpu.ReadOnly != 0 && d.Info().RegisterReadOnly {
			t.Error("the device promised it")
		}
	}
}

// TestStraddle tells what the driver does with a copy across two registrations.
func TestStraddle(t *testing.T) {
	d, _ := openDevice(t)
	a, err := arena.New(arena.Options{Bytes: 4 * mib})
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Get(4 * mib)
	if err != nil {
		t.Fatal(err)
	}
	mem, s, p := f.Bytes(), stream(t, d), alloc(t, d, 4*mib)
	for _, half := range [][]byte{mem[:2*mib], mem[2*mib:]} {
		release, err := d.RegisterHost(half, gpu.Portable)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	across := gpu.Copy{Device: p + mib, Host: mem[mib : 3*mib]}
	t.Logf("INFO alone: %v", errors.Join(s.ToDevice([]gpu.Copy{across}), finish(s)))
	t.Logf("INFO in a batch: %v", errors.Join(s.ToDevice([]gpu.Copy{{Device: p, Host: mem[:mib]}, across}), finish(s)))
	f.Release()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestSecondProcess: a client that gets the descriptor of shared memory maps it,
// registers it itself, copies to its GPU and back, and has the same bytes.
func TestSecondProcess(t *testing.T) {
	_, library := openDevice(t)
	nBytes := arenaBytes(t) / 8
	s, err := arena.NewShared("gpucheck", 2*nBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Acquire(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	mem, err := s.Slice(0, uint64(2*nBytes))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = rand.NewChaCha8([32]byte{7}).Read(mem[:nBytes]) // never fails
	cmd := exec.Command(os.Args[0])
	cmd.ExtraFiles = []*os.File{s.File()}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", clientBytes, nBytes), clientStub+"="+library)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	same(t, "the client's copy to its GPU and back", mem[nBytes:], mem[:nBytes])
}

// client is the second process: it copies the first half of the memory to the
// GPU and from there to the second half.
func client() error {
	n, err := strconv.Atoi(os.Getenv(clientBytes))
	if err != nil {
		return err
	}
	const inherited = 3
	region, err := arena.MapRegion(os.NewFile(inherited, "shared"), int64(2*n))
	if err != nil {
		return err
	}
	defer region.Close()
	if err := region.Acquire(); err != nil {
		return err
	}
	defer region.Release()
	var paths []string
	if library := os.Getenv(clientStub); library != "" {
		paths = []string{library}
	}
	driver, err := gpu.OpenCUDA(paths...)
	if err != nil {
		return err
	}
	d, err := driver.Device(0)
	if err != nil {
		return err
	}
	start := time.Now()
	release, err := region.Register(gpu.Registrar{Device: d, Flags: gpu.Portable}, arena.CUDAPieceBytes)
	if err != nil {
		return err
	}
	defer release()
	fmt.Printf("INFO the client registers in %.4f s/GiB\n", perGiB(time.Since(start), int64(2*n)))
	from, err := region.Slice(0, uint64(n))
	if err != nil {
		return err
	}
	to, err := region.Slice(uint64(n), uint64(n))
	if err != nil {
		return err
	}
	s, err := d.Stream()
	if err != nil {
		return err
	}
	p, err := d.Alloc(uint64(n))
	if err != nil {
		return err
	}
	if err := errors.Join(s.ToDevice([]gpu.Copy{{Device: p, Host: from}}), s.ToHost([]gpu.Copy{{Device: p, Host: to}}), finish(s), d.Free(p)); err != nil {
		return err
	}
	fmt.Printf("INFO the client has %#x\n", crc64.Checksum(to, crc64.MakeTable(crc64.ECMA)))
	return nil
}

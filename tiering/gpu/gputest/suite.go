package gputest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/spillway-kv/spillway/tiering/gpu"
)

// Run tests a driver on its first GPU. It takes 40 MiB of the host's memory and
// 16 MiB of the GPU's.
func Run(t *testing.T, driver gpu.Driver) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"info", info},
		{"memory", memory},
		{"register", register},
		{"round trips", roundTrips},
		{"straddling", straddling},
		{"refusals", refusals},
		{"order", order},
		{"on the device", onDevice},
		{"two streams", twoStreams},
		{"given up", givenUp},
		{"dma-buf", dmaBuf},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newRig(t, driver)) })
	}
	t.Run("another device", func(t *testing.T) {
		for _, index := range []int{-1, len(driver.Devices())} {
			if d, err := driver.Device(index); err == nil {
				t.Errorf("device %d: %v", index, d)
			}
		}
	})
}

func info(t *testing.T, r *rig) {
	i := r.device.Info()
	t.Logf("%s, API %d: %+v", r.driver.Name(), r.driver.Version(), i)
	if i != r.driver.Devices()[0] || i.Name == "" || i.MemoryBytes == 0 || !i.RegisterHost {
		t.Error("something is missing")
	}
}

func memory(t *testing.T, r *rig) {
	before, total, err := r.device.Memory()
	if err != nil || total == 0 || before > total {
		t.Fatalf("%d of %d, %v", before, total, err)
	}
	p, err := r.device.Alloc(8 << 20)
	if err != nil || p == 0 || p%256 != 0 {
		t.Fatalf("%#x, %v", p, err)
	}
	if after, _, err := r.device.Memory(); err != nil || after >= before {
		t.Errorf("%d free before, %d after, %v", before, after, err)
	}
	if err := r.device.Free(p); err != nil {
		t.Fatal(err)
	}
	var answer *gpu.Error
	if _, err := r.device.Alloc(total * 2); !errors.As(err, &answer) || answer.Code != 2 || !strings.Contains(err.Error(), "nvidia-smi") {
		t.Errorf("more than there is: %v", err)
	}
	if _, err := r.device.Alloc(0); err == nil {
		t.Error("nothing was allocated")
	}
}

func register(t *testing.T, r *rig) {
	a := newArena(t, 4<<20)
	f, err := a.Get(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	mem := f.Bytes()
	release, err := r.device.RegisterHost(mem[:2<<20], gpu.Portable)
	if err != nil {
		t.Fatal(err)
	}
	var answer *gpu.Error
	if _, err := r.device.RegisterHost(mem[:2<<20], gpu.Portable); !errors.As(err, &answer) || answer.Code != 712 {
		t.Errorf("registered twice: %v", err)
	}
	if _, err := r.device.RegisterHost(mem[1<<20:], gpu.Portable); err == nil {
		t.Error("a part was registered twice")
	}
	release()
	release()
	if release, err = r.device.RegisterHost(mem, gpu.Portable); err != nil {
		t.Fatalf("after the release: %v", err)
	}
	release()
	if _, err := r.device.RegisterHost(nil, gpu.Portable); err == nil {
		t.Error("no memory was registered")
	}
	f.Release()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// roundTrips: from many goroutines, scattered copies give the bytes back.
func roundTrips(t *testing.T, r *rig) {
	const workers, own, piece = 8, 1 << 20, 64 << 10
	base := r.alloc(t, workers*own)
	var group sync.WaitGroup
	for w := range workers {
		s, mem := r.stream(t), r.host(t, own)
		group.Go(func() {
			source := rand.NewChaCha8([32]byte{byte(w)})
			want := make([]byte, own)
			for round := range 4 {
				_, _ = source.Read(want) // never fails
				copy(mem, want)
				var copies []gpu.Copy
				for i, j := range rand.New(source).Perm(own / piece) {
					copies = append(copies, gpu.Copy{Device: base + gpu.Pointer(w*own+j*piece), Host: mem[i*piece:][:piece]})
				}
				if round == 3 { // one by one
					copies = copies[:1]
				}
				if err := errors.Join(s.ToDevice(copies), finish(s)); err != nil {
					t.Error(err)
					return
				}
				for _, c := range copies {
					clear(c.Host)
				}
				if err := errors.Join(s.ToHost(copies), finish(s)); err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(mem, want) {
					t.Errorf("goroutine %d, round %d: other bytes", w, round)
					return
				}
			}
		})
	}
	group.Wait()
}

// straddling: a batch with a copy across two registrations is refused.
func straddling(t *testing.T, r *rig) {
	a := newArena(t, 4<<20)
	f, err := a.Get(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	mem := f.Bytes()
	for _, half := range [][]byte{mem[:2<<20], mem[2<<20:]} {
		release, err := r.device.RegisterHost(half, gpu.Portable)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	p, s := r.alloc(t, 4<<20), r.stream(t)
	copies := []gpu.Copy{{Device: p, Host: mem[:1<<20]}, {Device: p + 1<<20, Host: mem[1<<20:][:2<<20]}}
	if err := errors.Join(s.ToDevice(copies), finish(s)); err == nil {
		t.Error("it was accepted")
	} else {
		t.Log(err)
	}
	f.Release()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func refusals(t *testing.T, r *rig) {
	p, s, mem := r.alloc(t, 8192), r.stream(t), r.host(t, 8192)
	if err := errors.Join(s.ToDevice(nil), s.ToHost(nil), finish(s)); err != nil {
		t.Errorf("no copies: %v", err)
	}
	for _, copies := range [][]gpu.Copy{
		{{Device: p, Host: nil}},
		{{Device: p, Host: mem}, {Device: p, Host: mem[:0]}},
	} {
		var answer *gpu.Error
		if err := s.ToDevice(copies); !errors.As(err, &answer) || answer.Code != 1 {
			t.Errorf("an empty copy: %v", err)
		}
	}
}

// order: a stream does one thing after the other.
func order(t *testing.T, r *rig) {
	p, s := r.alloc(t, 4096), r.stream(t)
	a, b, c := r.host(t, 4096), r.host(t, 4096), r.host(t, 4096)
	for i := range a {
		a[i], b[i], c[i] = 1, 2, 3
	}
	for _, err := range []error{
		s.ToDevice([]gpu.Copy{{Device: p, Host: a}}),
		s.ToHost([]gpu.Copy{{Device: p, Host: c}}),
		s.ToDevice([]gpu.Copy{{Device: p, Host: b}}),
		finish(s),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if c[0] != 1 || c[4095] != 1 {
		t.Errorf("read %d", c[0])
	}
	if err := errors.Join(s.ToHost([]gpu.Copy{{Device: p, Host: c}}), finish(s)); err != nil || c[0] != 2 {
		t.Errorf("read %d, %v", c[0], err)
	}
}

// onDevice: bytes move from one place of the GPU's memory to another.
func onDevice(t *testing.T, r *rig) {
	const n = 1 << 20
	from, to, s := r.alloc(t, n), r.alloc(t, n), r.stream(t)
	want, got := r.host(t, n), r.host(t, n)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(want) // never fails
	for _, err := range []error{
		s.ToDevice([]gpu.Copy{{Device: from, Host: want}}),
		s.OnDevice(to, from, n),
		s.ToHost([]gpu.Copy{{Device: to, Host: got}}),
		finish(s),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("other bytes")
	}
}

// twoStreams: one waits for an event of the other.
func twoStreams(t *testing.T, r *rig) {
	p, first, second := r.alloc(t, 1<<20), r.stream(t), r.stream(t)
	from, to := r.host(t, 1<<20), r.host(t, 1<<20)
	for round := range 5 {
		_, _ = rand.NewChaCha8([32]byte{byte(round)}).Read(from) // never fails
		clear(to)
		if err := first.ToDevice([]gpu.Copy{{Device: p, Host: from}}); err != nil {
			t.Fatal(err)
		}
		e, err := first.Record()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(second.Await(e), second.ToHost([]gpu.Copy{{Device: p, Host: to}}), finish(second), e.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(from, to) {
			t.Fatal("other bytes")
		}
		if err := finish(first); err != nil {
			t.Fatal(err)
		}
	}
}

// givenUp: who stops waiting has not stopped the copy.
func givenUp(t *testing.T, r *rig) {
	p, s := r.alloc(t, 8<<20), r.stream(t)
	from, to := r.host(t, 8<<20), r.host(t, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(from) // never fails
	if err := errors.Join(s.ToDevice([]gpu.Copy{{Device: p, Host: from}}), s.ToHost([]gpu.Copy{{Device: p, Host: to}})); err != nil {
		t.Fatal(err)
	}
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := e.Done(); !done || err != nil {
		t.Errorf("done: %t, %v", done, err)
	}
	if !bytes.Equal(from, to) {
		t.Error("other bytes")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

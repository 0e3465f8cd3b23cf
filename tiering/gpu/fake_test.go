package gpu_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/gpu/gputest"
)

func TestFake(t *testing.T) {
	for _, polls := range []int{0, 1, 3} {
		gputest.Run(t, gpu.NewFake(gpu.FakeOptions{Polls: polls, Devices: 2}))
	}
}

// fakeRig is a fake with 4 MiB of registered memory and a stream.
func fakeRig(t *testing.T, o gpu.FakeOptions) (d gpu.Device, s gpu.Stream, p gpu.Pointer, mem []byte) {
	t.Helper()
	a, err := arena.New(arena.Options{Bytes: 4 << 20, Pages: arena.PagesSmall})
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Get(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if d, err = gpu.NewFake(o).Device(0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Register(gpu.Registrar{Device: d, Flags: gpu.Portable}, arena.CUDAPieceBytes); err != nil {
		t.Fatal(err)
	}
	if s, err = d.Stream(); err != nil {
		t.Fatal(err)
	}
	if p, err = d.Alloc(4 << 20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Release()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, s, p, f.Bytes()
}

// TestFakeShowsEarlyUse: memory that is used before its event is done gives
// wrong bytes, every time.
func TestFakeShowsEarlyUse(t *testing.T) {
	_, s, p, mem := fakeRig(t, gpu.FakeOptions{Polls: 2})
	mem[0] = 1
	if err := s.ToDevice([]gpu.Copy{{Device: p, Host: mem[:4096]}}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	mem[0] = 2 // too early
	for range 2 {
		if done, err := e.Done(); done || err != nil {
			t.Fatalf("%t, %v", done, err)
		}
	}
	if done, err := e.Done(); !done || err != nil {
		t.Fatalf("%t, %v", done, err)
	}
	mem[4096] = 9
	if err := s.ToHost([]gpu.Copy{{Device: p, Host: mem[4096:8192]}}); err != nil {
		t.Fatal(err)
	}
	if mem[4096] != 9 {
		t.Error("the copy is done, and nobody has asked for it")
	}
	if err := s.Close(); err != nil { // what is queued still runs
		t.Fatal(err)
	}
	if mem[4096] != 2 {
		t.Errorf("got %d", mem[4096])
	}
}

// TestFakeFails: every call can be made to fail, and answers just that.
func TestFakeFails(t *testing.T) {
	failing := ""
	want := &gpu.Error{Call: "x", Code: 719, Name: "injected"}
	d, s, p, mem := fakeRig(t, gpu.FakeOptions{Fail: func(call string) error {
		if call == failing {
			return want
		}
		return nil
	}})
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	for call, do := range map[string]func() error{
		"cuMemGetInfo":              func() error { _, _, err := d.Memory(); return err },
		"cuMemHostRegister":         func() error { _, err := d.RegisterHost(make([]byte, 4096), 0); return err },
		"cuMemAlloc":                func() error { _, err := d.Alloc(1); return err },
		"cuMemFree":                 func() error { return d.Free(p) },
		"cuStreamCreate":            func() error { _, err := d.Stream(); return err },
		"cuMemcpyAsync":             func() error { return s.ToHost([]gpu.Copy{{Device: p, Host: mem}}) },
		"cuEventRecord":             func() error { _, err := s.Record(); return err },
		"cuEventQuery":              func() error { return e.Wait(context.Background()) },
		"cuStreamWaitEvent":         func() error { return s.Await(e) },
		"cuEventDestroy":            e.Close,
		"cuStreamDestroy":           s.Close,
		"cuDevicePrimaryCtxRelease": d.Close,
	} {
		failing = call
		if err := do(); !errors.Is(err, want) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestFakeRefusals(t *testing.T) {
	d, s, p, mem := fakeRig(t, gpu.FakeOptions{MemoryBytes: 8 << 20})
	var answer *gpu.Error
	for _, c := range []gpu.Copy{
		{Device: p, Host: make([]byte, 16)},     // not registered
		{Device: p + 4<<20 - 8, Host: mem[:16]}, // past the end
		{Device: p - 1, Host: mem[:16]},
		{Device: 12, Host: mem[:16]},
	} {
		if err := s.ToDevice([]gpu.Copy{c}); !errors.As(err, &answer) || answer.Code != 1 {
			t.Errorf("%#x: %v", c.Device, err)
		}
	}
	if _, err := d.Alloc(4<<20 + 1); !errors.As(err, &answer) || answer.Code != 2 {
		t.Errorf("got %v", err)
	}
	if err := d.Free(p); err != nil {
		t.Fatal(err)
	}
	if err := d.Free(p); !errors.As(err, &answer) || answer.Code != 1 {
		t.Errorf("freed twice: %v", err)
	}
	if _, err := d.RegisterHost(mem, 4); err == nil {
		t.Error("a flag that there is not")
	}
	other, otherStream, _, _ := fakeRig(t, gpu.FakeOptions{})
	e, err := otherStream.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Await(e); err == nil {
		t.Error("an event of another driver")
	}
	_ = other
}

// TestWaitEnds: a wait for what never comes ends with its context.
func TestWaitEnds(t *testing.T) {
	_, s, p, mem := fakeRig(t, gpu.FakeOptions{Polls: 1 << 40})
	if err := s.ToDevice([]gpu.Copy{{Device: p, Host: mem}}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

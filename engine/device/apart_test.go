package device_test

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// TestApart: no thread of a lane ever enters a ring, whoever submits meanwhile.
func TestApart(t *testing.T) {
	var mu sync.Mutex
	submitting, blocking := map[int]bool{}, map[int]bool{}
	note := func(threads map[int]bool) {
		mu.Lock()
		defer mu.Unlock()
		threads[unix.Gettid()] = true
	}
	calls := iouring.Kernel
	calls.Enter = func(fd int, submit, wait, flags uint32) (int, syscall.Errno) {
		note(submitting)
		return iouring.Kernel.Enter(fd, submit, wait, flags)
	}
	d := openRing(t, device.Options{}, device.SetUp{Calls: calls})
	f := ringFile(t, d, 64)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				ops := reads(f, 8, nil)
				submitAndWait(d, ops)
				checkReads(t, ops)
			}
		})
		wg.Go(func() {
			for range 50 {
				d.(device.Apart).Apart(func() { note(blocking); _ = syscall.Fdatasync(-1) })
			}
		})
	}
	wg.Wait()
	if len(submitting) == 0 || len(blocking) == 0 {
		t.Fatalf("submitted on %d threads, blocked on %d", len(submitting), len(blocking))
	}
	for thread := range blocking {
		if submitting[thread] {
			t.Errorf("thread %d submits and blocks", thread)
		}
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestNamesAreApart: every method that may sit in the kernel runs on a lane. A
// method that the interfaces gain later has to be put into one list or the other.
func TestNamesAreApart(t *testing.T) {
	d := openRing(t, device.Options{}, device.SetUp{})
	f := ringFile(t, d, 1)
	second := ringless(t, d)
	blocking := map[string]func() error{
		"Device.Create":    func() error { g, err := d.Create("g", 4096); closeFile(t, g); return err },
		"Device.Open":      func() error { g, err := d.Open("f"); closeFile(t, g); return err },
		"Device.Remove":    func() error { return d.Remove("g") },
		"Device.Rename":    func() error { return d.Rename("h", "i") },
		"Device.List":      func() error { _, err := d.List(); return err },
		"Device.ReadFile":  func() error { _, err := d.ReadFile("f"); return err },
		"Device.WriteFile": func() error { return d.WriteFile("j", []byte("text")) },
		"Device.SyncDir":   d.SyncDir,
		"Device.Space":     func() error { _, err := d.Space(); return err },
		"File.SetAttr":     func() error { _ = f.SetAttr("a", []byte("b")); return nil }, // the file system may have none
		"File.Attr":        func() error { _, _ = f.Attr("a"); return nil },
		"File.Close":       second.Close,
	}
	if !d.Facts().Xattrs {
		delete(blocking, "File.SetAttr")
		delete(blocking, "File.Attr")
	}
	quick := []string{"Device.Facts", "Device.Submit", "Device.Close", "File.Name", "File.SizeBytes"}
	var all []string
	for what, typ := range map[string]reflect.Type{"Device": reflect.TypeFor[device.Device](), "File": reflect.TypeFor[device.File]()} {
		for i := range typ.NumMethod() {
			all = append(all, what+"."+typ.Method(i).Name)
		}
	}
	slices.Sort(all)
	for _, name := range all {
		if blocking[name] == nil && !slices.Contains(quick, name) && d.Facts().Xattrs {
			t.Errorf("%s is in no list", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(blocking)) {
		before := device.LaneCalls(d)
		if err := blocking[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if device.LaneCalls(d) == before {
			t.Errorf("%s ran on its caller's thread", name)
		}
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// ringless is an open file h of no bytes.
func ringless(t *testing.T, d device.Device) device.File {
	t.Helper()
	f, err := d.Create("h", 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestApartEnds: a panic is the caller's, and after Close calls run where they are.
func TestApartEnds(t *testing.T) {
	d := openRing(t, device.Options{}, device.SetUp{})
	for range 10 { // more than there are lanes
		func() {
			defer func() {
				if got := recover(); got != "why" {
					t.Errorf("recovered %v", got)
				}
			}()
			d.(device.Apart).Apart(func() { panic("why") })
		}()
	}
	closeDevice(t, d)
	ran := false
	d.(device.Apart).Apart(func() { ran = true })
	if !ran {
		t.Error("a call after Close was dropped")
	}
}

package gpucheck

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/tiering/gpu"
)

// What a GPU on PCIe 5 with 16 lanes must reach, in bytes a second; some way
// below what others have measured.
const (
	largeWanted = 45e9 // blocks of 64 MiB
	smallWanted = 30e9 // blocks of 64 KiB
)

// speed copies host memory in scattered blocks and is the best of some rounds,
// in bytes a second.
func speed(s gpu.Stream, p gpu.Pointer, host []byte, blockBytes int, toDevice, batch bool) (float64, error) {
	n := len(host) / blockBytes
	copies := make([]gpu.Copy, n)
	for i := range copies {
		const prime = 7919 // some order that is not that of memory
		j := (i*prime + 13) % n
		copies[i] = gpu.Copy{Device: p + gpu.Pointer(j*blockBytes), Host: host[i*blockBytes:][:blockBytes]}
	}
	step := 1
	if batch {
		step = 4096
	}
	queue := s.ToHost
	if toDevice {
		queue = s.ToDevice
	}
	best := 0.0
	for range 3 {
		start := time.Now()
		for i := 0; i < n; i += step {
			if err := queue(copies[i:min(i+step, n)]); err != nil {
				return 0, err
			}
		}
		if err := finish(s); err != nil {
			return 0, err
		}
		best = max(best, float64(n*blockBytes)/time.Since(start).Seconds())
	}
	return best, nil
}

func TestSpeed(t *testing.T) {
	d, _ := openDevice(t)
	a := registered(t, d)
	total := 512 * mib
	if !real {
		total = 16 * mib
	}
	host, p, s := frame(t, a, total).Bytes(), alloc(t, d, uint64(total)), stream(t, d)
	rate := func(mem []byte, blockBytes int, toDevice, batch bool) float64 {
		v, err := speed(s, p, mem, blockBytes, toDevice, batch)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	reached := map[int]float64{}
	for _, blockBytes := range []int{4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 4 * mib, min(64*mib, total)} {
		part := host[:min(total, blockBytes*8192)]
		reached[blockBytes] = rate(part, blockBytes, true, true)
		t.Logf("INFO blocks of %8d bytes, GB/s: to the GPU one by one %.2f, batch %.2f; to the host one by one %.2f, batch %.2f", blockBytes,
			rate(part, blockBytes, true, false)/1e9, reached[blockBytes]/1e9, rate(part, blockBytes, false, false)/1e9, rate(part, blockBytes, false, true)/1e9)
	}
	if !real {
		return
	}
	pageable, err := unix.Mmap(-1, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(pageable) }()
	slow := rate(pageable, 64*mib, true, false)
	report(t, finding{Name: "host to GPU, registered memory, 64 MiB", Value: reached[64*mib] / 1e9, Unit: "GB/s", Text: fmt.Sprintf("%.1f times pageable", reached[64*mib]/slow)})
	report(t, finding{Name: "host to GPU, registered memory, 64 KiB", Value: reached[64*kib] / 1e9, Unit: "GB/s"})
	report(t, finding{Name: "host to GPU, pageable memory", Value: slow / 1e9, Unit: "GB/s"})
	t.Logf("INFO memory that is not registered: %.2f GB/s to the GPU, %.2f to the host", slow/1e9, rate(pageable, 64*mib, false, false)/1e9)
	if link := bestLink(t, d); link.GenerationMax < 5 || link.WidthMax < 16 {
		t.Logf("INFO not judged: the link is %+v", link)
		return
	}
	for what, ok := range map[string]bool{
		fmt.Sprintf("64 MiB at %.0f GB/s or more", largeWanted/1e9): reached[64*mib] >= largeWanted,
		fmt.Sprintf("64 KiB at %.0f GB/s or more", smallWanted/1e9): reached[64*kib] >= smallWanted,
		"twice as fast as memory that is not registered":            reached[64*mib] >= 2*slow,
	} {
		if ok {
			t.Logf("PASS %s", what)
		} else {
			t.Errorf("not %s", what)
		}
	}
}

// bestLink is the PCIe link of the device, as the monitor knows it.
func bestLink(t *testing.T, d gpu.Device) (link gpu.Link) {
	t.Helper()
	m := openMonitor(t)
	defer m.Close()
	n, _ := m.Count()
	for i := range n {
		if id, err := m.PCIBusID(i); err == nil && id == d.Info().PCIBusID {
			link, _ = m.Link(i)
		}
	}
	return link
}

// TestBothWays: copies in both directions at once, and the link while they run.
func TestBothWays(t *testing.T) {
	d, _ := openDevice(t)
	a := registered(t, d)
	n, rounds := 256*mib, 16
	if !real {
		n, rounds = 8*mib, 2
	}
	in, out := frame(t, a, n).Bytes(), frame(t, a, n).Bytes()
	to, from := alloc(t, d, uint64(n)), alloc(t, d, uint64(n))
	up, down := stream(t, d), stream(t, d)
	start := time.Now()
	var group sync.WaitGroup
	run := func(queue func([]gpu.Copy) error, s gpu.Stream, c gpu.Copy) {
		for range rounds {
			if err := queue([]gpu.Copy{c}); err != nil {
				t.Error(err)
			}
		}
		if err := finish(s); err != nil {
			t.Error(err)
		}
	}
	group.Go(func() { run(up.ToDevice, up, gpu.Copy{Device: to, Host: in}) })
	group.Go(func() { run(down.ToHost, down, gpu.Copy{Device: from, Host: out}) })
	link := bestLink(t, d)
	group.Wait()
	report(t, finding{"both directions at once", 2 * float64(rounds*n) / time.Since(start).Seconds() / 1e9, "GB/s", fmt.Sprintf("in sum; the link under load: %+v", link)})
}

// TestLatency of one small block, as who loads it sees it.
func TestLatency(t *testing.T) {
	d, _ := openDevice(t)
	a := registered(t, d)
	host, p, s := frame(t, a, 64*kib).Bytes(), alloc(t, d, 64*kib), stream(t, d)
	best := time.Hour
	for range 50 {
		start := time.Now()
		if err := errors.Join(s.ToDevice([]gpu.Copy{{Device: p, Host: host}}), finish(s)); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	report(t, finding{"64 KiB to the GPU, from the call to the end of the wait", best.Seconds() * 1e6, "us", "best of 50"})
}

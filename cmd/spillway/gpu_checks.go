package main

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cmd/spillway/doctor"
	"github.com/spillway-kv/spillway/tiering/gpu"
)

// batchVersion is the API that copies many pieces in one call.
const batchVersion = 12080

// examine judges what was found. Nothing is bad: a store works without a GPU.
func (f *gpuFound) examine() []doctor.Check {
	checks := []doctor.Check{f.checkPresent(), f.checkCUDA(), f.checkNVML()}
	if f.apiVersion > 0 && f.apiVersion < batchVersion {
		checks = append(checks, doctor.Check{Name: "batch copies", Level: doctor.Warn, Found: "CUDA " + f.cuda(),
			Means: "each piece is copied by a call of its own, 2 µs each: blocks in small pieces load slower", Remedy: "install a driver of CUDA 12.8 or newer"})
	}
	for _, g := range f.gpus {
		checks = append(checks, g.checks(f.apiVersion > 0)...)
	}
	return checks
}

func (f *gpuFound) checkPresent() doctor.Check {
	c := doctor.Check{Name: "gpus", Level: doctor.OK, Found: fmt.Sprintf("%d by %s", len(f.gpus), f.source), Means: "blocks can be copied to and from them"}
	if len(f.gpus) == 0 {
		c.Level, c.Found, c.Means, c.Remedy = doctor.Warn, "none", "blocks go no further than host memory; a store needs no GPU", "lspci -d 10de: lists those that are plugged in"
	}
	return c
}

func (f *gpuFound) checkCUDA() doctor.Check {
	if f.cudaErr == nil {
		return doctor.Check{Name: "cuda", Level: doctor.OK, Found: "API " + f.cuda(), Means: "the driver's library works in this process"}
	}
	return missing("cuda", f.cudaErr, "this process cannot register memory with a GPU, nor copy; clients copy by themselves")
}

func (f *gpuFound) checkNVML() doctor.Check {
	if f.monitorErr == nil {
		driver := f.kernelDriver
		if driver == "" {
			driver = "of unknown version"
		}
		return doctor.Check{Name: "nvml", Level: doctor.OK, Found: "driver " + driver, Means: "memory, energy and temperature can be read"}
	}
	return missing("nvml", f.monitorErr, "facts are those of /sys: no memory, energy and temperature")
}

// missing is a warning with what mends it, as far as the error knows.
func missing(name string, err error, means string) doctor.Check {
	c := doctor.Check{Name: name, Level: doctor.Warn, Found: err.Error(), Means: means, Remedy: "nvidia-smi, and dmesg | grep -i nvrm, say more"}
	var none *gpu.NoGPUError
	switch {
	case errors.As(err, &none):
		c.Found, c.Remedy = none.Cause.Error(), none.Remedy
	case errors.Is(err, gpu.ErrNotBuilt):
		c.Remedy = "use a build with cgo (CGO_ENABLED=1)"
	}
	return c
}

// checks of one GPU.
func (g *gpuFacts) checks(cuda bool) (all []doctor.Check) {
	warn := func(name, found, means, remedy string) {
		all = append(all, doctor.Check{Name: name, Level: doctor.Warn, Found: g.PCI + " " + found, Means: means, Remedy: remedy})
	}
	if g.LinkWidth > 0 && g.LinkWidth < g.LinkWidthMax {
		warn("pcie link", fmt.Sprintf("has %d lanes of %d", g.LinkWidth, g.LinkWidthMax), "copies are that much slower",
			"sudo lspci -vv -s "+g.PCI+"; look at the slot, the riser and the BIOS")
	}
	if g.NUMANode < 0 {
		warn("numa node", "has none", "memory is not placed near it; of no matter where there is one node", "lscpu | grep NUMA; virtual machines often hide it")
	}
	switch {
	case !cuda:
	case g.CUDAIndex == nil:
		warn("cuda device", "is not seen by CUDA", "nothing is copied to it", "echo $CUDA_VISIBLE_DEVICES; a container needs --gpus all")
	case !g.registerHost:
		warn("host memory", "cannot register host memory", "copies go through the driver's buffers, at a fraction of the speed", "use another GPU")
	case !g.hostPointer:
		warn("host memory", "sees host memory at other addresses, as under WSL", "GPU code cannot use registered memory as it is", "run on Linux itself")
	}
	return all
}

package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spillway-kv/spillway/cmd/spillway/doctor"
	"github.com/spillway-kv/spillway/fio/units"
)

type gpuCmd struct {
	jsonFlag
}

// Help is shown under the flags.
func (*gpuCmd) Help() string {
	return "Lists the NVIDIA GPUs of this machine by what NVML tells, or /sys where it is missing, and the driver's own library. " +
		"Below stand checks as those of doctor: what was found, what it means for copies of blocks, and what mends it. " +
		"A machine without a GPU is no error. No memory of a GPU is used."
}

// gpuReport is the JSON of the GPUs.
type gpuReport struct {
	Type   string         `json:"type"`   // gpu
	Source string         `json:"source"` // nvml or sysfs: where facts come from
	Driver string         `json:"driver"` // version of the kernel's driver; empty: unknown or not loaded
	CUDA   string         `json:"cuda"`   // version of the driver's API; empty: its library is not usable
	GPUs   []gpuFacts     `json:"gpus"`   // in the order of their PCI addresses
	Warn   int            `json:"warn"`   // checks that are a warning
	Checks []doctor.Check `json:"checks"` // what is there and what is missing
}

// gpuFacts is one GPU; what is not known is 0 or absent.
type gpuFacts struct {
	PCI               string `json:"pci"`                          // address, as in /sys/bus/pci/devices
	Name              string `json:"name"`                         // as its maker calls it
	UUID              string `json:"uuid,omitempty"`               // as nvidia-smi shows it
	CUDAIndex         *int   `json:"cuda_index,omitempty"`         // its number in this process's CUDA; absent: CUDA does not see it
	ComputeCapability string `json:"compute_capability,omitempty"` // of CUDA
	NUMANode          int    `json:"numa_node"`                    // that it is near to; -1: unknown
	LinkGeneration    int    `json:"link_generation"`              // of PCIe, now; it drops while nothing is copied
	LinkWidth         int    `json:"link_width"`                   // lanes of PCIe, now
	LinkGenerationMax int    `json:"link_generation_max"`          // of PCIe, at most
	LinkWidthMax      int    `json:"link_width_max"`               // lanes of PCIe, at most
	MemoryBytes       uint64 `json:"memory_bytes"`                 // in all
	FreeBytes         uint64 `json:"free_bytes,omitempty"`         // of memory
	EnergyMJ          uint64 `json:"energy_mj,omitempty"`          // millijoules since the driver was loaded
	TemperatureC      int    `json:"temperature_c,omitempty"`      // degrees Celsius

	registerHost, hostPointer bool // as CUDA says
}

func (*gpuCmd) reports() []any { return []any{gpuReport{}} }

func (c *gpuCmd) run(_ context.Context, st *state) error {
	found := st.gpus.gather()
	r := gpuReport{Type: "gpu", Source: found.source, Driver: found.kernelDriver, CUDA: found.cuda(), GPUs: found.gpus, Checks: found.examine()}
	for _, check := range r.Checks {
		if check.Level == doctor.Warn {
			r.Warn++
		}
	}
	if c.JSON {
		return printJSON(st.stdout, r)
	}
	return r.print(st.stdout)
}

func (r *gpuReport) print(w io.Writer) error {
	if len(r.GPUs) == 0 {
		if _, err := fmt.Fprintln(w, "no GPU"); err != nil {
			return err
		}
		return printChecks(w, r.Checks)
	}
	rows := [][]string{{"PCI", "NAME", "CUDA", "NUMA", "LINK", "LINK MAX", "MEMORY", "FREE", "TEMPERATURE"}}
	for _, g := range r.GPUs {
		index, node := "-", "-"
		if g.CUDAIndex != nil {
			index = strconv.Itoa(*g.CUDAIndex)
		}
		if g.NUMANode >= 0 {
			node = strconv.Itoa(g.NUMANode)
		}
		rows = append(rows, []string{g.PCI, g.Name, index, node, showLink(g.LinkGeneration, g.LinkWidth), showLink(g.LinkGenerationMax, g.LinkWidthMax),
			showUnless0(int64(g.MemoryBytes), units.Bytes), showUnless0(int64(g.FreeBytes), units.Bytes),
			showUnless0(int64(g.TemperatureC), func(n int64) string { return fmt.Sprintf("%d C", n) })})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	return printChecks(w, r.Checks)
}

func showLink(generation, width int) string {
	if generation == 0 || width == 0 {
		return "-"
	}
	return fmt.Sprintf("gen %d x%d", generation, width)
}

func showUnless0(n int64, show func(int64) string) string {
	if n == 0 {
		return "-"
	}
	return show(n)
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-kv/spillway/tiering/gpu"
)

// gpuSources are where facts about GPUs come from.
type gpuSources struct {
	driver  func() (gpu.Driver, error)
	monitor func() gpu.Monitor
}

func theseGPUs() gpuSources {
	return gpuSources{
		driver:  func() (gpu.Driver, error) { return gpu.OpenCUDA() },
		monitor: func() gpu.Monitor { return gpu.OpenMonitor() },
	}
}

// gpuFound is all that the checks look at.
type gpuFound struct {
	source       string
	kernelDriver string
	monitorErr   error // why NVML is not used
	apiVersion   int   // of the driver's library; 0: not usable
	cudaErr      error // why not
	gpus         []gpuFacts
}

// cuda is the version of the driver's API as people write it.
func (f *gpuFound) cuda() string {
	if f.apiVersion == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", f.apiVersion/1000, f.apiVersion%1000/10)
}

// gather asks both. A fact that is not to be had stays zero.
func (s gpuSources) gather() gpuFound {
	m := s.monitor()
	defer m.Close()
	f := gpuFound{source: m.Source(), monitorErr: m.Missing(), gpus: []gpuFacts{}}
	f.kernelDriver, _ = m.DriverVersion()
	count, err := m.Count()
	if err != nil && f.monitorErr == nil {
		f.monitorErr = err
	}
	for i := range count {
		g := gpuFacts{NUMANode: -1}
		g.PCI, _ = m.PCIBusID(i)
		g.Name, _ = m.Name(i)
		g.UUID, _ = m.UUID(i)
		if node, err := m.NUMANode(i); err == nil {
			g.NUMANode = node
		}
		link, _ := m.Link(i)
		g.LinkGeneration, g.LinkWidth, g.LinkGenerationMax, g.LinkWidthMax = link.Generation, link.Width, link.GenerationMax, link.WidthMax
		g.FreeBytes, g.MemoryBytes, _ = m.Memory(i)
		g.EnergyMJ, _ = m.EnergyMJ(i)
		g.TemperatureC, _ = m.TemperatureC(i)
		f.gpus = append(f.gpus, g)
	}
	driver, err := s.driver()
	if err != nil {
		f.cudaErr = err
	} else {
		f.apiVersion = driver.Version()
		f.addCUDA(driver.Devices())
	}
	slices.SortStableFunc(f.gpus, func(a, b gpuFacts) int { return strings.Compare(a.PCI, b.PCI) })
	return f
}

// addCUDA joins what CUDA knows to the GPU with the same address.
func (f *gpuFound) addCUDA(devices []gpu.Info) {
	for _, d := range devices {
		i := slices.IndexFunc(f.gpus, func(g gpuFacts) bool { return g.PCI == d.PCIBusID && g.CUDAIndex == nil })
		if i < 0 { // hidden from the monitor
			i = len(f.gpus)
			f.gpus = append(f.gpus, gpuFacts{PCI: d.PCIBusID, NUMANode: d.NUMANode})
		}
		g := &f.gpus[i]
		index := d.Index
		g.CUDAIndex, g.ComputeCapability = &index, fmt.Sprintf("%d.%d", d.Major, d.Minor)
		g.registerHost, g.hostPointer = d.RegisterHost, d.HostPointer
		if g.Name == "" || f.source == "sysfs" {
			g.Name = d.Name
		}
		if g.UUID == "" {
			g.UUID = d.UUID
		}
		if g.MemoryBytes == 0 {
			g.MemoryBytes = d.MemoryBytes
		}
	}
}

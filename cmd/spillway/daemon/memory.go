package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/engine/machine"
	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// openMemory takes the memory tier's memory, if there is to be one.
func (d *daemon) openMemory() error {
	o, ok := d.config.Memory.Tier()
	if !ok {
		return nil
	}
	d.tell("taking %d bytes of memory", o.Bytes)
	if d.config.Memory.NUMA == config.NUMAAuto {
		var why string
		o.Nodes, why = d.nearNodes()
		d.log.Info("the memory tier's place", "nodes", o.Nodes, "because", why)
	}
	began := time.Now()
	tier, err := memory.New(o)
	if err != nil {
		return fmt.Errorf("memory tier (memory.dram_bytes): %w", err)
	}
	d.memory = tier
	f := tier.Facts()
	d.log.Info("the memory tier is there", "bytes", f.Bytes, "mode", tier.Mode(), "memory", f.String(), "took", time.Since(began).Round(time.Millisecond))
	for _, note := range f.Notes {
		d.log.Warn("the memory tier is not of the best kind", "cause", note)
	}
	return nil
}

// nearNodes are the NUMA nodes near the GPUs, or without any near the drives; none
// where it makes no difference, or nobody knows.
func (d *daemon) nearNodes() (nodes []int, why string) {
	this := machine.This()
	if len(this.NUMANodes()) < 2 {
		return nil, "the machine has one NUMA node"
	}
	add := func(n int) {
		if n >= 0 && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
			slices.Sort(nodes)
		}
	}
	m := gpu.OpenMonitor()
	defer m.Close()
	count, _ := m.Count()
	for i := range count {
		if n, err := m.NUMANode(i); err == nil {
			add(n)
		}
	}
	if len(nodes) > 0 {
		return nodes, "near the GPUs, by " + m.Source()
	}
	for i := range d.config.Stores {
		for _, drive := range this.FactsOf(d.config.Stores[i].Dir).Drives {
			add(int(drive.Node))
		}
	}
	if len(nodes) > 0 {
		return nodes, "near the drives"
	}
	return nil, "the machine does not tell which node GPUs and drives are near to"
}

// closeMemory gives the memory tier back; nothing uses it any more.
func (d *daemon) closeMemory() {
	if d.memory == nil {
		return
	}
	if err := d.memory.Close(); err != nil { // the process ends, and with it the memory
		d.log.Warn("the memory tier was in use at its end", "cause", err)
	}
}

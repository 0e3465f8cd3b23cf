package result

import (
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine/machine"
	"github.com/spillway-kv/spillway/tiering/gpu"
)

// Machine says where a result comes from. What nobody tells is null or left out.
type Machine struct {
	Kernel      string       `json:"kernel,omitempty"`
	CPU         string       `json:"cpu,omitempty"`
	Cores       int          `json:"cores"`
	MemoryBytes *int64       `json:"memory_bytes"`
	Places      []Place      `json:"places,omitempty"`
	Drives      []DriveFacts `json:"drives,omitempty"`
	GPUs        []GPUFacts   `json:"gpus,omitempty"`
}

// Place is a path that jobs used, and what it lies on.
type Place struct {
	Path       string   `json:"path"`
	FileSystem string   `json:"file_system,omitempty"` // none below a block device
	Mount      string   `json:"mount,omitempty"`
	Source     string   `json:"source,omitempty"`
	Drives     []string `json:"drives,omitempty"`
}

// DriveFacts is one drive below the places, and how it was before the run and
// after it.
type DriveFacts struct {
	Name       string       `json:"name"`
	Model      string       `json:"model,omitempty"`
	Rotational *int64       `json:"rotational"` // 1 or 0
	Scheduler  string       `json:"scheduler,omitempty"`
	WriteCache string       `json:"write_cache,omitempty"`
	Before     *DriveHealth `json:"before,omitempty"`
	After      *DriveHealth `json:"after,omitempty"`
}

// DriveHealth is how a drive is.
type DriveHealth struct {
	TemperatureC *int64 `json:"temperature_c"`
	WornPercent  *int64 `json:"worn_percent"`  // of its life, by the maker's estimate
	WrittenBytes *int64 `json:"written_bytes"` // in its life
}

// GPUFacts is one GPU of the machine.
type GPUFacts struct {
	Name        string `json:"name"`
	MemoryBytes *int64 `json:"memory_bytes"`
	Driver      string `json:"driver,omitempty"`
}

// observed are the machine and its drives as they were when the watch began.
type observed struct {
	system machine.System
	facts  Machine
	drives []watched
}

type watched struct {
	drive    machine.Drive
	sinceNS  int64
	activity machine.Activity
	counts   bool // the drive tells its activity
}

// Observe begins to watch the drives below a path that jobs use: a file, a folder
// or a block device. The document then has the machine's facts, what the drives
// did (disk_util) and how warm and how worn they were before and are now. Call it
// just before the jobs begin; it takes some milliseconds.
func (r *Run) Observe(path string) { r.observe(machine.This(), path) }

func (r *Run) observe(system machine.System, path string) {
	f := system.FactsOf(path)
	r.mu.Lock()
	first := r.observed == nil
	r.mu.Unlock()
	var gpus []GPUFacts
	if first {
		gpus = gpusOf(gpu.OpenMonitor())
	}
	nowNS := r.NowNS()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.observed == nil {
		r.observed = &observed{system: system, facts: Machine{Kernel: f.Kernel, CPU: f.CPU, Cores: f.Cores, MemoryBytes: told(f.MemoryBytes), GPUs: gpus}}
	}
	o := r.observed
	if slices.ContainsFunc(o.facts.Places, func(p Place) bool { return p.Path == path }) {
		return
	}
	place := Place{Path: path, FileSystem: f.Mount.Type, Mount: f.Mount.Point, Source: f.Mount.Source}
	for _, d := range f.Drives {
		place.Drives = append(place.Drives, d.Name)
		if slices.ContainsFunc(o.drives, func(w watched) bool { return w.drive.Name == d.Name }) {
			continue
		}
		activity, ok := system.Activity(d)
		o.drives = append(o.drives, watched{d, nowNS, activity, ok})
		o.facts.Drives = append(o.facts.Drives, DriveFacts{Name: d.Name, Model: d.Model, Rotational: told(d.Rotational),
			Scheduler: d.Scheduler, WriteCache: d.WriteCache, Before: healthOf(system.Health(d))})
	}
	o.facts.Places = append(o.facts.Places, place)
}

// now is the machine and the activity of its drives at a time of the run's clock.
func (o *observed) now(nowNS int64) (*Machine, []DiskUtil) {
	if o == nil {
		return nil, nil
	}
	facts := o.facts
	facts.Drives = slices.Clone(facts.Drives)
	var all []DiskUtil
	for i, w := range o.drives {
		facts.Drives[i].After = healthOf(o.system.Health(w.drive))
		activity, ok := o.system.Activity(w.drive)
		if !ok || !w.counts {
			continue
		}
		a := activity.Since(w.activity)
		elapsedMS := max(time.Duration(nowNS-w.sinceNS).Milliseconds(), 1)
		all = append(all, DiskUtil{Name: w.drive.Name, ReadIOs: a.ReadIOs, WriteIOs: a.WriteIOs, ReadMerges: a.ReadMerges, WriteMerges: a.WriteMerges,
			ReadTicks: a.ReadTicks, WriteTicks: a.WriteTicks, InQueue: a.QueueTicks, Util: Decimal(min(100*float64(a.BusyTicks)/float64(elapsedMS), 100))})
	}
	return &facts, all
}

func healthOf(h machine.Health) *DriveHealth {
	if h.TemperatureC < 0 && h.WornPercent < 0 && h.WrittenBytes < 0 {
		return nil
	}
	return &DriveHealth{told(h.TemperatureC), told(h.WornPercent), told(h.WrittenBytes)}
}

// told is nil for the -1 of a fact that nobody tells.
func told(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// gpusOf asks a monitor, and closes it.
func gpusOf(m gpu.Monitor) (all []GPUFacts) {
	defer m.Close()
	count, err := m.Count()
	if err != nil {
		return nil
	}
	driver, _ := m.DriverVersion() // "" where it is not to be had, as the name
	for i := range count {
		g := GPUFacts{Driver: driver}
		g.Name, _ = m.Name(i)
		if _, total, err := m.Memory(i); err == nil {
			bytes := int64(total)
			g.MemoryBytes = &bytes
		}
		all = append(all, g)
	}
	return all
}

package page

import (
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/fio/result"
)

// row is one direction of one entry.
type row struct {
	Job, Direction, IOPS, Bandwidth, Mean, P50, P99, P999, Max, Service, Apart string
}

func rows(d *result.Document) (all []row) {
	for i := range d.Jobs {
		j := &d.Jobs[i]
		var ours [3]*result.SpillwayStats
		if j.Spillway != nil {
			ours = [3]*result.SpillwayStats{j.Spillway.Read, j.Spillway.Write, nil}
		}
		for n, s := range []*result.Stats{j.Read, j.Write, j.Trim} {
			r := row{Job: jobName(d, i), Direction: [...]string{"read", "write", "trim"}[n], Apart: apart(ours[n])}
			if s == nil || s.IOs == 0 && r.Apart == "" {
				continue
			}
			r.IOPS, r.Bandwidth = perSecond(float64(s.IOPS)), rate(float64(s.BWBytes))
			r.latencies(&s.Lat, &s.Clat)
			if ours[n] != nil && ours[n].ServiceNS != nil && ours[n].ServiceNS.N > 0 && len(ours[n].ServiceNS.Bins) > 0 {
				r.Service = latency(quantile(ours[n].ServiceNS, 0.99))
			}
			all = append(all, r)
		}
	}
	return all
}

// latencies takes the percentiles of the whole latency, or of its part from
// submission on where only that has bins.
func (r *row) latencies(lat, clat *result.Latency) {
	l := lat
	if len(l.Bins) == 0 && len(clat.Bins) > 0 {
		l = clat
	}
	if l.N == 0 || l.Min == nil || l.Max == nil || l.Mean == nil {
		return
	}
	r.Mean, r.Max = latency(float64(*l.Mean)), latency(float64(*l.Max))
	if len(l.Bins) > 0 {
		r.P50, r.P99, r.P999 = latency(quantile(l, 0.5)), latency(quantile(l, 0.99)), latency(quantile(l, 0.999))
	}
}

// apart lists the I/Os that are in no latency.
func apart(s *result.SpillwayStats) string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, n := range []struct {
		count int64
		name  string
	}{{s.Damaged, "damaged"}, {s.Failed, "failed"}, {s.Late, "late"}, {s.Missed, "missed"}, {s.Unverified, "unverified"}, {s.Dropped, "dropped"}, {s.Busy, "busy"}, {s.Present, "present"}} {
		if n.count > 0 {
			parts = append(parts, count(n.count)+" "+n.name)
		}
	}
	return strings.Join(parts, ", ")
}

// tiles are the few numbers on top. Groups run one after the other, so rates of
// several make no sum.
func tiles(d *result.Document) (all []fact) {
	var iops, bytes float64
	for i := range d.Jobs {
		if d.Jobs[i].GroupID != d.Jobs[0].GroupID {
			return nil
		}
	}
	for _, j := range d.Jobs {
		for _, s := range []*result.Stats{j.Read, j.Write, j.Trim} {
			if s != nil {
				iops, bytes = iops+float64(s.IOPS), bytes+float64(s.BWBytes)
			}
		}
	}
	if iops == 0 {
		return nil
	}
	all = append(all, fact{"I/Os a second", perSecond(iops)}, fact{"bandwidth", rate(bytes)})
	if len(d.Jobs) != 1 {
		all[0].Name, all[1].Name = "I/Os a second, all jobs", "bandwidth, all jobs"
	}
	if j := d.Jobs[0]; len(d.Jobs) == 1 && j.Spillway != nil && j.Spillway.CPUPerIOUS != nil && j.Spillway.CPUPerGBS != nil {
		all = append(all, fact{"CPU for each I/O", latency(float64(*j.Spillway.CPUPerIOUS) * 1e3)}, fact{"CPU for each GB", seconds(float64(*j.Spillway.CPUPerGBS))})
	}
	return all
}

func machineFacts(m *result.Machine) (all []fact) {
	if m == nil {
		return nil
	}
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{name, value})
		}
	}
	for _, p := range m.Places {
		add("path", p.Path)
		if p.FileSystem != "" {
			add("file system", fmt.Sprintf("%s on %s, mounted at %s", p.FileSystem, p.Source, p.Mount))
		}
	}
	for _, d := range m.Drives {
		add("drive "+d.Name, driveText(d))
	}
	for _, g := range m.GPUs {
		text := g.Name
		if g.MemoryBytes != nil {
			text += ", " + bytesOf(g.MemoryBytes)
		}
		if g.Driver != "" {
			text += ", driver " + g.Driver
		}
		add("GPU", text)
	}
	cpu := fmt.Sprintf("%d cores", m.Cores)
	if m.CPU != "" {
		cpu = m.CPU + ", " + cpu
	}
	add("processor", cpu)
	add("memory", bytesOf(m.MemoryBytes))
	add("kernel", m.Kernel)
	return all
}

func driveText(d result.DriveFacts) string {
	var parts []string
	if d.Model != "" {
		parts = append(parts, d.Model)
	}
	if d.Rotational != nil && *d.Rotational == 1 {
		parts = append(parts, "says that it turns")
	}
	if d.Scheduler != "" {
		parts = append(parts, "scheduler "+d.Scheduler)
	}
	if d.WriteCache != "" {
		parts = append(parts, "write cache "+d.WriteCache)
	}
	if d.Before != nil && d.After != nil {
		parts = append(parts, change("temperature", d.Before.TemperatureC, d.After.TemperatureC, "\u00a0°C"),
			change("worn", d.Before.WornPercent, d.After.WornPercent, "\u00a0%"))
		if d.Before.WrittenBytes != nil && d.After.WrittenBytes != nil {
			written := *d.After.WrittenBytes - *d.Before.WrittenBytes
			parts = append(parts, fmt.Sprintf("written in the run %s, in its life %s", bytesOf(&written), bytesOf(d.After.WrittenBytes)))
		}
	}
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, "; ")
}

func change(name string, before, after *int64, unit string) string {
	switch {
	case before == nil || after == nil:
		return ""
	case *before == *after:
		return fmt.Sprintf("%s %d%s", name, *after, unit)
	}
	return fmt.Sprintf("%s %d%s before, %d%s after", name, *before, unit, *after, unit)
}

// driveWork is what the drives did in the run.
func driveWork(d *result.Document) (all []fact) {
	for _, u := range d.DiskUtil {
		all = append(all, fact{"work of " + u.Name, fmt.Sprintf("%s reads, %s writes, busy %.0f %% of the time", count(u.ReadIOs), count(u.WriteIOs), u.Util)})
	}
	return all
}

// options are those of the run and of each job, as they were written.
func options(d *result.Document) (all []fact) {
	text := func(list result.Options) string {
		var parts []string
		for _, o := range list {
			part := o.Name
			if o.Value != "" {
				part += "=" + o.Value
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " ")
	}
	if len(d.GlobalOptions) > 0 {
		all = append(all, fact{"global", text(d.GlobalOptions)})
	}
	for i, j := range d.Jobs {
		if len(j.Options) > 0 && (i == 0 || j.Name != d.Jobs[i-1].Name) {
			all = append(all, fact{j.Name, text(j.Options)})
		}
	}
	return all
}

// notes say how to read the numbers.
func notes(d *result.Document) []string {
	all := []string{"Latency runs from just before the submission of an I/O until its bytes are there and, where the job verifies, proven."}
	open, late := false, int64(0)
	for _, j := range d.Jobs {
		if s := j.Spillway; s != nil {
			open = open || s.OpenLoop
			if s.Read != nil {
				late += s.Read.Late
			}
		}
	}
	if open {
		all = append(all, "The load was open-loop: I/Os begin by a schedule, however slow the ones before were, and latency runs from the time in the schedule. The service time, from the submission, is given beside it.")
	}
	if late > 0 {
		all = append(all, "Late reads have no latency. For the verdict each counts as one over the budget.")
	}
	return append(all, "Percentiles are nearest ranks in fio's buckets, off by less than 0.8 %. What missed, failed or came damaged is in none of them.")
}

package page

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/fio/chart"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/sweep"
	"github.com/spillway-kv/spillway/fio/units"
)

// latency writes nanoseconds with three digits: 0, 850 ns, 79.2 µs, 3.85 ms, 12.4 s.
func latency(ns float64) string {
	if ns == 0 {
		return "0"
	}
	unit, name := 1.0, "ns"
	for _, larger := range []struct {
		ns   float64
		name string
	}{{1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}} {
		if ns >= larger.ns*0.9995 || -ns >= larger.ns*0.9995 {
			unit, name = larger.ns, larger.name
		}
	}
	return digits(ns/unit) + "\u00a0" + name
}

// digits writes three significant digits without an exponent.
func digits(v float64) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(text, "e") {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return text
}

func rate(bytesPerSecond float64) string {
	for _, unit := range []struct {
		bytes float64
		name  string
	}{{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}} {
		if bytesPerSecond >= unit.bytes*0.9995 {
			return digits(bytesPerSecond/unit.bytes) + "\u00a0" + unit.name
		}
	}
	return digits(bytesPerSecond) + "\u00a0B/s"
}

func count(n int64) string { return grouped(strconv.FormatInt(n, 10)) }

// grouped puts a thin space between thousands.
func grouped(number string) string {
	if len(number) <= 4 {
		return number
	}
	var b strings.Builder
	for i, c := range number {
		if i > 0 && (len(number)-i)%3 == 0 {
			b.WriteString("\u202f")
		}
		b.WriteRune(c)
	}
	return b.String()
}

func perSecond(iops float64) string {
	if iops < 1e4 {
		return count(int64(iops + 0.5))
	}
	return chart.Number(iops)
}

// depthsOf says which queue depths a sweep measured; empty where there was none.
func depthsOf(d *result.Document) string {
	if d.Spillway == nil || d.Spillway.Sweep == nil || len(d.Spillway.Sweep.Points) < 2 {
		return ""
	}
	points := d.Spillway.Sweep.Points
	return fmt.Sprintf("queue depths %d to %d", points[0].Depth, points[len(points)-1].Depth)
}

// headline names the run: its jobs, when, against what.
func headline(d *result.Document) (title string, subtitle []string) {
	var names []string
	seen := map[string]bool{}
	depths := depthsOf(d)
	for _, j := range d.Jobs {
		name := j.Name
		if depths != "" {
			name, _, _ = strings.Cut(name, sweep.NameSuffix)
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	const namesMax = 4
	if len(names) > namesMax {
		names = append(names[:namesMax-1], fmt.Sprintf("%d more", len(names)-namesMax+1))
	}
	title = strings.Join(names, ", ")
	if title == "" {
		title = "A run without jobs"
	}
	subtitle = append(subtitle, d.Time)
	if depths != "" {
		subtitle = append(subtitle, depths)
	}
	for _, j := range d.Jobs {
		if j.Spillway != nil && j.Spillway.Target != "" && !seen["target "+j.Spillway.Target] {
			seen["target "+j.Spillway.Target] = true
			subtitle = append(subtitle, j.Spillway.Target)
		}
	}
	if d.Spillway != nil && d.Spillway.Machine != nil && len(d.Spillway.Machine.Drives) > 0 {
		drive := d.Spillway.Machine.Drives[0]
		subtitle = append(subtitle, strings.TrimSpace("drive "+drive.Name+" "+drive.Model))
	}
	return title, subtitle
}

// jobName tells entries of one name apart.
func jobName(d *result.Document, at int) string {
	name, same, before := d.Jobs[at].Name, 0, 0
	for i := range d.Jobs {
		if d.Jobs[i].Name == name {
			same++
			if i < at {
				before++
			}
		}
	}
	if same > 1 {
		return fmt.Sprintf("%s, clone %d", name, before+1)
	}
	return name
}

func bytesOf(n *int64) string {
	if n == nil {
		return ""
	}
	return units.Bytes(*n)
}

package result

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// WriteText writes the document as fio's normal text: the jobs, the status of the
// groups, the drives, and, where there is one, the verdict.
func (d *Document) WriteText(w io.Writer) error {
	var b bytes.Buffer
	for i := range d.Jobs {
		d.job(&b, &d.Jobs[i])
	}
	d.groups(&b)
	if len(d.DiskUtil) > 0 {
		b.WriteString("\nDisk stats (read/write):\n")
	}
	for _, u := range d.DiskUtil {
		fmt.Fprintf(&b, "  %s: ios=%d/%d, merge=%d/%d, ticks=%d/%d, in_queue=%d, util=%.2f%%\n", u.Name,
			u.ReadIOs, u.WriteIOs, u.ReadMerges, u.WriteMerges, u.ReadTicks, u.WriteTicks, u.InQueue, u.Util)
	}
	d.Spillway.text(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (d *Document) job(b *bytes.Buffer, j *Job) {
	workers, pid := 1, 0
	if j.Spillway != nil {
		workers = j.Spillway.Workers
	}
	if d.Spillway != nil {
		pid = d.Spillway.PID
	}
	fmt.Fprintf(b, "%s: (groupid=%d, jobs=%d): err=%2d", j.Name, j.GroupID, workers, j.Error)
	if j.Error != 0 {
		why := errnoText(j.Error)
		if j.Spillway != nil && j.Spillway.Error != "" {
			why = j.Spillway.Error
		}
		fmt.Fprintf(b, " (%s)", strings.ReplaceAll(why, "\n", "; "))
	}
	fmt.Fprintf(b, ": pid=%d: %s\n", pid, d.Time)
	for direction, s := range []*Stats{j.Read, j.Write, j.Trim, j.Mixed} {
		s.text(b, append(directionNames[:], "mixed")[direction])
	}
	for _, l := range []struct {
		unit    string
		classes Distribution
	}{{"nsec", j.LatencyNS}, {"usec", j.LatencyUS}, {"msec", j.LatencyMS}} {
		l.classes.text(b, l.unit)
	}
	if j.Sync != nil && j.Sync.Lat.N > 0 {
		b.WriteString("  fsync/fdatasync/sync_file_range:\n")
		j.Sync.Lat.text(b, "sync")
		j.Sync.Lat.Percentiles.text(b, "sync")
	}
	fmt.Fprintf(b, "  cpu          : usr=%.2f%%, sys=%.2f%%, ctx=%d, majf=%d, minf=%d\n", j.UserCPU, j.SystemCPU, j.Switches, j.MajorFaults, j.MinorFaults)
	fmt.Fprintf(b, "  IO depths    : %s\n", j.DepthLevel)
	fmt.Fprintf(b, "     submit    : %s\n", j.DepthSubmit)
	fmt.Fprintf(b, "     complete  : %s\n", j.DepthComplete)
	j.issued(b)
	if j.TotalErrors != nil && j.FirstError != nil {
		fmt.Fprintf(b, "     errors    : total=%d, first_error=%d/<%s>\n", *j.TotalErrors, *j.FirstError, errnoText(int(*j.FirstError)))
	}
	fmt.Fprintf(b, "     latency   : target=%d, window=%d, percentile=%.2f%%, depth=%d\n", j.LatencyTarget, j.LatencyWindow, j.LatencyPercentile, j.LatencyDepth)
	j.SteadyState.text(b)
	j.Spillway.text(b)
}

func (s *SteadyState) text(b *bytes.Buffer) {
	if s == nil {
		return
	}
	attained := "yes"
	if s.Attained == 0 {
		attained = "no"
	}
	fmt.Fprintf(b, "  steadystate  : attained=%s", attained)
	if s.Data != nil {
		bw, bwDecimal := sizes(uint64(s.Data.BWMean), "/s")
		fmt.Fprintf(b, ", bw=%s (%s), iops=%s", bw, bwDecimal, short(uint64(s.Data.IOPSMean), figures, false, ""))
	}
	fmt.Fprintf(b, ", %s: %s\n", s.State, s.Criterion)
}

// issued counts the I/Os of each direction, and syncs last.
func (j *Job) issued(b *bytes.Buffer) {
	var totals, shorts, drops [4]int64
	for d, s := range []*Stats{j.Read, j.Write, j.Trim} {
		if s != nil {
			totals[d], shorts[d], drops[d] = s.IOs, s.ShortIOs, s.DropIOs
		}
	}
	if j.Sync != nil {
		totals[3] = j.Sync.IOs
	}
	list := func(n [4]int64) string { return fmt.Sprintf("%d,%d,%d,%d", n[0], n[1], n[2], n[3]) }
	fmt.Fprintf(b, "     issued rwts: total=%s short=%s dropped=%s\n", list(totals), list(shorts), list(drops))
}

// String lists all classes, as in the lines of depths.
func (d Distribution) String() string {
	var parts []string
	for _, s := range d {
		parts = append(parts, fmt.Sprintf("%s=%.1f%%", s.Label, s.Percent))
	}
	return strings.Join(parts, ", ")
}

// text lists the classes of latency that hold anything, five a line.
func (d Distribution) text(b *bytes.Buffer, unit string) {
	n := 0
	for _, s := range d {
		if s.Percent <= 0 {
			continue
		}
		switch {
		case n%5 != 0:
			b.WriteString(", ")
		case n > 0:
			b.WriteString("\n")
			fallthrough
		default:
			fmt.Fprintf(b, "  lat (%s)   : ", unit)
		}
		fmt.Fprintf(b, "%s=%.2f%%", s.Label, s.Percent)
		n++
	}
	if n > 0 {
		b.WriteString("\n")
	}
}

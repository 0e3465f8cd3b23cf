package result

import (
	"bytes"
	"fmt"
	"math"

	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/units"
)

// text writes what fio has no line for: I/Os that are in no percentile, CPU, and
// with open-loop load the service time.
func (j *SpillwayJob) text(b *bytes.Buffer) {
	if j == nil {
		return
	}
	for _, d := range []struct {
		name  string
		stats *SpillwayStats
	}{{"read", j.Read}, {"write", j.Write}} {
		s := d.stats
		if s == nil || s.counted() == 0 {
			continue
		}
		if s.ServiceNS != nil {
			s.ServiceNS.text(b, "service "+d.name)
		}
		if s.counted() > s.Done {
			fmt.Fprintf(b, "     not in the percentiles of %s: missed=%d, late=%d, failed=%d, unverified=%d, damaged=%d, dropped=%d, busy=%d, present=%d\n",
				d.name, s.Missed, s.Late, s.Failed, s.Unverified, s.Damaged, s.Dropped, s.Busy, s.Present)
		}
	}
	j.Prefix.text(b)
	originText(b, j.Origins)
	if j.CPUPerIOUS != nil && j.CPUPerGBS != nil {
		fmt.Fprintf(b, "     cpu cost  : %.2f usec per I/O, %.3f s per GB\n", *j.CPUPerIOUS, *j.CPUPerGBS)
	}
}

// counted are all I/Os, however they ended.
func (s *SpillwayStats) counted() int64 {
	return s.Done + s.Missed + s.Late + s.Failed + s.Unverified + s.Damaged + s.Dropped + s.Busy + s.Present
}

func (s *Spillway) text(b *bytes.Buffer) {
	if s == nil {
		return
	}
	if v := s.Loads; v != nil {
		fmt.Fprintf(b, "\nVerdict on loads of whole prefixes: %s. %d of %d were faster than computing (%s); %s.\n", v.Verdict, v.Faster, v.Loads, v.ComputeFrom, v.Reason)
	}
	if v := s.Verdict; v != nil {
		word := "Verdict"
		if s.Loads != nil {
			word = "Block reads"
		}
		fmt.Fprintf(b, "\n%s: %s. Budget %s", word, v.Verdict, fio.FormatNS(v.BudgetNS))
		if v.BudgetFrom != "" {
			fmt.Fprintf(b, " (%s)", v.BudgetFrom)
		}
		if v.Verdict == NotJudged && v.P99NS != nil {
			fmt.Fprintf(b, ", P99 of block reads %s", fio.FormatNS(*v.P99NS))
		}
		fmt.Fprintf(b, "; %s.\n", v.Reason)
	}
	s.sweepText(b)
	transportsText(b, s.Transports)
	if s.Error != "" {
		fmt.Fprintf(b, "\nThe run did not end well: %s\n", s.Error)
	}
}

// sweepText lists the depths of a sweep, and what follows for the number of drives.
func (s *Spillway) sweepText(b *bytes.Buffer) {
	if s.Sweep != nil && len(s.Sweep.Points) > 0 {
		b.WriteString("\nSweep of iodepth:\n")
		for _, p := range s.Sweep.Points {
			bw, _ := sizes(uint64(p.BWBytes), "/s")
			fmt.Fprintf(b, "  %5d: IOPS=%s, BW=%s, P50=%s, P99=%s", p.Depth, short(uint64(p.IOPS), figures, false, ""), bw, fio.FormatNS(p.P50NS), fio.FormatNS(p.P99NS))
			if p.Verdict != "" {
				fmt.Fprintf(b, ", %s", p.Verdict)
			}
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "  knee: depth %d; 95 %% of the greatest throughput: depth %d", s.Sweep.Knee, s.Sweep.Saturation)
		if s.Sweep.Judged() {
			fmt.Fprintf(b, "; largest depth under the budget: %d", s.Sweep.DepthUnderBudget)
		}
		b.WriteString("\n")
	}
	switch e := s.Estimate; {
	case e == nil:
	case e.Hopeless:
		b.WriteString("Estimate by Little's law: even one I/O at a time would be over the budget; no number of such drives would do.\n")
	case e.Drives > 0:
		fmt.Fprintf(b, "Estimate by Little's law: a drive like this holds %.0f reads in flight within the budget; for %d in flight, %s.\n", math.Floor(e.DepthEach), e.Depth, units.Count(int64(e.Drives), "drive"))
	}
}

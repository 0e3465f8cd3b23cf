package result

import (
	"bytes"
	"fmt"

	"github.com/spillway-kv/spillway/fio"
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
			fmt.Fprintf(b, "     not in the percentiles of %s: missed=%d, late=%d, failed=%d, unverified=%d, damaged=%d, dropped=%d, busy=%d\n",
				d.name, s.Missed, s.Late, s.Failed, s.Unverified, s.Damaged, s.Dropped, s.Busy)
		}
	}
	if j.CPUPerIOUS != nil && j.CPUPerGBS != nil {
		fmt.Fprintf(b, "     cpu cost  : %.2f usec per I/O, %.3f s per GB (of the whole %s)\n", *j.CPUPerIOUS, *j.CPUPerGBS, j.CPUScope)
	}
}

// counted are all I/Os, however they ended.
func (s *SpillwayStats) counted() int64 {
	return s.Done + s.Missed + s.Late + s.Failed + s.Unverified + s.Damaged + s.Dropped + s.Busy
}

func (s *Spillway) text(b *bytes.Buffer) {
	if s == nil {
		return
	}
	if v := s.Verdict; v != nil {
		fmt.Fprintf(b, "\nVerdict: %s. Budget %s", v.Verdict, fio.FormatNS(v.BudgetNS))
		if v.BudgetFrom != "" {
			fmt.Fprintf(b, " (%s)", v.BudgetFrom)
		}
		fmt.Fprintf(b, "; %s.\n", v.Reason)
	}
	if s.Error != "" {
		fmt.Fprintf(b, "\nThe run did not end well: %s\n", s.Error)
	}
}

package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

var checkWords = []word[Check]{
	{"0", CheckNone}, {"crc32c", CheckCRC32C}, {"crc32c-intel", CheckCRC32C}, {"sha256", CheckSHA256}, {"xxhash", CheckXXHash}, {"pattern", CheckPattern},
}

const allErrors = ReadErrors | WriteErrors | VerifyErrors

var errorWords = []word[Errors]{
	{"none", 0}, {"read", ReadErrors}, {"write", WriteErrors}, {"io", ReadErrors | WriteErrors}, {"verify", VerifyErrors}, {"all", allErrors},
	{"0", 0}, {"1", allErrors},
}

var proofOptions = []Option{
	{Name: "verify", Group: "Proof", Form: listOf(checkWords), Default: "0",
		Help:    "Write payloads that say which block and version they are, and check every read by this sum; pattern compares every byte. store and pool check their own sums always.",
		Differs: "The payload is ours, so fio cannot verify what was written here, nor the other way round.",
		set:     wordTo(func(d *draft) *Check { return &d.Verify }, checkWords)},
	{Name: "do_verify", Group: "Proof", Form: "0|1", Default: "1",
		Help: "With verify: read back and check after writing.",
		set:  flagTo(func(d *draft) *bool { return &d.DoVerify })},
	{Name: "verify_only", Group: "Proof", Form: "0|1", flag: true, Default: "0",
		Help: "Write nothing; check what an earlier run of the same job has written.",
		set:  flagTo(func(d *draft) *bool { return &d.VerifyOnly })},
	{Name: "continue_on_error", Group: "Proof", Form: listOf(errorWords), Default: "none",
		Help: "Which errors are counted and survived; any other one ends the job.",
		set:  wordTo(func(d *draft) *Errors { return &d.ContinueOnError }, errorWords)},
}

var criterionWords = []word[Criterion]{
	{"iops", SteadyIOPS}, {"iops_slope", SteadyIOPSSlope}, {"bw", SteadyBandwidth}, {"bw_slope", SteadyBandwidthSlope},
}

var reportOptions = []Option{
	{Name: "group_reporting", Group: "Report", Form: "0|1", flag: true, Default: "0",
		Help: "Report a group of jobs as one.",
		set:  flagTo(func(d *draft) *bool { return &d.GroupReporting })},
	{Name: "percentile_list", Group: "Report", Form: "PERCENT[:PERCENT...]", Default: "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99",
		Help:    "Which percentiles are reported, at most 20, over 0 and up to 100.",
		Differs: "0 is refused.",
		set:     into(func(d *draft) *[]float64 { return &d.Percentiles }, percentiles)},
	{Name: "clat_percentiles", Group: "Report", Form: "0|1", Default: "1",
		Help: "Percentiles of the completion latency.",
		set:  flagTo(func(d *draft) *bool { return &d.ClatPercentiles })},
	{Name: "lat_percentiles", Group: "Report", Form: "0|1", Default: "0",
		Help: "Percentiles of the whole latency.",
		set:  flagTo(func(d *draft) *bool { return &d.LatPercentiles })},
	{Name: "slat_percentiles", Group: "Report", Form: "0|1", Default: "0",
		Help: "Percentiles of the submission latency.",
		set:  flagTo(func(d *draft) *bool { return &d.SlatPercentiles })},
	{Name: "steadystate", Aliases: []string{"ss"}, Group: "Report", Form: listOf(criterionWords) + ":LIMIT[%]", Default: "iops_slope:0.01%",
		Help:    "End the job when its rate has become steady: every measurement within the limit of the mean, or the slope of a line through them under it. bw takes bytes per second.",
		Differs: "No lat. Without steadystate_duration it is an error.",
		set:     setSteady},
	{Name: "steadystate_duration", Aliases: []string{"ss_dur"}, Group: "Report", Form: "TIME", Unit: "seconds", Default: "0, off",
		Help: "How long the rate must have been steady.",
		set:  timeTo(func(d *draft) *time.Duration { return &d.SteadyState.Duration }, time.Second)},
	{Name: "steadystate_ramp_time", Aliases: []string{"ss_ramp"}, Group: "Report", Form: "TIME", Unit: "seconds", Default: "0",
		Help: "How long to run before looking.",
		set:  timeTo(func(d *draft) *time.Duration { return &d.SteadyState.RampTime }, time.Second)},
	{Name: "steadystate_check_interval", Aliases: []string{"ss_interval"}, Group: "Report", Form: "TIME", Unit: "seconds", Default: "1s",
		Help: "Time of one measurement.",
		set: into(func(d *draft) *time.Duration { return &d.SteadyState.Interval }, func(text string) (time.Duration, error) {
			interval, err := span(text, time.Second)
			if err == nil && interval < 10*time.Millisecond {
				err = fmt.Errorf("%q is under 10ms", text)
			}
			return interval, err
		})},
}

// percentilesMax is fio's bound of the list.
const percentilesMax = 20

func percentiles(text string) ([]float64, error) {
	var list []float64
	for part := range strings.SplitSeq(text, ":") {
		p, err := decimal(part)
		if err != nil {
			return nil, err
		}
		if p <= 0 || p > 100 {
			return nil, fmt.Errorf("%q is outside what is allowed: over 0, up to 100", part)
		}
		list = append(list, p)
	}
	if len(list) > percentilesMax {
		return nil, fmt.Errorf("%d percentiles; at most %d", len(list), percentilesMax)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func setSteady(d *draft, text string) error {
	name, limit, limited := strings.Cut(text, ":")
	criterion, err := oneOf(name, criterionWords)
	if err != nil {
		return err
	}
	if !limited {
		return fmt.Errorf("%q has no limit; write it like %s:0.3%%", text, name)
	}
	s := &d.SteadyState
	s.Criterion = criterion
	limit, s.Percent = strings.CutSuffix(limit, "%")
	if !s.Percent && criterion >= SteadyBandwidth {
		n, err := number(limit, 0, 1<<62)
		s.Limit, d.steadySaid = float64(n), true
		return err
	}
	s.Limit, err = decimal(limit)
	if err == nil && s.Limit < 0 {
		err = fmt.Errorf("the limit %g is negative", s.Limit)
	}
	d.steadySaid = true
	return err
}

var orderOptions = []Option{
	{Name: "stonewall", Aliases: []string{"wait_for_previous"}, Group: "Order", Form: "0|1", flag: true, Default: "0",
		Help: "Start when all earlier jobs have ended; begins a group. The first job of a second file has it always.",
		set:  flagTo(func(d *draft) *bool { return &d.stonewall })},
	{Name: "wait_for", Group: "Order", Form: "JOB",
		Help: "Start when that earlier job has ended.",
		set:  textTo(func(d *draft) *string { return &d.waitFor })},
	{Name: "new_group", Group: "Order", Form: "0|1", flag: true, Default: "0",
		Help: "Begin a group of the report.",
		set:  flagTo(func(d *draft) *bool { return &d.newGroup })},
}

// fixedOptions are accepted with the one value that holds here anyway.
var fixedOptions = []Option{
	{Name: "thread", Group: "Accepted as they are", Form: "1", Only: "1", flag: true, Default: "1", Help: "Workers are threads of one process."},
	{Name: "fixedbufs", Group: "Accepted as they are", Form: "1", Only: "1", flag: true, Default: "1", Help: "Buffers are registered with io_uring."},
	{Name: "registerfiles", Group: "Accepted as they are", Form: "1", Only: "1", flag: true, Default: "1", Help: "Files are registered with io_uring."},
	{Name: "invalidate", Group: "Accepted as they are", Form: "1", Only: "1", Help: "Past the page cache, with direct=1, nothing has to be dropped from it.",
		set: func(d *draft, _ string) error { d.invalidate = true; return nil }},
	{Name: "loops", Group: "Accepted as they are", Form: "1", Only: "1", Default: "1", Help: "A job runs once; time_based repeats it."},
	{Name: "nrfiles", Group: "Accepted as they are", Form: "1", Only: "1", Default: "1", Help: "A worker has one file, or those that filename names."},
	{Name: "kb_base", Group: "Accepted as they are", Form: "1024", Only: "1024", Default: "1024", Help: "A bare k is 1024."},
	{Name: "exitall", Group: "Accepted as they are", Form: "0", Only: "0", Default: "0", Help: "A job that ends leaves the others running."},
}

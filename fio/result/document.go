package result

import (
	"encoding/json"

	"github.com/spillway-kv/spillway/fio/compare"
	"github.com/spillway-kv/spillway/fio/origin"
	"github.com/spillway-kv/spillway/fio/sweep"
)

// Document is one result in the form of fio's JSON. The fields have fio's names,
// order and units. A nil pointer is null: nobody measured it.
type Document struct {
	FioVersion    string     `json:"fio version"`
	Timestamp     int64      `json:"timestamp"`    // seconds
	TimestampMS   int64      `json:"timestamp_ms"` // milliseconds
	Time          string     `json:"time"`
	GlobalOptions Options    `json:"global options,omitempty"`
	Jobs          []Job      `json:"jobs"`
	DiskUtil      []DiskUtil `json:"disk_util,omitempty"`
	Spillway      *Spillway  `json:"spillway,omitempty"`
}

// Job is an entry of jobs: one worker, or a group of them.
type Job struct {
	Name        string  `json:"jobname"`
	GroupID     int     `json:"groupid"`
	Error       int     `json:"error"` // errno of the first error, 0 for none
	ETA         int64   `json:"eta"`
	Elapsed     int64   `json:"elapsed"` // seconds since the start of the run
	Options     Options `json:"job options,omitempty"`
	Read        *Stats  `json:"read,omitempty"`
	Write       *Stats  `json:"write,omitempty"`
	Trim        *Stats  `json:"trim,omitempty"`
	Mixed       *Stats  `json:"mixed,omitempty"` // fio with unified_rw_reporting
	Sync        *Syncs  `json:"sync,omitempty"`
	RuntimeMS   int64   `json:"job_runtime"` // summed over workers
	UserCPU     Decimal `json:"usr_cpu"`     // percent of RuntimeMS
	SystemCPU   Decimal `json:"sys_cpu"`
	Switches    int64   `json:"ctx"`
	MajorFaults int64   `json:"majf"`
	MinorFaults int64   `json:"minf"`

	DepthLevel    Distribution `json:"iodepth_level"`
	DepthSubmit   Distribution `json:"iodepth_submit"`
	DepthComplete Distribution `json:"iodepth_complete"`
	LatencyNS     Distribution `json:"latency_ns"`
	LatencyUS     Distribution `json:"latency_us"`
	LatencyMS     Distribution `json:"latency_ms"`

	TotalErrors *int64 `json:"total_err,omitempty"`   // with continue_on_error
	FirstError  *int64 `json:"first_error,omitempty"` // with continue_on_error

	LatencyDepth      int          `json:"latency_depth"`
	LatencyTarget     int64        `json:"latency_target"`
	LatencyPercentile Decimal      `json:"latency_percentile"`
	LatencyWindow     int64        `json:"latency_window"`
	SteadyState       *SteadyState `json:"steadystate,omitempty"`
	Spillway          *SpillwayJob `json:"spillway,omitempty"`
}

func (j *Job) stats(d Direction) *Stats { return [...]*Stats{j.Read, j.Write, j.Trim}[d] }

// Stats are the numbers of one direction.
type Stats struct {
	Bytes     int64   `json:"io_bytes"`
	KBytes    int64   `json:"io_kbytes"`
	BWBytes   int64   `json:"bw_bytes"` // bytes/s
	BW        int64   `json:"bw"`       // KiB/s
	IOPS      Decimal `json:"iops"`
	RuntimeMS int64   `json:"runtime"` // of the longest worker
	IOs       int64   `json:"total_ios"`
	ShortIOs  int64   `json:"short_ios"`
	DropIOs   int64   `json:"drop_ios"`
	Slat      Latency `json:"slat_ns"`
	Clat      Latency `json:"clat_ns"`
	Lat       Latency `json:"lat_ns"`

	BWMin     *int64   `json:"bw_min"` // KiB/s, of intervals
	BWMax     *int64   `json:"bw_max"`
	BWAgg     *Decimal `json:"bw_agg"` // percent of the group's
	BWMean    *Decimal `json:"bw_mean"`
	BWDev     *Decimal `json:"bw_dev"`
	BWSamples int64    `json:"bw_samples"`

	IOPSMin     *int64   `json:"iops_min"`
	IOPSMax     *int64   `json:"iops_max"`
	IOPSMean    *Decimal `json:"iops_mean"`
	IOPSStddev  *Decimal `json:"iops_stddev"`
	IOPSSamples int64    `json:"iops_samples"`
}

// Latency is a distribution of latencies in nanoseconds.
type Latency struct {
	Min         *int64      `json:"min"`
	Max         *int64      `json:"max"`
	Mean        *Decimal    `json:"mean"`
	Stddev      *Decimal    `json:"stddev"`
	N           int64       `json:"N"`
	Percentiles Percentiles `json:"percentile,omitempty"`
	Bins        Bins        `json:"bins,omitempty"` // JSON+
}

// Syncs counts fdatasync. Nothing here issues any as a job's own I/O.
type Syncs struct {
	IOs int64   `json:"total_ios"`
	Lat Latency `json:"lat_ns"`
}

// DiskUtil is what a block device did during the run.
type DiskUtil struct {
	Name        string  `json:"name"`
	ReadIOs     int64   `json:"read_ios"`
	WriteIOs    int64   `json:"write_ios"`
	ReadMerges  int64   `json:"read_merges"`
	WriteMerges int64   `json:"write_merges"`
	ReadTicks   int64   `json:"read_ticks"` // ms
	WriteTicks  int64   `json:"write_ticks"`
	InQueue     int64   `json:"in_queue"`
	Util        Decimal `json:"util"` // percent
}

// SteadyState is fio's account of whether a job settled.
type SteadyState struct {
	State     string  `json:"ss"`
	Duration  int64   `json:"duration"` // seconds
	Attained  int64   `json:"attained"` // 0 or 1
	Criterion string  `json:"criterion"`
	MaxDev    Decimal `json:"max_deviation"`
	Slope     Decimal `json:"slope"`
	// Data are the rates that it was judged by, one for each check, the oldest first.
	Data *SteadyData `json:"data,omitempty"`
}

// SteadyData are IOPS and bytes per second.
type SteadyData struct {
	BWMean   int64   `json:"bw_mean"`
	IOPSMean int64   `json:"iops_mean"`
	IOPS     []int64 `json:"iops"`
	BW       []int64 `json:"bw"`
}

// Spillway is what we add to fio's document.
type Spillway struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Error is why the run did not end well, in words; "" where it did.
	Error    string          `json:"error,omitempty"`
	ExitCode int             `json:"exit_code"`
	Verdict  *Gate           `json:"verdict,omitempty"`        // on block reads
	Loads    *LoadGate       `json:"prefix_verdict,omitempty"` // on loads of whole prefixes
	Budget   json.RawMessage `json:"budget,omitempty"`         // how the budget was derived
	Sweep    *sweep.Sweep    `json:"sweep,omitempty"`
	Estimate *sweep.Estimate `json:"drives_estimate,omitempty"` // by Little's law
	// Transports compares RDMA and TCP, with compare-transports.
	Transports *compare.Comparison `json:"transports,omitempty"`
	Machine    *Machine            `json:"machine,omitempty"`
	Status     []Status            `json:"status,omitempty"` // with status-interval
}

// SpillwayJob is what we add to each job.
type SpillwayJob struct {
	Workers    int            `json:"workers"`   // that the entry sums up
	CPUScope   string         `json:"cpu_scope"` // whose CPU is counted: the process, shared out by I/Os among what ran at the same time
	Error      string         `json:"error,omitempty"`
	Target     string         `json:"target,omitempty"`      // in words
	BlockBytes int64          `json:"block_bytes,omitempty"` // the largest
	OpenLoop   bool           `json:"open_loop"`
	Read       *SpillwayStats `json:"read,omitempty"`
	Write      *SpillwayStats `json:"write,omitempty"`
	Prefix     *PrefixLoads   `json:"prefix_loads,omitempty"` // of traces and chats
	// Origins are where the blocks came from that a daemon answered, as the daemon counts;
	// its other clients, and the ramp, are in it.
	Origins    []*origin.Origin `json:"origins,omitempty"`
	CPUPerIOUS *Decimal         `json:"cpu_per_io_us"` // user and system, over all I/Os that were done
	CPUPerGBS  *Decimal         `json:"cpu_per_gb_s"`  // seconds per 10^9 bytes
}

// SpillwayStats count what fio does not tell apart.
type SpillwayStats struct {
	Done       int64 `json:"done"`
	Missed     int64 `json:"missed"`
	Late       int64 `json:"late"`
	Failed     int64 `json:"failed"`
	Unverified int64 `json:"unverified"`
	Damaged    int64 `json:"damaged"`
	Dropped    int64 `json:"dropped"`
	Busy       int64 `json:"busy"`
	Present    int64 `json:"present"`
	// ServiceNS runs from issue to done, where lat_ns runs from the intended start.
	ServiceNS *Latency `json:"service_ns,omitempty"`
	Series    *Series  `json:"series,omitempty"`
}

// Series are intervals of equal length since the begin, the last one perhaps cut
// short.
type Series struct {
	IntervalMS int64   `json:"interval_ms"`
	IOs        []int64 `json:"ios"`
	Bytes      []int64 `json:"bytes"`
	LatMeanNS  []int64 `json:"lat_mean_ns"` // 0 where there were no I/Os
	LatMaxNS   []int64 `json:"lat_max_ns"`
}

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/replay"
	"github.com/spillway-kv/spillway/engine/histogram"
	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/units"
)

// replayReport is the JSON of a replay. Ratios are of block_refs; rates are per
// second of reading or of putting.
type replayReport struct {
	Type             string         `json:"type"`                   // replay
	Requests         uint64         `json:"requests"`               // requests done
	BlockRefs        uint64         `json:"block_refs"`             // blocks that the requests name
	Hits             uint64         `json:"hits"`                   // of those, read from the store
	HitRatio         float64        `json:"hit_ratio"`              // hits per block_refs
	PrefixHits       uint64         `json:"prefix_hits"`            // hits before the first miss of a request
	PrefixHitRatio   float64        `json:"prefix_hit_ratio"`       // prefix_hits per block_refs
	Reads            uint64         `json:"reads"`                  // blocks read
	Writes           uint64         `json:"writes"`                 // blocks stored
	Present          uint64         `json:"present"`                // puts of a block that was there
	Dropped          uint64         `json:"dropped"`                // puts refused or failed
	DropCause        string         `json:"drop_cause,omitempty"`   // of the first one
	Evicted          uint64         `json:"evicted"`                // blocks that made room
	Slots            int            `json:"slots"`                  // blocks that fit
	BlockBytes       int            `json:"block_bytes"`            // size of a block
	WrongBytes       uint64         `json:"wrong_bytes"`            // blocks with any wrong byte
	Corrupt          uint64         `json:"corrupt"`                // blocks whose checksum failed
	Lost             uint64         `json:"lost"`                   // blocks newer than the last sync before an unclean stop
	MissedAfterMatch uint64         `json:"missed_after_match"`     // blocks that were there at the look-up and not at the read
	MissCause        string         `json:"miss_cause,omitempty"`   // of the first one
	BusyReads        uint64         `json:"busy_reads"`             // reads refused because a queue was full
	ReadErrors       uint64         `json:"read_errors"`            // I/O errors
	WriteErrors      uint64         `json:"write_errors"`           // I/O errors
	ReadIOPS         float64        `json:"read_iops"`              // blocks read per second of reading
	ReadBytesPerSec  float64        `json:"read_bytes_per_second"`  // of reading
	WriteIOPS        float64        `json:"write_iops"`             // blocks stored per second of putting
	WriteBytesPerSec float64        `json:"write_bytes_per_second"` // of putting
	ReadLatencyNS    latencyReport  `json:"read_latency_ns"`        // of one block, from call to verified
	Depth            int            `json:"depth"`                  // most blocks read at once
	DepthMean        float64        `json:"depth_mean"`             // blocks being read, on average
	DirectIO         bool           `json:"direct_io"`              // past the page cache
	Device           string         `json:"device"`                 // how transfers are made
	FileSystem       string         `json:"file_system"`            // as statfs names it
	Health           string         `json:"health"`                 // of the store at the end
	ElapsedNS        int64          `json:"elapsed_ns"`             // of the whole run
	LagMaxNS         int64          `json:"lag_max_ns"`             // most that a request began behind the trace
	Verdict          *verdictReport `json:"verdict,omitempty"`      // with --budget

	damaged bool
	verdict fio.Verdict
}

// latencyReport is all zero without samples.
type latencyReport struct {
	Samples uint64 `json:"samples"` // reads measured
	Min     int64  `json:"min"`     // the fastest
	P50     int64  `json:"p50"`     // half of the reads are no slower
	P90     int64  `json:"p90"`     // nine of ten
	P99     int64  `json:"p99"`     // 99 of 100
	P999    int64  `json:"p99_9"`   // 999 of 1000
	Max     int64  `json:"max"`     // the slowest
}

type verdictReport struct {
	Judgement  string  `json:"judgement"`   // pass, over budget, cannot judge
	BudgetNS   int64   `json:"budget_ns"`   // of --budget
	P99NS      int64   `json:"p99_ns"`      // of the reads
	LowNS      int64   `json:"p99_low_ns"`  // lower end of its interval
	HighNS     int64   `json:"p99_high_ns"` // upper end of its interval
	Confidence float64 `json:"confidence"`  // of the interval
	Samples    uint64  `json:"samples"`     // reads measured
	MarginNS   int64   `json:"margin_ns"`   // budget less P99
	Reason     string  `json:"reason"`      // the verdict in words
}

func newReport(r *replay.Result, budget time.Duration) *replayReport {
	latencies := r.Latency.Snapshot()
	report := &replayReport{
		Type: "replay", Requests: r.Requests, BlockRefs: r.BlockRefs,
		Hits: r.Hits, HitRatio: ratio(r.Hits, r.BlockRefs),
		PrefixHits: r.PrefixHits, PrefixHitRatio: ratio(r.PrefixHits, r.BlockRefs),
		Reads: r.Reads, Writes: r.Writes, Present: r.Present,
		Dropped: r.Dropped, DropCause: text(r.DropCause), Evicted: r.Evicted,
		Slots: r.Slots, BlockBytes: r.BlockBytes,
		WrongBytes: r.WrongBytes, Corrupt: r.Corrupt, Lost: r.Lost,
		MissedAfterMatch: r.MissedAfterMatch, MissCause: text(r.MissCause), BusyReads: r.BusyReads,
		ReadErrors: r.ReadErrors, WriteErrors: r.WriteErrors,
		ReadIOPS: r.ReadIOPS(), ReadBytesPerSec: r.ReadBytesPerSecond(),
		WriteIOPS: r.WriteIOPS(), WriteBytesPerSec: r.WriteBytesPerSecond(),
		ReadLatencyNS: latencyOf(latencies), Depth: r.Depth, DepthMean: r.DepthMean(),
		DirectIO: r.DirectIO, Device: r.Device, FileSystem: r.FileSystem, Health: r.Health,
		ElapsedNS: r.ElapsedNS, LagMaxNS: r.LagMaxNS,
		damaged: r.Damaged(),
	}
	if budget > 0 {
		v := fio.Judge(latencies, budget.Nanoseconds())
		report.verdict = v
		report.Verdict = &verdictReport{v.Judgement.String(), v.BudgetNS, v.P99NS, v.LowNS, v.HighNS, fio.Confidence, v.Samples, v.MarginNS, v.Reason}
	}
	return report
}

func latencyOf(s histogram.Snapshot) latencyReport {
	if s.Count == 0 {
		return latencyReport{}
	}
	return latencyReport{
		Samples: s.Count, Min: s.MinNS, Max: s.MaxNS,
		P50: s.PercentileNS(50), P90: s.PercentileNS(90), P99: s.PercentileNS(99), P999: s.PercentileNS(99.9),
	}
}

// failure is the exit code that the result itself asks for, nil for none.
func (r *replayReport) failure() error {
	switch {
	case r.damaged:
		return &failure{code: exitDamage, message: fmt.Sprintf("damage: %d blocks read with wrong bytes, %d corrupt", r.WrongBytes, r.Corrupt),
			remedy: "look at the drive; the blocks can be computed again"}
	case r.ReadErrors > 0:
		return &failure{code: exitDamage, message: fmt.Sprintf("damage: %d blocks could not be read", r.ReadErrors),
			remedy: "look at the drive (dmesg, smartctl -a); the blocks can be computed again"}
	case r.Verdict == nil || r.verdict.Judgement == fio.Pass:
		return nil
	case r.verdict.Judgement == fio.Over:
		return &failure{code: exitOverBudget, message: "over budget: " + r.verdict.Reason}
	default:
		return &failure{code: exitCannotJudge, message: "cannot judge: " + r.verdict.Reason}
	}
}

func (r *replayReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	n := func(v any) string { return fmt.Sprint(v) }
	share := func(count uint64, ratio float64) string { return fmt.Sprintf("%d (%.1f %%)", count, 100*ratio) }
	because := func(count uint64, cause string) string {
		if cause == "" {
			return n(count)
		}
		return fmt.Sprintf("%d (%s)", count, cause)
	}
	speed := func(iops, bytes float64) string {
		return fmt.Sprintf("%.0f IOPS, %s/s", iops, units.Bytes(int64(bytes)))
	}
	l := r.ReadLatencyNS
	rows := [][]string{
		{"requests", n(r.Requests)}, {"block_refs", n(r.BlockRefs)},
		{"hits", share(r.Hits, r.HitRatio)}, {"prefix_hits", share(r.PrefixHits, r.PrefixHitRatio)},
		{"writes", n(r.Writes)}, {"dropped", because(r.Dropped, r.DropCause)}, {"evicted", n(r.Evicted)},
		{"slots", n(r.Slots) + " of " + units.Bytes(int64(r.BlockBytes))},
		{"wrong_bytes", n(r.WrongBytes)}, {"corrupt", n(r.Corrupt)}, {"lost", n(r.Lost)},
		{"missed_after_match", because(r.MissedAfterMatch, r.MissCause)},
		{"I/O errors", fmt.Sprintf("%d read, %d write", r.ReadErrors, r.WriteErrors)},
		{"I/O", fmt.Sprintf("%s, %s, %s; depth %d, mean %.1f", ioMode(r.DirectIO), r.Device, r.FileSystem, r.Depth, r.DepthMean)},
		{"reads", speed(r.ReadIOPS, r.ReadBytesPerSec)}, {"puts", speed(r.WriteIOPS, r.WriteBytesPerSec)},
		{"read latency", fmt.Sprintf("min %s, P50 %s, P90 %s, P99 %s, P99.9 %s, max %s (%d reads)", fio.FormatNS(l.Min), fio.FormatNS(l.P50),
			fio.FormatNS(l.P90), fio.FormatNS(l.P99), fio.FormatNS(l.P999), fio.FormatNS(l.Max), l.Samples)},
		{"elapsed", fio.FormatNS(r.ElapsedNS)},
	}
	if r.Health != "ok" {
		rows = append(rows, []string{"health", r.Health})
	}
	if r.LagMaxNS > 0 {
		rows = append(rows, []string{"latest start", fio.FormatNS(r.LagMaxNS) + " behind the trace"})
	}
	if v := r.Verdict; v != nil {
		rows = append(rows, []string{"verdict", fmt.Sprintf("%s: P99 %s, margin %s, %d reads; %s",
			v.Judgement, fio.FormatNS(v.P99NS), fio.FormatNS(v.MarginNS), v.Samples, v.Reason)})
	}
	return table(w, rows)
}

func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func ioMode(direct bool) string {
	if direct {
		return "direct"
	}
	return "buffered"
}

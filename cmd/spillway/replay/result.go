package replay

import (
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/histogram"
)

// Result is what a replay did. Counters of the store are differences over the
// run.
type Result struct {
	Requests   uint64
	BlockRefs  uint64 // blocks named by all requests
	Hits       uint64 // of them present at the request's start
	PrefixHits uint64 // of them present with all earlier blocks of their request
	Writes     uint64 // blocks stored
	Present    uint64 // puts of blocks that were there
	Dropped    uint64 // puts refused or failed
	DropCause  error  // of the first one

	Reads            uint64 // block reads answered and compared
	WrongBytes       uint64 // of them with other bytes than the id's: a disaster
	MissedAfterMatch uint64 // reads that missed though the look-up had found the block
	MissCause        error  // of the first that was no plain absence
	BusyReads        uint64 // reads refused at once

	Corrupt     uint64 // synced blocks that failed their checksum
	Lost        uint64 // blocks newer than the last sync before an unclean stop
	ReadErrors  uint64
	WriteErrors uint64
	Evicted     uint64

	// Latency of the reads, each from the call to the verified answer, ns.
	Latency histogram.Histogram

	BlockBytes int
	Slots      int   // blocks the namespace can hold without evicting, at the end
	Depth      int   // most reads at once
	InFlightNS int64 // latencies added up; over ReadNS it is the mean depth
	ReadNS     int64 // wall time spent reading and comparing
	WriteNS    int64 // wall time spent in puts
	ElapsedNS  int64
	TraceMS    int64 // timestamp of the last request done
	LagMaxNS   int64 // how late the latest request started, in timed runs
	DirectIO   bool
	Device     string
	FileSystem string
	Health     string
}

func (r *Result) finish(before, after engine.Stat, ns engine.NamespaceStat, elapsed time.Duration) {
	r.Corrupt = after.Counters.TornBlocks - before.Counters.TornBlocks
	r.Lost = after.Counters.LostBlocks - before.Counters.LostBlocks
	r.ReadErrors = after.Counters.ReadErrors - before.Counters.ReadErrors
	r.WriteErrors = after.Counters.WriteErrors - before.Counters.WriteErrors
	r.Evicted = after.Counters.Evicted - before.Counters.Evicted
	r.Slots = ns.Slots
	r.DirectIO, r.Device, r.FileSystem, r.Health = after.DirectIO, after.Device, after.FileSystem, after.Health
	r.ElapsedNS = elapsed.Nanoseconds()
}

// Damaged says whether the run met bytes that must not be.
func (r *Result) Damaged() bool { return r.WrongBytes > 0 || r.Corrupt > 0 }

// ReadIOPS is block reads per second of reading.
func (r *Result) ReadIOPS() float64 { return rate(r.Reads, r.ReadNS) }

// ReadBytesPerSecond is over the time spent reading.
func (r *Result) ReadBytesPerSecond() float64 { return r.ReadIOPS() * float64(r.BlockBytes) }

// WriteIOPS is blocks stored per second of putting.
func (r *Result) WriteIOPS() float64 { return rate(r.Writes, r.WriteNS) }

// WriteBytesPerSecond is over the time spent in puts.
func (r *Result) WriteBytesPerSecond() float64 { return r.WriteIOPS() * float64(r.BlockBytes) }

// DepthMean is the mean number of reads in flight while reading.
func (r *Result) DepthMean() float64 {
	if r.ReadNS == 0 {
		return 0
	}
	return float64(r.InFlightNS) / float64(r.ReadNS)
}

func rate(n uint64, ns int64) float64 {
	if ns <= 0 {
		return 0
	}
	return float64(n) / (float64(ns) / 1e9)
}

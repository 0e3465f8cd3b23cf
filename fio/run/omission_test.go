package run

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
)

// stall makes the last second of every ten slow: an I/O begun then takes a second
// longer.
func stall(disk *sim.Disk, seconds int) {
	for range seconds / 10 {
		time.Sleep(9 * time.Second)
		disk.SetFaults(sim.Plan{Delay: 1, DelayBy: time.Second})
		time.Sleep(time.Second)
		disk.SetFaults(sim.Plan{})
	}
}

// stalled runs a job for a minute on a drive that stalls one second in ten.
func stalled(t *testing.T, change func(*job.Job)) (doc *result.Document) {
	synctest.Test(t, func(t *testing.T) {
		disk, d, f := simDevice(t)
		j := aJob("read", job.EngineRaw)
		j.TimeBased, j.Runtime = true, time.Minute
		change(&j)
		go stall(disk, 60)
		doc = onSim(t, d, f, j).doc
		time.Sleep(2 * time.Second) // the stall ends
		f.Close()
		d.Close()
	})
	return doc
}

// percentile of a latency, in milliseconds.
func percentile(t *testing.T, l result.Latency, p float64) float64 {
	t.Helper()
	for _, q := range l.Percentiles {
		if q.Percent == p {
			return float64(q.NS) / 1e6
		}
	}
	t.Fatalf("no P%v", p)
	return 0
}

// TestCoordinatedOmission: a closed loop asks nothing while the drive stalls, so
// its P99 does not know; an open loop's does, although each I/O is served as
// quickly as in the closed one.
func TestCoordinatedOmission(t *testing.T) {
	closed := stalled(t, func(*job.Job) {})
	open := stalled(t, func(j *job.Job) { j.RateIOPS[job.Read] = 100 })
	deep := stalled(t, func(j *job.Job) { j.RateIOPS[job.Read], j.IODepth, j.Poisson = 100, 256, true })

	if p := percentile(t, closed.Jobs[0].Read.Clat, 99); p > 1.1 {
		t.Errorf("closed loop: P99 %v ms", p)
	}
	if slowest := *closed.Jobs[0].Read.Clat.Max; slowest < 1e9 {
		t.Errorf("closed loop: the slowest took %d ns; the drive did not stall", slowest)
	}
	for name, d := range map[string]*result.Document{"depth 1": open, "depth 256": deep} {
		if n := d.Jobs[0].Read.IOs; n < 5800 || n > 6200 {
			t.Errorf("%s: %d I/Os in a minute of 100 a second", name, n)
		}
		if p := percentile(t, d.Jobs[0].Read.Lat, 99); p < 500 {
			t.Errorf("open loop, %s: P99 %v ms", name, p)
		}
	}
	if p := percentile(t, *open.Jobs[0].Spillway.Read.ServiceNS, 99); p > 1.1 {
		t.Errorf("open loop, depth 1: P99 of the service time %v ms; each I/O waits for the one before, not for the drive", p)
	}
}

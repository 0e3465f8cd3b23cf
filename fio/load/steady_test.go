package load

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
)

// What fio 3.33 itself printed of four runs: rates by second, and the criterion's
// value, slope and deviation that it derived from them. fio adds in whole numbers.
var fioSteady = []struct {
	criterion job.Criterion
	limit     float64
	percent   bool
	rates     []float64
	value     float64
	attained  bool
}{
	{job.SteadyBandwidth, 5, true, []float64{4255744, 4157501, 4124672, 4128800, 3993600, 3964796}, 3.692779, true},
	{job.SteadyBandwidthSlope, 10, false, []float64{4153401, 4149248, 4124672, 4132900, 3993497, 3985297}, -37129.857143, false},
	{job.SteadyIOPS, 0.2, true, []float64{1018, 1003, 1003, 1022, 970, 972}, 2.805611, false},
	{job.SteadyIOPSSlope, 0.1, true, []float64{1011, 1015, 1008, 1009, 974, 971}, -0.921844, false},
}

func TestSteadyAsFio(t *testing.T) {
	for _, row := range fioSteady {
		s := NewSteady(job.Steady{Criterion: row.criterion, Limit: row.limit, Percent: row.percent, Duration: 6 * time.Second, Interval: time.Second})
		for i, r := range row.rates {
			got := s.Add(r)
			if got.Full != (i == 5) || got.Attained != (got.Full && row.attained) {
				t.Errorf("%v after %d rates: %+v", row.criterion, i+1, got)
			}
			if got.Full && math.Abs(got.Value-row.value) > 1e-3*math.Abs(row.value) {
				t.Errorf("%v: value %f, fio says %f", row.criterion, got.Value, row.value)
			}
		}
	}
}

// The documented meaning: all rates within the limit of the mean, or the slope
// below it; only the last Duration counts.
func TestSteadyMeaning(t *testing.T) {
	add := func(c job.Criterion, limit float64, percent bool, rates ...float64) (last Steadiness) {
		s := NewSteady(job.Steady{Criterion: c, Limit: limit, Percent: percent, Duration: 4 * time.Second, Interval: time.Second})
		for _, r := range rates {
			last = s.Add(r)
		}
		return last
	}
	for _, row := range []struct {
		got  Steadiness
		want bool
	}{
		{add(job.SteadyIOPS, 2, false, 98.5, 101.5, 99, 101), true},
		{add(job.SteadyIOPS, 2, false, 98, 102, 99, 101), false}, // 2 is not below 2
		{add(job.SteadyIOPS, 2, true, 9850, 10150, 9900, 10100), true},
		{add(job.SteadyIOPS, 2, false, 5, 98.5, 101.5, 99, 101), true}, // the 5 is long ago
		{add(job.SteadyIOPS, 2, false, 100, 100, 100), false},          // too short
		{add(job.SteadyIOPSSlope, 1, false, 100, 50, 50, 100), true},
		{add(job.SteadyIOPSSlope, 1, false, 100, 102, 104, 106), false},
		{add(job.SteadyIOPSSlope, 1, false, 106, 104, 102, 100), false}, // falling is no steadier
		{add(job.SteadyIOPSSlope, 2, true, 100, 102, 104, 106), true},   // 2 of 103
		{add(job.SteadyIOPS, 2, true, 0, 0, 0, 0), false},               // nothing goes on
	} {
		if row.got.Attained != row.want {
			t.Errorf("attained %v: %+v", row.got.Attained, row.got)
		}
	}
}

// TestPreconditionSettles plays a drive whose random writes slow down, then stay
// level: all is written twice in order, then the level is found.
func TestPreconditionSettles(t *testing.T) {
	const space = 100*256*kib + 4*kib
	p, err := NewPrecondition(PreconditionConfig{SpaceBytes: space, FillBytes: 256 * kib, BlockBytes: 16 * kib, Round: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var at int64 // bytes written at random
	drive := player{depth: 8, latencyNS: func(op *Op) int64 {
		if p.stage == Filling {
			return 1e6
		}
		at += int64(op.Bytes)
		return int64(8e6 * (2 - math.Exp(-float64(at)/(40<<20)))) // from 1,000 IOPS to 500
	}}
	done := drive.play(t, p)
	var inOrder int64
	for _, op := range done {
		if op.Kind != Write || op.Offset < 0 || op.Offset+int64(op.Bytes) > space {
			t.Fatalf("%+v", op)
		}
		if inOrder < 2*space {
			if op.Offset != inOrder%space {
				t.Fatalf("after %d bytes in order comes offset %d", inOrder, op.Offset)
			}
			inOrder += int64(op.Bytes)
		} else if op.Bytes != 16*kib || op.Offset%(16*kib) != 0 {
			t.Fatalf("%+v", op)
		}
	}
	r := p.Report()
	if !r.Steady || r.Stage != Finished || len(r.Rates) < 7 || r.RangePercent > 20 || r.LinePercent > 10 {
		t.Errorf("%v: %+v", r, r)
	}
	if last := r.Rates[len(r.Rates)-1]; last > .62*r.Rates[0] {
		t.Errorf("called steady at %.0f bytes/s, after %.0f in the first round", last, r.Rates[0])
	}
}

// TestPreconditionGivesUp: a drive that never settles is left after the last round.
func TestPreconditionGivesUp(t *testing.T) {
	for name, latencyNS := range map[string]func(round int64) int64{
		"swings": func(round int64) int64 { return 1e6 * (1 + round%2) },
		"falls":  func(round int64) int64 { return 1e6 * (1 + round) },
	} {
		p, err := NewPrecondition(PreconditionConfig{SpaceBytes: 1 << 20, Round: time.Second, RoundsMax: 12, Fills: 1})
		if err != nil {
			t.Fatal(err)
		}
		drive := player{depth: 1}
		drive.latencyNS = func(*Op) int64 { return latencyNS(drive.nowNS / secondNS) }
		drive.play(t, p)
		if r := p.Report(); r.Steady || r.Stage != Finished || len(r.Rates) != 12 {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// A stall counts as rounds without a byte, and a failed write as none written.
func TestPreconditionStall(t *testing.T) {
	p, err := NewPrecondition(PreconditionConfig{SpaceBytes: 1 << 20, Round: time.Second, Fills: 1, RoundsMax: 9})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	drive := player{depth: 1, latencyNS: func(*Op) int64 {
		if n++; n == 3 {
			return 3 * secondNS
		}
		return secondNS / 10
	}, outcome: func(*Op) Outcome {
		if n > 20 {
			return Failed
		}
		return OK
	}}
	drive.play(t, p)
	r := p.Report()
	if r.Steady || len(r.Rates) != 9 || r.Rates[1] != 0 || r.Rates[2] != 0 || r.Rates[3] == 0 || r.Rates[8] != 0 {
		t.Errorf("%v: %.0f", r, r.Rates)
	}
}

// Rounds are as long as the drive is slow.
func TestPreconditionRound(t *testing.T) {
	for _, row := range []struct {
		latencyNS int64 // of each of four writes in order
		want      time.Duration
	}{{1000, time.Second}, {8 * secondNS, 8 * time.Second}, {1000 * secondNS, time.Minute}} {
		p, err := NewPrecondition(PreconditionConfig{SpaceBytes: 4 << 20, Fills: 3})
		if err != nil {
			t.Fatal(err)
		}
		drive := player{depth: 1, latencyNS: always(row.latencyNS), opsMax: 13}
		drive.play(t, p)
		if r := p.Report(); r.Round != row.want {
			t.Errorf("rounds of %v, not %v", r.Round, row.want)
		}
	}
}

func TestPreconditionErrors(t *testing.T) {
	if _, err := NewPrecondition(PreconditionConfig{SpaceBytes: 1<<20 - 1}); err == nil {
		t.Error("a range smaller than one write is accepted")
	}
}

func ExamplePreconditionReport() {
	p, _ := NewPrecondition(PreconditionConfig{SpaceBytes: 1 << 30})
	fmt.Println(p.Report())
	// Output: writing in order, time 1
}

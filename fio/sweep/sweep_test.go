package sweep

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/fio"
)

// drive is a server of one line: up to channels I/Os at once, each of service
// seconds; beyond, they wait.
func drive(depth, channels int, service float64, budgetNS int64) Point {
	iops := float64(min(depth, channels)) / service
	mean := float64(depth) / iops * 1e9 // Little
	p := Point{Depth: depth, IOPS: iops, BWBytes: iops * 65536, MeanNS: mean, P50NS: int64(mean), P99NS: int64(2 * mean), Samples: 1000}
	p.Verdict = fio.Pass.String()
	if p.P99NS >= budgetNS {
		p.Verdict = fio.Over.String()
	}
	return p
}

func TestKnees(t *testing.T) {
	const budget = 10e6
	one := func(_ context.Context, depth int) (Point, error) { return drive(depth, 8, 1e-3, budget), nil }
	s, err := Run(t.Context(), budget, []int{1, 2, 4, 8, 16, 32, 64}, one)
	if err != nil {
		t.Fatal(err)
	}
	// Up to 8 nothing waits: power grows with the depth, then falls. P99 is twice
	// the mean, 2 ms up to depth 8, 4 ms at 16, 8 ms at 32, 16 ms at 64.
	if s.Knee != 8 || s.Saturation != 8 || s.DepthUnderBudget != 32 || len(s.Points) != 7 {
		t.Errorf("%+v", s)
	}
	if e := s.Drives(100); e.Drives != 4 || !e.Swept || e.Hopeless { // 100/32
		t.Errorf("%+v", e)
	}
	if e := s.Drives(32); e.Drives != 1 {
		t.Errorf("%+v", e)
	}
}

func TestOneOverEndsTheDepths(t *testing.T) {
	var s Sweep
	for depth, verdict := range map[int]string{4: "over budget", 1: "pass", 8: "pass", 2: "cannot judge"} { // in any order
		s.Add(Point{Depth: depth, IOPS: 100, Verdict: verdict})
	}
	if s.DepthUnderBudget != 1 || s.Points[0].Depth != 1 || s.Points[3].Depth != 8 {
		t.Errorf("%+v", s)
	}
	var none Sweep
	none.Add(Point{Depth: 4, Verdict: "cannot judge"})
	if none.DepthUnderBudget != 0 || none.Knee != 0 || none.Saturation != 0 || !none.Drives(4).Hopeless {
		t.Errorf("%+v", none)
	}
}

func TestErrorKeepsThePoints(t *testing.T) {
	broken := errors.New("broken")
	s, err := Run(t.Context(), 0, []int{1, 2, 4}, func(_ context.Context, depth int) (Point, error) {
		if depth == 4 {
			return Point{}, broken
		}
		return Point{Depth: depth, IOPS: 1}, nil
	})
	if !errors.Is(err, broken) || len(s.Points) != 2 {
		t.Errorf("%v, %+v", err, s)
	}
}

// TestDrivesByLittle: a drive that serves 8 at once in 1 ms. At depth 80 its mean is
// 10 ms and its P99 20 ms.
func TestDrivesByLittle(t *testing.T) {
	p := drive(80, 8, 1e-3, 1)
	// 8000/s × 5 ms × 1/2 = 20 each: a quarter of 80.
	if e := Drives(p, 5e6); math.Abs(e.DepthEach-20) > 1e-6 || e.Drives != 4 || e.Hopeless {
		t.Errorf("%+v", e)
	}
	// The model agrees: at depth 20 the P99 is 5 ms.
	if q := drive(20, 8, 1e-3, 1); q.P99NS != 5e6 {
		t.Errorf("%+v", q)
	}
	if e := Drives(p, 100e3); !e.Hopeless || e.Drives != 0 {
		t.Errorf("%+v", e)
	}
	if e := Drives(Point{Depth: 3}, 1e6); e.Drives != 0 || e.DepthEach != 0 {
		t.Errorf("of nothing: %+v", e)
	}
}

func TestParseDepths(t *testing.T) {
	for text, want := range map[string][]int{
		"iodepth=1": {1}, "iodepth=1,2,4": {1, 2, 4}, "iodepth=1,2,..,32": {1, 2, 4, 8, 16, 32}, "iodepth=1,2,...,20": {1, 2, 4, 8, 16, 20},
		"iodepth=3,9,..,81,100": {3, 9, 27, 81, 100},
		"":                      nil, "1,2": nil, "bs=4k": nil, "iodepth=": nil, "iodepth=0": nil, "iodepth=2,1": nil, "iodepth=1,1": nil, "iodepth=5000": nil,
		"iodepth=1,..,8": nil, "iodepth=..": nil, "iodepth=1,2,..": nil, "iodepth=2,3,..,9": nil, "iodepth=1,.,2": nil, "iodepth=x": nil,
	} {
		got, err := ParseDepths(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("ParseDepths(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

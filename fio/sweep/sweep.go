// Package sweep runs a job at rising queue depths and finds where it pays: the
// largest depth whose P99 stays under a budget, and the depth beyond which more
// depth buys latency rather than throughput.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/fio"
)

// Point is what one depth measured.
type Point struct {
	Depth   int     `json:"iodepth"` // of all workers together
	IOPS    float64 `json:"iops"`
	BWBytes float64 `json:"bw_bytes"` // bytes/s
	MeanNS  float64 `json:"lat_mean_ns"`
	P50NS   int64   `json:"p50_ns"`
	P99NS   int64   `json:"p99_ns"`
	// Ends of the interval of P99 (fio.Judge), 0 where there is none.
	LowNS   int64  `json:"p99_low_ns,omitempty"`
	HighNS  int64  `json:"p99_high_ns,omitempty"`
	Samples uint64 `json:"samples"`
	// LoadsP99 is the P99 of load time over compute time of whole prefixes; 0: there are
	// none to judge.
	LoadsP99 float64 `json:"prefix_p99,omitempty"`
	// Verdict is "" without a budget, and that on whole prefixes where there are such.
	Verdict string `json:"verdict,omitempty"`
}

// NameSuffix stands between the name of a job and the depth at which it ran.
const NameSuffix = " iodepth="

// Sweep are the points of rising depth, and what follows from them.
type Sweep struct {
	BudgetNS int64   `json:"budget_ns,omitempty"` // 0: none
	Points   []Point `json:"points"`
	// DepthUnderBudget is the largest depth measured whose P99 is under the budget:
	// whose verdict is pass, with none over the budget at a smaller depth. 0: none.
	DepthUnderBudget int `json:"depth_under_budget,omitempty"`
	// Knee is the depth with the greatest power: throughput over mean latency
	// (Kleinrock 1979), which by Little's law is IOPS² / depth. Beyond it, twice the
	// depth brings less than the square root of twice the throughput. 0: no points.
	Knee int `json:"knee,omitempty"`
	// Saturation is the smallest depth with 95 % of the greatest throughput.
	Saturation int `json:"saturation,omitempty"`
}

// Judged says whether the points have verdicts.
func (s *Sweep) Judged() bool { return len(s.Points) > 0 && s.Points[0].Verdict != "" }

const saturated = 0.95

// Add takes the next point, and finds depths anew. Points come in any order.
func (s *Sweep) Add(p Point) {
	i, _ := slices.BinarySearchFunc(s.Points, p.Depth, func(q Point, depth int) int { return q.Depth - depth })
	s.Points = slices.Insert(s.Points, i, p)
	s.DepthUnderBudget, s.Knee, s.Saturation = 0, 0, 0
	most := slices.MaxFunc(s.Points, func(a, b Point) int { return cmp.Compare(a.IOPS, b.IOPS) }).IOPS
	if most <= 0 {
		return
	}
	s.Knee = slices.MaxFunc(s.Points, func(a, b Point) int { return cmp.Compare(power(a), power(b)) }).Depth
	over := false
	for _, q := range s.Points {
		over = over || q.Verdict == fio.Over.String()
		if !over && q.Verdict == fio.Pass.String() {
			s.DepthUnderBudget = q.Depth
		}
		if s.Saturation == 0 && q.IOPS >= saturated*most {
			s.Saturation = q.Depth
		}
	}
}

func power(p Point) float64 { return p.IOPS * p.IOPS / float64(max(p.Depth, 1)) }

// Run measures one depth after the other, in the order given. one runs the job at a
// depth and returns its point. An error ends the sweep; what was measured until
// then is returned with it.
func Run(ctx context.Context, budgetNS int64, depths []int, one func(ctx context.Context, depth int) (Point, error)) (*Sweep, error) {
	s := &Sweep{BudgetNS: budgetNS, Points: []Point{}}
	for _, depth := range depths {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		p, err := one(ctx, depth)
		if err != nil {
			return s, fmt.Errorf("at iodepth %d: %w", depth, err)
		}
		s.Add(p)
	}
	return s, nil
}

// The bounds of a sweep.
const (
	depthMax  = 4096
	pointsMax = 32
)

// ParseDepths reads what follows --sweep: iodepth= and rising depths. Two dots go on
// as the two before them do: 1,2,..,32 doubles.
func ParseDepths(text string) ([]int, error) {
	list, ok := strings.CutPrefix(text, "iodepth=")
	if !ok {
		return nil, fmt.Errorf("sweep %q: want iodepth= and depths, as in iodepth=1,2,4,8", text)
	}
	var depths []int
	fill := false
	for part := range strings.SplitSeq(list, ",") {
		if strings.Trim(part, ".") == "" && len(part) >= 2 {
			fill = true
			continue
		}
		depth, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || depth < 1 || depth > depthMax {
			return nil, fmt.Errorf("sweep: depth %q: want a whole number from 1 to %d", part, depthMax)
		}
		if n := len(depths); fill {
			if n < 2 || depths[n-2] >= depths[n-1] || depths[n-1]%depths[n-2] != 0 {
				return nil, errors.New("sweep: .. goes on by the ratio of the two depths before it, as in 1,2,..,32")
			}
			for ratio := depths[n-1] / depths[n-2]; depths[len(depths)-1]*ratio < depth; {
				depths = append(depths, depths[len(depths)-1]*ratio)
			}
			fill = false
		}
		depths = append(depths, depth)
	}
	switch {
	case fill:
		return nil, errors.New("sweep: .. wants a depth behind it")
	case len(depths) > pointsMax:
		return nil, fmt.Errorf("sweep: %d depths: at most %d", len(depths), pointsMax)
	case !slices.IsSorted(depths) || len(slices.Compact(slices.Clone(depths))) != len(depths):
		return nil, fmt.Errorf("sweep: depths must rise: %v", depths)
	}
	return depths, nil
}

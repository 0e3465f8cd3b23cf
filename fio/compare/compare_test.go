package compare

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/fio/origin"
)

// good is a turn as it should be: rdma twice as quick as tcp.
func good(way string) Turn {
	t := Turn{BWBytes: 100, P50NS: 10, P99NS: 20, CPUPerGBS: 0.4, TCP: 50}
	if way == origin.RDMA {
		t = Turn{BWBytes: 200, P50NS: 5, P99NS: 10, CPUPerGBS: 0.2, RDMA: 50}
	}
	return t
}

// TestRun: every round has each way once, no way is always first, and ratios are of one
// round.
func TestRun(t *testing.T) {
	first := map[string]int{}
	turns := 0
	c, err := Run(t.Context(), 6, func(_ context.Context, round int, way string) (Turn, error) {
		if turns%3 == 0 {
			first[way]++
		}
		turns++
		one := good(way)
		one.BWBytes *= float64(round) // a machine that gets quicker
		return one, nil
	})
	if err != nil || turns != 18 || len(first) != 3 || first[Again] != 2 {
		t.Fatalf("%v, %d turns, first were %v", err, turns, first)
	}
	for _, r := range []struct{ got, want float64 }{{c.BW.Ratio.Median, 2}, {c.BW.Ratio.High, 2}, {c.BW.Itself.Low, 1}, {c.P50.Ratio.Median, 0.5}, {c.P99.RDMA, 10}, {c.CPU.TCP, 0.4}, {c.CPU.Ratio.Median, 0.5}} {
		if math.Abs(r.got-r.want) > 1e-9 {
			t.Errorf("%v, want %v: %+v", r.got, r.want, c)
		}
	}
	if c.Doubt != "" {
		t.Error(c.Doubt)
	}
}

// TestDoubt: numbers that do not compare the two transports are said not to.
func TestDoubt(t *testing.T) {
	for want, spoil := range map[string]func(*Turn){
		"only 0 % of the blocks":           func(t *Turn) { t.TCP, t.RDMA = t.TCP+t.RDMA, 0 },
		"in the turns of tcp 100 blocks":   func(t *Turn) { t.TCP, t.RDMA = 0, t.TCP+t.RDMA },
		"no block came from another node":  func(t *Turn) { t.TCP, t.RDMA, t.Here = 0, 0, 50 },
		"50 % of the blocks were those of": func(t *Turn) { t.Here = 50 },
		"6 blocks came with wrong bytes":   func(t *Turn) { t.Wrong, t.Damaged = 1, 1 },
	} {
		c, err := Run(t.Context(), 1, func(_ context.Context, _ int, way string) (Turn, error) {
			one := good(way)
			spoil(&one)
			return one, nil
		})
		if err != nil || !strings.Contains(c.Doubt, want) {
			t.Errorf("%v, doubt %q, want %q", err, c.Doubt, want)
		}
	}
}

// TestRunFails: an error ends it, and what was measured is kept.
func TestRunFails(t *testing.T) {
	boom := errors.New("boom")
	c, err := Run(t.Context(), 3, func(_ context.Context, round int, way string) (Turn, error) {
		if round == 2 {
			return Turn{}, boom
		}
		return good(way), nil
	})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "round 2") || len(c.Turns) != 3 {
		t.Errorf("%v, %+v", err, c)
	}
}

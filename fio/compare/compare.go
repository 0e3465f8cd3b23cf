// Package compare runs jobs in turns with blocks coming by RDMA and by TCP, and says how
// the two differ, and whether that is more than two equal turns do.
package compare

import (
	"context"
	"fmt"

	"github.com/spillway-kv/spillway/fio/origin"
	"github.com/spillway-kv/spillway/fio/spread"
)

// Again is the second turn of TCP within a round: its ratio to the first says how far two
// equal turns lie apart here.
const Again = origin.TCP + " again"

// Turn is what one run of the jobs measured.
type Turn struct {
	Round   int     `json:"round"` // from 1
	Way     string  `json:"way"`   // rdma, tcp, or "tcp again"
	IOPS    float64 `json:"iops"`
	BWBytes float64 `json:"bw_bytes"` // bytes/s
	P50NS   int64   `json:"p50_ns"`
	P99NS   int64   `json:"p99_ns"`
	Samples uint64  `json:"samples"`
	// CPUPerGBS is processor time, in seconds, of all that Comparison.CPUOf names, for 10^9
	// bytes; 0: nothing was read.
	CPUPerGBS float64 `json:"cpu_per_gb_s"`
	Here      uint64  `json:"here"` // blocks of the asked node itself
	RDMA      uint64  `json:"rdma"` // blocks that came by RDMA
	TCP       uint64  `json:"tcp"`  // blocks that came by TCP
	Wrong     uint64  `json:"wrong"`
	Damaged   uint64  `json:"damaged"` // found by verify
}

// Ratio is one number by both ways.
type Ratio struct {
	RDMA   float64       `json:"rdma"`   // median
	TCP    float64       `json:"tcp"`    // median
	Ratio  spread.Spread `json:"ratio"`  // rdma over tcp, round by round
	Itself spread.Spread `json:"itself"` // tcp again over tcp
}

// Comparison is the result of all turns.
type Comparison struct {
	CPUOf []string `json:"cpu_of"` // whose processor time counts
	Turns []Turn   `json:"turns"`  // in the order in which they ran
	BW    Ratio    `json:"bw"`     // bytes/s
	P50   Ratio    `json:"p50"`    // ns
	P99   Ratio    `json:"p99"`    // ns
	CPU   Ratio    `json:"cpu"`    // s for 10^9 bytes
	// Doubt says why the numbers do not compare the two; "": they do.
	Doubt string `json:"doubt,omitempty"`
}

// Run has rounds of three turns run, each round in another order, by one. An error ends
// it; what was measured until then is returned with it.
func Run(ctx context.Context, rounds int, one func(ctx context.Context, round int, way string) (Turn, error)) (*Comparison, error) {
	c := &Comparison{Turns: []Turn{}}
	ways := []string{origin.RDMA, origin.TCP, Again}
	for round := range rounds {
		for turn := range ways {
			way := ways[(round+turn)%len(ways)]
			if err := ctx.Err(); err != nil {
				return c, err
			}
			t, err := one(ctx, round+1, way)
			if err != nil {
				return c, fmt.Errorf("by %s, round %d: %w", way, round+1, err)
			}
			t.Round, t.Way = round+1, way
			c.Turns = append(c.Turns, t)
		}
	}
	c.judge()
	return c, nil
}

// by lists one number of a way, round by round.
func (c *Comparison) by(way string, of func(*Turn) float64) (all []float64) {
	for i := range c.Turns {
		if t := &c.Turns[i]; t.Way == way {
			all = append(all, of(t))
		}
	}
	return all
}

func (c *Comparison) ratio(of func(*Turn) float64) Ratio {
	rdma, tcp := c.by(origin.RDMA, of), c.by(origin.TCP, of)
	return Ratio{RDMA: spread.Median(rdma), TCP: spread.Median(tcp), Ratio: spread.Of(spread.Ratios(rdma, tcp)),
		Itself: spread.Of(spread.Ratios(c.by(Again, of), tcp))}
}

// enough is the share of blocks that must have come as the turn's name says.
const enough = 0.99

func (c *Comparison) judge() {
	c.BW = c.ratio(func(t *Turn) float64 { return t.BWBytes })
	c.P50 = c.ratio(func(t *Turn) float64 { return float64(t.P50NS) })
	c.P99 = c.ratio(func(t *Turn) float64 { return float64(t.P99NS) })
	c.CPU = c.ratio(func(t *Turn) float64 { return t.CPUPerGBS })
	var of [2]struct{ rdma, all uint64 } // of turns by RDMA, and of the others
	var here, wrong uint64
	for i := range c.Turns {
		t := &c.Turns[i]
		at := &of[1]
		if t.Way == origin.RDMA {
			at = &of[0]
		}
		at.rdma, at.all = at.rdma+t.RDMA, at.all+t.RDMA+t.TCP
		here, wrong = here+t.Here, wrong+t.Wrong+t.Damaged
	}
	share := func(n, all uint64) float64 { return float64(n) / float64(max(all, 1)) }
	switch {
	case wrong > 0:
		c.Doubt = fmt.Sprintf("%d blocks came with wrong bytes", wrong)
	case of[0].all == 0 || of[1].all == 0:
		c.Doubt = "no block came from another node"
	case share(of[0].rdma, of[0].all) < enough:
		c.Doubt = fmt.Sprintf("in the turns of rdma only %.0f %% of the blocks from other nodes came by it", 100*share(of[0].rdma, of[0].all))
	case of[1].rdma > 0:
		c.Doubt = fmt.Sprintf("in the turns of tcp %d blocks came by rdma", of[1].rdma)
	case share(here, here+of[0].all+of[1].all) > 1-enough:
		c.Doubt = fmt.Sprintf("%.0f %% of the blocks were those of the asked node itself", 100*share(here, here+of[0].all+of[1].all))
	}
}

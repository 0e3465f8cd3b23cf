package main

import (
	"context"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/admin"
)

type poolWayCmd struct {
	operatorFlags
	jsonFlag
	For time.Duration `placeholder:"TIME" help:"With tcp: for so long; without it, until the daemon's next start."`
	Way string        `arg:"" enum:"auto,tcp" help:"tcp, or auto: RDMA where it is to be had."`
}

// Help is shown under the flags.
func (*poolWayCmd) Help() string {
	return "It rules the blocks that this node asks other nodes for, from the next one on; what others ask of it they rule themselves. " +
		"All else goes over TCP always. spillway pool status shows the way to each peer. To have TCP from the start, set pool.transport."
}

func (*poolWayCmd) reports() []any { return []any{poolChangedReport{}} }

func (c *poolWayCmd) run(ctx context.Context, st *state) error {
	if c.For < 0 || c.For > 0 && c.Way != admin.WayTCP {
		return usagef("leave --for out, or write it like --for 10m, with tcp", "--for %v with %s", c.For, c.Way)
	}
	return c.change(ctx, st, "/v1/pool/way", wayBody(c.Way, c.For), c.JSON)
}

// wayBody asks for a way, for good if d is 0.
func wayBody(way string, d time.Duration) map[string]string {
	body := map[string]string{"way": way}
	if d > 0 {
		body["for"] = d.String()
	}
	return body
}

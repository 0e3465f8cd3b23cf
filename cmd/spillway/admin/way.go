package admin

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// Ways by which this node's fetches go, as an operator names them.
const (
	WayAuto = "auto" // the best there is
	WayTCP  = "tcp"
)

// wayAlways is as long as a daemon runs.
const wayAlways = time.Duration(math.MaxInt64)

// way has the blocks that this node asks others for come over TCP, for a while or until
// the daemon's next start, or by the best way again.
func way(p Pool, body []byte) (what string, err error) {
	var ask struct {
		Way string `json:"way"`
		For string `json:"for"` // a time such as 30s; empty: for good
	}
	if err := strict(body, &ask); err != nil {
		return "", err
	}
	d, until := wayAlways, "until the daemon's next start"
	if ask.For != "" {
		if d, err = time.ParseDuration(ask.For); err != nil || d <= 0 {
			return "", fmt.Errorf("%w: for %q: want a time such as 30s", errRequest, ask.For)
		}
		until = "for " + d.String()
	}
	switch {
	case ask.Way == WayTCP:
		return "blocks from other nodes come over TCP " + until, p.PlainFor(d)
	case ask.Way == WayAuto && ask.For == "":
		return "blocks from other nodes come by RDMA where it is to be had", p.PlainFor(0)
	}
	return "", fmt.Errorf("%w: way %q for %q: want tcp, which may be for a time, or auto", engine.ErrConfig, ask.Way, ask.For)
}

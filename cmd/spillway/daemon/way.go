package daemon

import (
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
)

// PlainFor implements admin.Pool.
func (o *operator) PlainFor(d time.Duration) error {
	ways, more := o.in.transport.best.(transport.Ways)
	if !more {
		why := o.in.transport.why
		if why == "" {
			why = "pool.transport is tcp"
		}
		return fmt.Errorf("%w: this node has no other way than TCP: %s", admin.ErrState, why)
	}
	ways.PlainFor(d)
	return nil
}

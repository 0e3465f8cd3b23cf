package daemon

import (
	"errors"
	"strings"

	"github.com/spillway-kv/spillway/cluster/node"
)

// reload takes over what may change while the daemon runs. A configuration that is
// wrong changes nothing. Tokens are read anew from their files.
func (d *daemon) reload() {
	if d.o.Load == nil {
		d.log.Warn("nothing to reload: the daemon has no configuration file")
		return
	}
	next, err := d.o.Load()
	if err == nil {
		err = next.Check()
	}
	if err != nil {
		d.log.Error("the configuration is wrong, everything stays as it was", "cause", err)
		return
	}
	merged, changed, restart := d.config.Merge(next)
	if len(restart) > 0 {
		d.log.Warn("needs a restart, ignored until then", "keys", strings.Join(restart, " "))
	}
	before := d.config
	d.config = merged
	if err := d.apply(); err != nil {
		d.config = before
		d.log.Error("the configuration could not be taken over, everything stays as it was", "cause", err)
		return
	}
	d.log.Info("reloaded", "changed", strings.Join(changed, " "))
}

// apply gives the configuration to what runs. An error has changed nothing.
func (d *daemon) apply() error {
	level, err := d.config.Log.SlogLevel()
	if err != nil {
		return err
	}
	o, err := d.config.NodeOptions()
	if err != nil {
		return err
	}
	if _, err := d.config.Admin.Secret(); err != nil {
		return err
	}
	if err := d.node.Update(o); errors.Is(err, node.ErrOptions) {
		return err
	} else if err != nil {
		d.log.Error("a quota could not be set, all else is taken over", "cause", err)
	}
	if err := d.configureView(); err != nil {
		d.log.Error("the admin token cannot be read, the old one stays", "cause", err)
	}
	if err := d.pool.reload(&d.config.Pool); err != nil {
		d.log.Error("not all of the pool is taken over", "cause", err)
	}
	d.level.Set(level)
	return nil
}

package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/engine"
)

// progressTime is how often a start that takes long says so.
const progressTime = 10 * time.Second

// opened is what came of one store.
type opened struct {
	number int
	store  *engine.Store
	err    error
}

// open opens all stores in parallel. One that cannot be opened, or is sick at once,
// is an error unless it is optional; one at least must open. When ctx ends it waits
// a little for those being opened, so that they are closed in order.
func (d *daemon) open(ctx context.Context) error {
	began := time.Now()
	results := make(chan opened, len(d.config.Stores))
	for i := range d.config.Stores {
		c := &d.config.Stores[i]
		d.log.Info("opening a store", "dir", c.Dir)
		go func() {
			s, err := engine.Open(c.Options(d.log.With("store", c.Dir)))
			results <- opened{i, s, err}
		}()
	}
	all := make([]*engine.Store, len(d.config.Stores))
	defer func() { d.stores = slices.DeleteFunc(all, func(s *engine.Store) bool { return s == nil }) }()
	var first error
	ticker := time.NewTicker(progressTime)
	defer ticker.Stop()
	stop, patience := ctx.Done(), (<-chan time.Time)(nil)
	for done := 0; done < len(all); {
		d.tell("opening stores, %d of %d done", done, len(all))
		select {
		case r := <-results:
			done++
			all[r.number] = r.store
			if err := d.judge(&d.config.Stores[r.number], r, time.Since(began)); err != nil && first == nil {
				first = err
			}
		case <-ticker.C:
			d.log.Info("still opening stores", "done", done, "of", len(all), "for", time.Since(began).Round(time.Second))
		case <-stop:
			stop, patience = nil, time.After(d.config.Limits.StopTime.Duration)
		case <-patience:
			return fmt.Errorf("opening the stores: %w", ErrStuck)
		}
	}
	if first == nil && !slices.ContainsFunc(all, func(s *engine.Store) bool { return s != nil }) {
		return fmt.Errorf("no store could be opened, all are optional")
	}
	return first
}

// judge logs what came of a store; an error refuses the start.
func (d *daemon) judge(c *config.Store, r opened, took time.Duration) error {
	if r.err != nil {
		if c.Optional {
			d.log.Error("an optional store cannot be opened: its blocks are misses until the next start", "dir", c.Dir, "cause", r.err)
			return nil
		}
		return fmt.Errorf("store %s: %w", c.Dir, r.err)
	}
	st := r.store.Stat()
	d.log.Info("a store is open", "dir", c.Dir, "blocks", st.Blocks, "capacity_bytes", st.CapacityBytes, "device", st.Device,
		"direct_io", st.DirectIO, "health", st.Health, "took", took.Round(time.Millisecond))
	if st.Health != "ok" && !c.Optional {
		return fmt.Errorf("store %s is %s: %s; set optional to start with it nevertheless", c.Dir, st.Health, st.HealthCause)
	}
	return nil
}

// missing are the directories of stores that are not open.
func (d *daemon) missing() (dirs []string) {
	open := map[string]bool{}
	for _, s := range d.stores {
		open[s.Stat().Dir] = true
	}
	for i := range d.config.Stores {
		if dir := d.config.Stores[i].Dir; !open[dir] {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// tell shows what the start is at.
func (d *daemon) tell(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	d.view.SetPhase(text)
	d.notify.send("STATUS=" + text)
}

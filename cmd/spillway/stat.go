package main

import (
	"context"
	"fmt"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/units"
)

type statCmd struct {
	storeFlags
	jsonFlag
}

// statReport is the JSON of a store's state.
type statReport struct {
	Type string `json:"type"` // stat
	engine.Stat
}

// Help is shown under the flags.
func (*statCmd) Help() string {
	return "Opens the store for this, so counters such as torn and lost begin at 0 and show what this opening met. " +
		"spillway inspect and spillway doctor look at a store in use."
}

func (*statCmd) reports() []any { return []any{statReport{}} }

func (c *statCmd) run(_ context.Context, st *state) error {
	var stat engine.Stat
	err := withStore(c.options(st, c.JSON), func(s *engine.Store) error {
		stat = s.Stat()
		return nil
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, statReport{"stat", stat})
	}
	health := stat.Health
	if stat.HealthCause != "" {
		health += ": " + stat.HealthCause
	}
	n := func(v any) string { return fmt.Sprint(v) }
	return table(st.stdout, [][]string{
		{"store", stat.StoreID}, {"directory", stat.Dir}, {"health", health},
		{"device", stat.Device + ", " + stat.FileSystem + ", " + ioMode(stat.DirectIO) + " I/O"},
		{"capacity", units.Bytes(stat.CapacityBytes)}, {"used", units.Bytes(stat.UsedBytes)},
		{"segments", n(stat.Segments) + " of " + units.Bytes(stat.SegmentBytes)},
		{"blocks", n(stat.Blocks)}, {"slots", n(stat.Slots)},
		{"namespaces", n(len(stat.Namespaces))},
		{"index memory", units.Bytes(stat.IndexBytes)}, {"log", units.Bytes(stat.LogBytes)},
		{"torn", n(stat.Counters.TornBlocks)}, {"lost", n(stat.Counters.LostBlocks)}, {"stale", n(stat.Counters.StaleReads)},
		{"quarantined slots", n(stat.Counters.QuarantinedSlots)},
	})
}

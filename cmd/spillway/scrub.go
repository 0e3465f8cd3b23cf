package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/units"
)

type scrubCmd struct {
	storeFlags
	jsonFlag
	Rate  byteSize `placeholder:"SIZE" help:"Most bytes to read per second; as fast as it goes if not given."`
	Quiet bool     `short:"q" help:"Show no progress."`
}

// scrubReport is the JSON of a scrub.
type scrubReport struct {
	Type string `json:"type"` // scrub
	engine.ScrubReport
	Torn             uint64  `json:"torn"`              // blocks whose synced bytes fail their checksum: damage
	ReadErrors       uint64  `json:"read_errors"`       // blocks that could not be read
	QuarantinedSlots uint64  `json:"quarantined_slots"` // slots that are not used again
	Seconds          float64 `json:"seconds"`           // how long it took
}

func (*scrubCmd) reports() []any { return []any{scrubReport{}} }

func (c *scrubCmd) run(ctx context.Context, st *state) error {
	var report engine.ScrubReport
	var counters engine.Counters
	began := st.now()
	meter := newMeter(st)
	show := func(r engine.ScrubReport) {
		if !c.Quiet && !c.JSON {
			meter.show(func(now time.Time) string { return scrubLine(r, now.Sub(began)) })
		}
	}
	err := withStore(c.options(st, c.JSON), func(s *engine.Store) (err error) {
		report, err = s.Scrub(ctx, int64(c.Rate), show)
		counters = s.Stat().Counters
		return err
	})
	meter.clear()
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return err
	}
	writeErr := c.print(st, report, counters, st.now().Sub(began))
	var bad error
	if report.Bad > 0 {
		bad = &failure{code: exitDamage, message: fmt.Sprintf("%d of %d blocks were bad and are misses from now on", report.Bad, report.Blocks),
			remedy: "nothing to do for the data: engines compute it again; if it grows, look at the drive's own health (smartctl -a)"}
	}
	if interrupted {
		err = &failure{code: exitError, message: "interrupted; the figures cover what was read", cause: err}
	}
	return gravest(writeErr, err, bad)
}

func (c *scrubCmd) print(st *state, r engine.ScrubReport, n engine.Counters, elapsed time.Duration) error {
	if c.JSON {
		return printJSON(st.stdout, scrubReport{"scrub", r, n.TornBlocks, n.ReadErrors, n.QuarantinedSlots, elapsed.Seconds()})
	}
	return table(st.stdout, [][]string{
		{"blocks read", fmt.Sprintf("%d of %d", r.Blocks, r.Total)}, {"bytes read", units.Bytes(r.Bytes)},
		{"bad", fmt.Sprintf("%d (torn %d, unreadable %d)", r.Bad, n.TornBlocks, n.ReadErrors)},
		{"lost", fmt.Sprint(r.Lost)},
		{"skipped", fmt.Sprint(r.Skipped)}, {"quarantined slots", fmt.Sprint(n.QuarantinedSlots)},
		{"elapsed", elapsed.Round(time.Millisecond).String()},
	})
}

func scrubLine(r engine.ScrubReport, elapsed time.Duration) string {
	done := r.Blocks + r.Skipped
	line := fmt.Sprintf("%d of %d blocks, %s/s, %d bad", done, r.Total, units.Bytes(int64(float64(r.Bytes)/elapsed.Seconds())), r.Bad)
	if done > 0 && done < r.Total {
		line += fmt.Sprintf(", %v left", time.Duration(float64(elapsed)*(float64(r.Total)/float64(done)-1)).Round(time.Second))
	}
	return line
}

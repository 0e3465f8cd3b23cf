package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/fio/units"
)

type poolDrainCmd struct {
	operatorFlags
	jsonFlag
	NoWait bool `help:"Only begin; do not wait for the end."`
}

// Help is shown under the flags.
func (*poolDrainCmd) Help() string {
	return "The node takes no new blocks from then on, and hands over what it has, the hottest first, at pool.drain_rate. " +
		"It goes on when this command ends, and after a restart of the daemon; run it again to see how far it is. " +
		"When it is done the daemon can be stopped. " +
		"With --json one object a line, until it is done."
}

// poolDrainReport is the JSON of a drain.
type poolDrainReport struct {
	Type  string         `json:"type"`       // pool_drain
	Node  string         `json:"node"`       // name of the node that is drained
	State string         `json:"node_state"` // joining, draining, then leaving
	Drain pool.DrainStat `json:"drain"`      // how far it is
}

func (*poolDrainCmd) reports() []any { return []any{poolDrainReport{}} }

// drainTime is how often progress is asked for.
const drainTime = 500 * time.Millisecond

func (c *poolDrainCmd) run(ctx context.Context, st *state) error {
	o, err := c.operator(st)
	if err != nil {
		return err
	}
	if err := beginDrain(ctx, o); err != nil {
		return err
	}
	shown := progressOfDrain{st: st, asJSON: c.JSON}
	for {
		s, err := statusOf(ctx, o)
		if err != nil {
			return nilIfOver(ctx, err)
		}
		if err := shown.show(s); err != nil {
			return err
		}
		done := drained(s)
		if s.State == "active" && !done {
			return &failure{code: exitError, message: "the drain was ended by an undrain"}
		}
		if done || c.NoWait {
			return shown.end(s)
		}
		if !pause(ctx, drainTime) {
			fmt.Fprintln(st.stderr, "spillway: the drain goes on; spillway pool undrain ends it")
			return nil
		}
	}
}

// drained says whether a node has handed over all that it will.
func drained(s *admin.PoolStatus) bool { return s.Moves.Drain.State == "done" }

func beginDrain(ctx context.Context, o *operator) error {
	ctx, cancel := quick(ctx)
	defer cancel()
	return o.ask(ctx, "/v1/pool/drain", nil, struct{}{}, &admin.Changed{})
}

func statusOf(ctx context.Context, o *operator) (*admin.PoolStatus, error) {
	ctx, cancel := quick(ctx)
	defer cancel()
	s := &admin.PoolStatus{}
	return s, o.ask(ctx, "/v1/pool", nil, nil, s)
}

// progressOfDrain shows a drain: a line that changes on a terminal, elsewhere a line
// whenever something has changed.
type progressOfDrain struct {
	st     *state
	asJSON bool
	before string
}

func (p *progressOfDrain) show(s *admin.PoolStatus) error {
	if p.asJSON {
		return printJSON(p.st.stdout, poolDrainReport{"pool_drain", s.Name, s.State, s.Moves.Drain})
	}
	line := drainLine(s)
	if line == p.before {
		return nil
	}
	p.before = line
	if p.st.stdoutTTY {
		_, err := fmt.Fprint(p.st.stdout, "\r\x1b[K"+line) // back to the left, clear
		return err
	}
	_, err := fmt.Fprintln(p.st.stdout, line)
	return err
}

// end is what is shown last.
func (p *progressOfDrain) end(s *admin.PoolStatus) error {
	if p.asJSON {
		return nil
	}
	if p.st.stdoutTTY {
		fmt.Fprintln(p.st.stdout)
	}
	if !drained(s) {
		return nil
	}
	_, err := fmt.Fprintf(p.st.stdout, "%s is drained: its daemon can be stopped\n", s.Name)
	return err
}

func drainLine(s *admin.PoolStatus) string {
	d := &s.Moves.Drain
	parts := []string{fmt.Sprintf("%s: moved %s, %s", s.Name, units.Count(int64(d.MovedBlocks), "block"), units.Bytes(d.MovedBytes))}
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if d.PresentBlocks > 0 {
		say("%d of %d found elsewhere", d.PresentBlocks, d.Blocks)
	}
	if n := d.ColdBlocks + d.NamelessBlocks; n > 0 {
		say("%d given up", n)
	}
	if d.FailedBlocks > 0 {
		say("%d to be tried again", d.FailedBlocks)
	}
	if !drained(s) {
		say("left %s of %d, %s", units.Count(int64(d.LeftBlocks), "block"), d.Blocks, units.Bytes(d.LeftBytes))
		if d.BytesPerSecond > 0 {
			say("%s/s", units.Bytes(int64(d.BytesPerSecond)))
		}
		if d.SecondsLeft > 0 {
			say("about %v to go", (time.Duration(d.SecondsLeft * float64(time.Second))).Round(time.Second))
		}
		if d.Cause != "" {
			say("waits: %s", d.Cause)
		}
	}
	return strings.Join(parts, "; ")
}

type poolUndrainCmd struct {
	operatorFlags
	jsonFlag
}

func (*poolUndrainCmd) reports() []any { return []any{poolChangedReport{}} }

func (c *poolUndrainCmd) run(ctx context.Context, st *state) error {
	return c.change(ctx, st, "/v1/pool/undrain", struct{}{}, c.JSON)
}

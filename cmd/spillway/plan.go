package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/tiering/model"
	"github.com/spillway-kv/spillway/tiering/plan"
	"github.com/spillway-kv/spillway/tiering/trace"
)

type planCmd struct {
	jsonFlag
	Capacity      capacities    `default:"1%,5%,10%,25%,50%" placeholder:"LIST" help:"Capacities, with commas: shares of the trace's unique blocks (5%), or, with --model or --block-bytes, sizes (2TiB)."`
	Policy        []string      `placeholder:"LIST" help:"Eviction policies, with commas: hazard, lru, s3fifo; to compare, fifo and belady, which knows the future. Default: all."`
	Admit         string        `default:"full" enum:"full,all,not-last" placeholder:"WHICH" help:"Which blocks are stored: full (not a partial last one; as the daemon does), all, not-last (no request's last one)."`
	HeadFirst     bool          `help:"Apply each request's blocks from the root on, which no store does."`
	RestartAt     time.Duration `placeholder:"TIME" help:"Also close and open each store at this time of the trace, such as 30m, and compare the five minutes after it."`
	Model         string        `placeholder:"NAME" help:"The model whose blocks these are; adds bytes, rates, drives and endurance."`
	KV            string        `name:"kv" default:"bf16" placeholder:"TYPE" help:"Precision of its KV: bf16, fp8, fp4."`
	BlockBytes    byteSize      `placeholder:"SIZE" help:"Bytes of a block, in place of --model."`
	DriveCapacity byteSize      `default:"3840GB" placeholder:"SIZE" help:"Capacity of the drives to buy."`
	DriveDWPD     float64       `name:"drive-dwpd" default:"1" placeholder:"N" help:"Drive writes per day that they stand for five years."`
	Nodes         int           `placeholder:"N" help:"Also compare placements in a pool of N nodes."`
	Lose          int           `default:"1" placeholder:"N" help:"How many of the nodes are lost at once."`
	Report        string        `placeholder:"FILE" help:"Also write a page with the curves, as HTML."`
	Generate      bool          `help:"Plan with generated chats in place of a trace."`
	Requests      int           `placeholder:"N" help:"How many requests to generate, 12031 by default, or to read of a trace; 0 means all."`
	Seed          uint64        `default:"1" help:"Seed of the generated chats."`
	Quiet         bool          `short:"q" help:"Show no progress; --json shows none either."`
	Trace         string        `arg:"" optional:"" complete:"file" help:"Trace in the Mooncake format: JSON lines, plain or zstd. It is held in memory: at most 2^27 references to blocks."`
}

// driveYears is for how long makers state drive writes per day.
const driveYears = 5

// nodesMax bounds a pool to plan.
const nodesMax = 1024

// restartMinutes is how long after a restart hits are compared.
const restartMinutes = 5

// Help is shown under the flags.
func (*planCmd) Help() string {
	return "Simulates stores of several sizes under several eviction policies, with the engine's own policy code. A hit is a block that is there when " +
		"its request begins; only a prefix hit, with all blocks before it there as well, saves work."
}

func (*planCmd) reports() []any { return []any{planReport{}} }

func (c *planCmd) run(ctx context.Context, st *state) error {
	if err := c.check(); err != nil {
		return err
	}
	blockTokens := int64(trace.TokensPerBlock)
	blockBytes := int64(c.BlockBytes)
	if c.Model != "" {
		m, err := model.Find(c.Model)
		if err != nil {
			return usagef("see spillway budget --list", "%v", err)
		}
		kv, err := model.ParsePrecision(c.KV)
		if err != nil {
			return usagef("the default is bf16", "--kv: %v", err)
		}
		c.Model, blockBytes = m.Name, m.BlockBytes(int(blockTokens), kv)
	}
	shown := newMeter(st)
	say := func(format string, args ...any) {
		if !c.Quiet && !c.JSON {
			shown.show(func(time.Time) string { return fmt.Sprintf(format, args...) })
		}
	}
	t, err := c.load(ctx, say)
	if err != nil {
		return err
	}
	if c.Model != "" && t.TokensPerUnit == 0 {
		shown.clear()
		return usagef("give --block-bytes in place of --model", "the trace's blocks are not of %d tokens, so a model does not say how many bytes they have", blockTokens)
	}
	report, err := c.simulate(ctx, t, blockBytes, func(done, of int) { say("%d of %d simulations", done, of) })
	shown.clear()
	if err != nil {
		return err
	}
	if c.Report != "" {
		if err := writeFile(c.Report, report.page); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(st.stdout, report)
	}
	return report.print(st.stdout)
}

// writeFile writes a file by what write writes.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (c *planCmd) check() error {
	if err := checkTraceChoice(c.Trace, c.Generate, c.Requests); err != nil {
		return err
	}
	switch {
	case c.RestartAt < 0:
		return usagef("leave it out for none", "--restart-at %v is negative", c.RestartAt)
	case c.Model != "" && c.BlockBytes > 0:
		return usagef("give one of them", "both --model and --block-bytes")
	case c.Nodes < 0 || c.Nodes == 1 || c.Nodes > nodesMax:
		return usagef(fmt.Sprintf("a pool to plan has 2 to %d nodes", nodesMax), "--nodes %d", c.Nodes)
	case c.Nodes > 0 && (c.Lose < 1 || c.Lose >= c.Nodes):
		return usagef("lose 1 at least, and fewer than there are", "--lose %d of %d nodes", c.Lose, c.Nodes)
	case !(c.DriveDWPD > 0):
		return usagef("the default is 1", "--drive-dwpd %v is not above 0", c.DriveDWPD)
	}
	for _, size := range c.Capacity {
		if size.bytes > 0 && c.Model == "" && c.BlockBytes == 0 {
			return usagef("give --model or --block-bytes as well", "--capacity %s: how many blocks that is, nobody knows", size.text)
		}
	}
	if len(c.Policy) == 0 {
		c.Policy = plan.Policies()
	}
	for _, name := range c.Policy {
		if !slices.Contains(plan.Policies(), name) {
			return usagef("there are "+strings.Join(plan.Policies(), ", "), "no eviction policy %q", name)
		}
	}
	return nil
}

// load reads the trace, or generates it.
func (c *planCmd) load(ctx context.Context, say func(string, ...any)) (*plan.Trace, error) {
	read := func(requests int) { say("%d requests read", requests) }
	if c.Generate {
		n := c.Requests
		if n == 0 {
			n = trace.ConversationRequests
		}
		return plan.Load(ctx, trace.NewGenerator(trace.Config{Seed: c.Seed, Requests: n}), read)
	}
	r, err := trace.Open(c.Trace)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if c.Requests > 0 {
		return plan.Load(ctx, &firstRequests{r, c.Requests}, read)
	}
	return plan.Load(ctx, r, read)
}

// firstRequests is the beginning of a trace.
type firstRequests struct {
	trace.Source
	left int
}

// Next is that of trace.Source.
func (f *firstRequests) Next() (trace.Request, error) {
	if f.left == 0 {
		return trace.Request{}, io.EOF
	}
	f.left--
	return f.Source.Next()
}

var admissions = map[string]plan.Admission{"full": plan.FullBlocks, "all": plan.AllBlocks, "not-last": plan.NotLast}

// simulate runs everything and puts the report together.
func (c *planCmd) simulate(ctx context.Context, t *plan.Trace, blockBytes int64, progress func(done, of int)) (*planReport, error) {
	var configs []plan.Config
	for _, policy := range c.Policy {
		for _, size := range c.Capacity {
			configs = append(configs, plan.Config{Policy: policy, Capacity: size.blocks(t, blockBytes), Admission: admissions[c.Admit], HeadFirst: c.HeadFirst})
		}
	}
	plain := len(configs)
	if c.RestartAt > 0 {
		for _, config := range configs[:plain] {
			config.RestartMS = c.RestartAt.Milliseconds()
			configs = append(configs, config)
		}
	}
	rows, err := plan.Curves(ctx, t, configs, func(done int) { progress(done, len(configs)) })
	if err != nil {
		return nil, err
	}
	r := c.newReport(t, rows, plain, blockBytes)
	if c.Nodes > 0 {
		lost, err := plan.Compare(ctx, t, c.Nodes, c.Lose)
		if err != nil {
			return nil, err
		}
		for _, l := range lost {
			r.Placements = append(r.Placements, planPlacement{l.Placement.String(), l.Nodes, l.Lose, l.Kept, l.NodesPerRequest, l.Balance})
		}
	}
	return r, nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/tiering/plan"
	"github.com/spillway-kv/spillway/tiering/trace"
	"github.com/spillway-kv/spillway/units"
)

type planCmd struct {
	jsonFlag
	Capacity  capacities `default:"1%,5%,10%,25%,50%" placeholder:"LIST" help:"Capacities, with commas: shares of the trace's unique blocks (5%), or sizes (2TiB)."`
	Policy    []string   `placeholder:"LIST" help:"Eviction policies, with commas: hazard, lru, s3fifo; to compare, fifo and belady, which knows the future. Default: all."`
	Admit     string     `default:"full" enum:"full,all,not-last" help:"Which blocks are stored: full (not a partial last one; as the daemon does), all, not-last (no request's last one)."`
	HeadFirst bool       `help:"Apply each request's blocks from the root on, which no store does."`
	Generate  bool       `help:"Plan with generated chats in place of a trace."`
	Requests  int        `placeholder:"N" help:"How many requests to generate, 12031 by default, or to read of a trace; 0 means all."`
	Seed      uint64     `default:"1" help:"Seed of the generated chats."`
	Quiet     bool       `short:"q" help:"Show no progress; --json shows none either."`
	Trace     string     `arg:"" optional:"" complete:"file" help:"Trace in the Mooncake format: JSON lines, plain or zstd."`
}

// Help is shown under the flags.
func (*planCmd) Help() string {
	return "Simulates stores of several sizes under several eviction policies, with the engine's own policy code. A hit is a block that is there when " +
		"its request begins; only a prefix hit, with all blocks before it there as well, saves work."
}

// capacities are the sizes to simulate.
type capacities []planSize

// planSize is a share of the unique blocks, or bytes.
type planSize struct {
	share float64
	bytes int64
	text  string
}

// UnmarshalText is called by the command line's parser.
func (c *capacities) UnmarshalText(text []byte) error {
	*c = nil
	for word := range strings.SplitSeq(string(text), ",") {
		size := planSize{text: strings.TrimSpace(word)}
		if number, is := strings.CutSuffix(size.text, "%"); is {
			share, err := strconv.ParseFloat(number, 64)
			if err != nil || !(share > 0 && share <= 100) {
				return fmt.Errorf("%q is no share between 0%% and 100%%", size.text)
			}
			size.share = share / 100
		} else {
			bytes, err := units.ParseBytes(size.text)
			if err != nil {
				return err
			}
			if bytes == 0 {
				return fmt.Errorf("%q: a capacity must be more than 0", size.text)
			}
			size.bytes = bytes
		}
		*c = append(*c, size)
	}
	return nil
}

// planRow is one simulation.
type planRow struct {
	Policy         string  `json:"policy"`           // eviction policy
	Capacity       string  `json:"capacity"`         // as it was asked for
	CapacityBlocks int     `json:"capacity_blocks"`  // the same in blocks
	References     int     `json:"references"`       // blocks named by all requests
	Hits           int     `json:"hits"`             // of them present
	PrefixHits     int     `json:"prefix_hits"`      // of them present with all blocks before them
	Writes         int     `json:"writes"`           // blocks stored
	HitRatio       float64 `json:"hit_ratio"`        // hits per reference
	PrefixHitRatio float64 `json:"prefix_hit_ratio"` // prefix hits per reference
	WritesPerRef   float64 `json:"writes_per_ref"`   // blocks stored per reference
	WritesPerHit   float64 `json:"writes_per_hit"`   // blocks stored per prefix hit
}

// planReport is the JSON of a plan.
type planReport struct {
	Type          string    `json:"type"`           // plan
	Trace         string    `json:"trace"`          // its file; empty: generated
	Requests      int       `json:"requests"`       // of the trace
	References    int       `json:"references"`     // blocks named by all requests
	Unique        int       `json:"unique_blocks"`  // different blocks
	SpanMS        int64     `json:"span_ms"`        // from the first request to the last
	Ceiling       float64   `json:"ceiling"`        // hits per reference of a store that keeps everything
	Admit         string    `json:"admit"`          // which blocks are stored
	DefaultPolicy string    `json:"default_policy"` // of a store that is told no other
	Rows          []planRow `json:"rows"`           // by policy, then capacity
}

func (*planCmd) reports() []any { return []any{planReport{}} }

func (c *planCmd) run(ctx context.Context, st *state) error {
	if err := c.check(); err != nil {
		return err
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
	configs := c.configs(t)
	rows, err := plan.Curves(ctx, t, configs, nil)
	shown.clear()
	if err != nil {
		return err
	}
	report := c.report(t, rows)
	if c.JSON {
		return printJSON(st.stdout, report)
	}
	return report.print(st.stdout)
}

func (c *planCmd) check() error {
	switch {
	case c.Generate && c.Trace != "":
		return usagef("give one of them", "both a trace and --generate")
	case !c.Generate && c.Trace == "":
		return usagef("give one of them", "neither a trace nor --generate")
	case c.Requests < 0:
		return usagef("give 0 for all", "--requests %d is negative", c.Requests)
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

func (c *planCmd) configs(t *plan.Trace) (all []plan.Config) {
	for _, policy := range c.Policy {
		for _, size := range c.Capacity {
			all = append(all, plan.Config{Policy: policy, Capacity: t.CapacityOf(size.share), Admission: admissions[c.Admit], HeadFirst: c.HeadFirst})
		}
	}
	return all
}

func (c *planCmd) report(t *plan.Trace, rows []*plan.Row) *planReport {
	r := &planReport{Type: "plan", Trace: c.Trace, Requests: t.Requests(), References: len(t.Blocks), Unique: t.Unique, SpanMS: t.SpanMS(),
		Ceiling: 1 - float64(t.Unique)/float64(len(t.Blocks)), Admit: c.Admit, DefaultPolicy: evict.Default}
	for i, row := range rows {
		r.Rows = append(r.Rows, planRow{Policy: row.Policy, Capacity: c.Capacity[i%len(c.Capacity)].text, CapacityBlocks: row.Capacity,
			References: row.References, Hits: row.Hits, PrefixHits: row.PrefixHits, Writes: row.Writes, HitRatio: row.HitRatio(),
			PrefixHitRatio: row.PrefixHitRatio(), WritesPerRef: row.WritesPerRef(), WritesPerHit: row.WritesPerHit()})
	}
	return r
}

func (r *planReport) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d requests in %v, %d block references, %d unique blocks: at most %.1f %% hits\n\n", r.Requests,
		(time.Duration(r.SpanMS) * time.Millisecond).Round(time.Second), r.References, r.Unique, 100*r.Ceiling)
	if err != nil {
		return err
	}
	rows := [][]string{{"policy", "capacity", "blocks", "prefix hits", "hits", "writes/100", "writes/hit"}}
	for _, row := range r.Rows {
		name := row.Policy
		if name == r.DefaultPolicy {
			name += " (default)"
		}
		rows = append(rows, []string{name, row.Capacity, strconv.Itoa(row.CapacityBlocks), percent(row.PrefixHitRatio), percent(row.HitRatio),
			fmt.Sprintf("%.1f", 100*row.WritesPerRef), fmt.Sprintf("%.2f", row.WritesPerHit)})
	}
	return table(w, rows)
}

func percent(ratio float64) string { return fmt.Sprintf("%.2f %%", 100*ratio) }

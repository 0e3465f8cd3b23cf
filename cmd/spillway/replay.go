package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/replay"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// depthMax bounds the goroutines of a replay.
const depthMax = 1024

type replayCmd struct {
	storeFlags
	createFlags
	jsonFlag
	BlockBytes byteSize      `default:"64KiB" placeholder:"SIZE" help:"Bytes of a block, 4KiB to 64MiB. Default 64KiB."`
	Requests   int           `placeholder:"N" help:"Stop after N requests; 0 means at the trace's end, or after 12031 generated ones."`
	For        time.Duration `placeholder:"TIME" help:"Stop after this time, such as 20s."`
	Speed      speed         `default:"max" help:"max: each request at once after the one before; N: in the trace's rhythm, N times as fast."`
	Policy     string        `default:"hazard" enum:"hazard,lru,s3fifo" placeholder:"NAME" help:"Which block goes when room is needed: hazard, lru or s3fifo."`
	Depth      int           `default:"16" help:"How many blocks are read at once."`
	Budget     tokenTime     `placeholder:"TIME" help:"Judge P99 of block reads against this time per token, such as 30ms."`
	Durable    bool          `help:"Put each block onto stable media before going on."`
	Generate   bool          `help:"Replay generated chats in place of a trace."`
	Seed       uint64        `default:"1" help:"Seed of the generated chats."`
	Quiet      bool          `short:"q" help:"Show no progress; --json shows none either."`
	Trace      string        `arg:"" optional:"" complete:"file" help:"Trace in the Mooncake format: JSON lines, plain or zstd."`
}

// Help is shown under the flags.
func (*replayCmd) Help() string {
	return "Each request's whole chain of blocks is looked up first; the blocks that are there are read and every byte " +
		"is compared with what its id says; then the chain is put, root first. Read latency runs from the call to the verified answer. " +
		"The store keeps its blocks, and a later replay hits them, of another trace or seed too: measure in a new directory. " +
		"At Ctrl-C the results so far are printed and the exit code is 1."
}

// speed is 0 for max.
type speed float64

// UnmarshalText is called by the command line's parser.
func (s *speed) UnmarshalText(text []byte) error {
	*s = 0
	if string(text) == "max" {
		return nil
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is neither max nor a number above 0", text)
	}
	*s = speed(n)
	return nil
}

// tokenTime is a budget; 0: none is given.
type tokenTime time.Duration

// UnmarshalText is called by the command line's parser.
func (b *tokenTime) UnmarshalText(text []byte) error {
	d, err := fio.ParseBudget(string(text))
	*b = tokenTime(d)
	return err
}

func (*replayCmd) reports() []any { return []any{replayReport{}} }

func (c *replayCmd) run(ctx context.Context, st *state) error {
	if err := c.check(); err != nil {
		return err
	}
	src, closeSrc, err := c.source()
	if err != nil {
		return err
	}
	defer closeSrc()
	o := c.options(st, c.JSON)
	o.MustExist = false
	o.CapacityBytes = int64(c.Capacity)
	o.QueueDepth = max(c.Depth, 32)
	if o.Policy, err = evict.Named(c.Policy); err != nil {
		return err
	}
	shown := newProgress(st, c.Requests, c.For)
	var result *replay.Result
	var replayErr error
	err = withStore(o, func(s *engine.Store) error {
		ns, err := s.Namespace(replay.Descriptor(int(c.BlockBytes)))
		if err != nil {
			return err
		}
		result, replayErr = replay.Run(ctx, s, ns, src, c.config(st, shown))
		shown.clear()
		return nil
	})
	if result == nil {
		return err
	}
	report := newReport(result, time.Duration(c.Budget))
	return gravest(replayErr, err, report.print(st.stdout, c.JSON), report.failure())
}

// checkTraceChoice wants either a trace or a generated one, and a number of requests.
func checkTraceChoice(trace string, generate bool, requests int) error {
	switch {
	case generate && trace != "":
		return usagef("give one of them", "both a trace and --generate")
	case !generate && trace == "":
		return usagef("give one of them", "neither a trace nor --generate")
	case requests < 0:
		return usagef("give 0 for all", "--requests %d is negative", requests)
	}
	return nil
}

func (c *replayCmd) check() error {
	if err := checkTraceChoice(c.Trace, c.Generate, c.Requests); err != nil {
		return err
	}
	switch {
	case c.For < 0:
		return usagef("leave it out for no limit", "--for %v is negative", c.For)
	case c.Depth < 1 || c.Depth > depthMax:
		return usagef("the default is 16", "--depth %d: it must lie between 1 and %d", c.Depth, depthMax)
	}
	if err := checkBlockBytes(int64(c.BlockBytes)); err != nil {
		return err
	}
	return c.createFlags.check(c.Dir)
}

func (c *replayCmd) config(st *state, shown *progress) replay.Config {
	config := replay.Config{
		Requests: c.Requests,
		For:      c.For,
		Speed:    float64(c.Speed),
		Depth:    c.Depth,
		Now:      st.now,
	}
	if c.Durable {
		config.Durability = engine.Durable
	}
	if !c.Quiet && !c.JSON {
		config.Progress = shown.after
	}
	return config
}

// source opens the trace and reads its first request, so that a wrong file is
// known before a store is made.
func (c *replayCmd) source() (trace.Source, func(), error) {
	if c.Generate {
		if c.Requests == 0 && c.For == 0 {
			c.Requests = trace.ConversationRequests
		}
		return trace.NewGenerator(trace.Config{Seed: c.Seed, Requests: c.Requests}), func() {}, nil
	}
	r, err := trace.Open(c.Trace)
	if err != nil {
		return nil, nil, err
	}
	first, err := r.Next()
	if err != nil {
		r.Close()
		if err == io.EOF {
			err = &failure{code: exitError, message: "trace " + c.Trace + " is empty", remedy: "give another one"}
		}
		return nil, nil, err
	}
	return &peeked{first: &first, rest: r}, func() { r.Close() }, nil
}

// peeked gives out a request that was read ahead, then the others.
type peeked struct {
	first *trace.Request
	rest  trace.Source
}

// Next is that of trace.Source.
func (p *peeked) Next() (trace.Request, error) {
	if p.first != nil {
		q := *p.first
		p.first = nil
		return q, nil
	}
	return p.rest.Next()
}

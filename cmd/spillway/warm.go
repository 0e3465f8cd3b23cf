package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/cmd/spillway/warm"
)

type warmCmd struct {
	jsonFlag
	Prompts    string        `placeholder:"FILE" complete:"file" help:"Prompts for the engine, as JSON lines; - is standard input."`
	Endpoint   string        `placeholder:"URL" help:"The engine's OpenAI interface, such as http://127.0.0.1:8000/v1."`
	Model      string        `placeholder:"NAME" help:"The model to ask for, where a line names none."`
	KeyFile    string        `placeholder:"FILE" complete:"file" help:"A file with the key that the engine wants."`
	MaxTokens  int           `default:"1" help:"Tokens of an answer: only the prompt matters."`
	AtOnce     int           `default:"4" help:"Requests, or blocks to copy, in flight."`
	Rate       float64       `placeholder:"N" help:"Requests, or blocks to copy, begun a second; without it as fast as they end."`
	Timeout    time.Duration `default:"10m" help:"Longest time of one request."`
	Attempts   int           `default:"5" help:"Attempts for a prompt while the engine is busy or away."`
	Keys       string        `placeholder:"FILE" complete:"file" help:"Blocks to count before and after, or to copy: what ns hot --json lists."`
	Descriptor string        `placeholder:"FILE" complete:"file" help:"The descriptor of the namespace to warm, as JSON; for --keys."`
	CopyFrom   string        `placeholder:"FILE" complete:"file" help:"The descriptor of a namespace from which the blocks of --keys are copied; only right where their bytes mean the same in both."`
	Socket     string        `placeholder:"PATH" help:"The daemon's socket ($SPILLWAY_SOCKET, else /run/spillway/spillway.sock); for --keys."`
	TokenFile  string        `placeholder:"FILE" complete:"file" help:"A file with the token that the socket, and the namespaces, want."`
}

// Help is shown under the flags.
func (*warmCmd) Help() string {
	return `A line of prompts is a JSON object with "prompt" (as OpenAI's completions) or "messages" (as chat completions); its other ` +
		"fields are sent too. The engine computes what it has not, and stores the blocks in its own namespace. " +
		"See docs/rollover.md. Exit code 1 if a prompt was not answered."
}

// warmReport is the JSON of a warming.
type warmReport struct {
	Type          string  `json:"type"`           // warm
	Prompts       int     `json:"prompts"`        // sent to the engine
	Answered      int     `json:"answered"`       // of those
	Retries       int     `json:"retries"`        // attempts after a first one
	PromptTokens  int64   `json:"prompt_tokens"`  // as the engine counts them
	CachedTokens  int64   `json:"cached_tokens"`  // of those, that it did not compute, where it says so
	Keys          int     `json:"keys"`           // blocks asked for
	PresentBefore int     `json:"present_before"` // of those, in the namespace before
	PresentAfter  int     `json:"present_after"`  // and after
	Copied        int     `json:"copied"`         // blocks stored by copying
	Missing       int     `json:"missing"`        // blocks to copy that the old namespace did not have
	Dropped       int     `json:"dropped"`        // blocks to copy that were not taken
	Seconds       float64 `json:"seconds"`        // it took
}

func (*warmCmd) reports() []any { return []any{warmReport{}} }

// check finds what contradicts itself in the flags.
func (c *warmCmd) check() error {
	switch {
	case (c.Prompts == "") == (c.CopyFrom == ""):
		return usagef("give --prompts with --endpoint, or --copy-from with --keys", "one of --prompts and --copy-from is needed")
	case c.Prompts != "" && c.Endpoint == "":
		return usagef("give --endpoint URL", "--prompts needs an engine to send them to")
	case c.CopyFrom != "" && c.Keys == "":
		return usagef("give --keys FILE", "--copy-from needs the blocks to copy")
	case (c.Keys == "") != (c.Descriptor == ""):
		return usagef("give both or none", "--keys and --descriptor belong together")
	case c.AtOnce < 1 || c.AtOnce > 1024 || c.Attempts < 1 || c.Attempts > 100 || c.MaxTokens < 1 || c.Timeout <= 0:
		return usagef("give --at-once 1 to 1024, --attempts 1 to 100, and more than 0 of the others", "--at-once %d, --attempts %d, --max-tokens %d, --timeout %v",
			c.AtOnce, c.Attempts, c.MaxTokens, c.Timeout)
	case !(c.Rate >= 0 && c.Rate <= 1e6):
		return usagef("give 0 to 1000000", "--rate %v", c.Rate)
	}
	return nil
}

func (c *warmCmd) run(ctx context.Context, st *state) error {
	if err := c.check(); err != nil {
		return err
	}
	report := warmReport{Type: "warm"}
	began := st.now()
	pool, err := c.mount(ctx)
	if err != nil {
		return err
	}
	defer pool.close()
	report.Keys, report.PresentBefore = len(pool.blocks), pool.present()
	var failed error
	if c.CopyFrom != "" {
		err = c.copy(ctx, pool, &report)
	} else {
		failed, err = c.send(ctx, st, &report)
	}
	if err != nil {
		return err
	}
	report.PresentAfter, report.Seconds = pool.present(), st.now().Sub(began).Seconds()
	if err := c.print(st.stdout, &report); err != nil {
		return err
	}
	if failed != nil {
		return &failure{code: exitError, message: fmt.Sprintf("%d of %d prompts were not answered; the first: %v", report.Prompts-report.Answered, report.Prompts, failed),
			remedy: "run it again: what is there already costs the engine little", cause: failed}
	}
	return nil
}

func (c *warmCmd) print(w io.Writer, r *warmReport) error {
	if c.JSON {
		return printJSON(w, r)
	}
	var rows [][]string
	if c.Prompts != "" {
		rows = append(rows, []string{"prompts", fmt.Sprintf("%d of %d answered, %d retries", r.Answered, r.Prompts, r.Retries)},
			[]string{"tokens", fmt.Sprintf("%d, %d of them cached", r.PromptTokens, r.CachedTokens)})
	} else {
		rows = append(rows, []string{"copied", fmt.Sprintf("%d; %d were not there, %d were not taken", r.Copied, r.Missing, r.Dropped)})
	}
	if r.Keys > 0 {
		rows = append(rows, []string{"present", fmt.Sprintf("%d of %d blocks before, %d after", r.PresentBefore, r.Keys, r.PresentAfter)})
	}
	return table(w, append(rows, []string{"time", fmt.Sprintf("%.1f s", r.Seconds)}))
}

// send has the engine compute the prompts. failed is why a prompt was not answered.
func (c *warmCmd) send(ctx context.Context, st *state, r *warmReport) (failed, err error) {
	o := warm.Options{Model: c.Model, MaxTokens: c.MaxTokens, AtOnce: c.AtOnce, PerSecond: c.Rate, Timeout: c.Timeout, Attempts: c.Attempts, Pause: time.Second}
	if o.Endpoint, err = url.Parse(c.Endpoint); err != nil || o.Endpoint.Host == "" {
		return nil, usagef("write it like http://127.0.0.1:8000/v1", "--endpoint %q is no URL", c.Endpoint)
	}
	if o.Key, err = config.ReadToken(c.KeyFile); err != nil {
		return nil, err
	}
	in := st.stdin
	if c.Prompts != "-" {
		f, err := os.Open(c.Prompts)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	meter := newMeter(st)
	o.Progress = func(s warm.Sent) {
		meter.show(func(time.Time) string { return fmt.Sprintf("%d prompts, %d answered", s.Prompts, s.Answered) })
	}
	sent, err := warm.Prompts(ctx, o, warm.Read(in))
	if err != nil {
		return nil, fmt.Errorf("after %d prompts: %w", sent.Prompts, err)
	}
	r.Prompts, r.Answered, r.Retries, r.PromptTokens, r.CachedTokens = sent.Prompts, sent.Answered, sent.Retries, sent.PromptTokens, sent.CachedTokens
	return sent.FirstError, nil
}

func (c *warmCmd) copy(ctx context.Context, pool *warmPool, r *warmReport) error {
	from, err := pool.open(ctx, c.CopyFrom)
	if err != nil {
		return err
	}
	done, err := warm.Copy(ctx, pool.client, from, pool.to, pool.blocks, c.AtOnce, c.Rate)
	r.Copied, r.Missing, r.Dropped = done.Stored, done.Missing, done.Dropped
	return err
}

// warmPool is the daemon, the namespace and the blocks that --keys is about; without it
// there is nothing.
type warmPool struct {
	client *client.Client
	token  string
	to     *client.Namespace
	blocks []warm.Block
}

func (c *warmCmd) mount(ctx context.Context) (p *warmPool, err error) {
	p = &warmPool{}
	if c.Keys == "" {
		return p, nil
	}
	if p.blocks, err = readHot(c.Keys); err != nil {
		return nil, err
	}
	if p.token, err = config.ReadToken(c.TokenFile); err != nil {
		return nil, err
	}
	o := client.Options{Name: "spillway warm", Token: p.token}
	override(&o.Path, c.Socket)
	wait, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if p.client, err = client.Dial(wait, o); err != nil {
		return nil, &failure{code: exitError, message: err.Error(), remedy: "is the daemon running? --socket names another one", cause: err}
	}
	if p.to, err = p.open(wait, c.Descriptor); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *warmPool) close() {
	if p.client != nil {
		p.client.Close()
	}
}

// present counts the blocks in the namespace.
func (p *warmPool) present() int {
	if p.to == nil {
		return 0
	}
	return warm.Present(p.to, p.blocks)
}

// open opens the namespace of a descriptor in a file.
func (p *warmPool) open(ctx context.Context, file string) (*client.Namespace, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, &failure{code: exitError, message: file + " is no JSON", remedy: "spillway ns descriptor prints a descriptor"}
	}
	ns, err := p.client.Namespace(ctx, json.RawMessage(text), p.token)
	if err != nil {
		return nil, fmt.Errorf("the namespace of %s: %w", file, err)
	}
	return ns, nil
}

// readHot reads what ns hot --json wrote.
func readHot(file string) (blocks []warm.Block, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := json.NewDecoder(bufio.NewReader(f))
	for {
		var b admin.HotBlock
		err := lines.Decode(&b)
		if errors.Is(err, io.EOF) {
			return blocks, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: block %d: %w", file, len(blocks)+1, err)
		}
		key, err := readKey(b.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: block %d: %w", file, len(blocks)+1, err)
		}
		blocks = append(blocks, warm.Block{Key: key, Group: b.Group, Depth: b.Depth, Importance: b.Importance})
	}
}

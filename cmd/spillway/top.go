package main

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

type topCmd struct {
	jsonFlag
	Once      bool          `help:"Show the state once, with counts since the daemon's start."`
	Interval  time.Duration `default:"2s" placeholder:"TIME" help:"How often the state is shown."`
	Socket    string        `placeholder:"PATH" help:"The daemon's socket ($SPILLWAY_SOCKET, else /run/spillway/spillway.sock)."`
	TokenFile string        `placeholder:"FILE" complete:"file" help:"A file with the token that the socket wants."`
	Admin     string        `placeholder:"ADDRESS" help:"Ask the admin interface there instead; only it knows the budget."`
}

// Help is shown under the flags.
func (*topCmd) Help() string {
	return "Shows stores, namespaces and clients of a daemon that runs, with rates since the last time. " +
		"Over the socket it is a client itself, and shows up as one."
}

func (*topCmd) reports() []any { return []any{admin.State{}} }

func (c *topCmd) run(ctx context.Context, st *state) error {
	if c.Interval < 100*time.Millisecond {
		return usagef("give at least 100ms", "--interval %v is too short", c.Interval)
	}
	ask, done, err := c.source(ctx)
	if err != nil {
		return err
	}
	defer done()
	var before *admin.State
	for {
		now, err := ask(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			err = c.show(st, before, now)
		}
		if err != nil || c.Once || ctx.Err() != nil {
			return nilIfOver(ctx, err)
		}
		before = now
		select {
		case <-time.After(c.Interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// nilIfOver drops the error of what the user has ended.
func nilIfOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *topCmd) show(st *state, before, now *admin.State) error {
	if c.JSON {
		return printJSON(st.stdout, now)
	}
	if st.stdoutTTY && !c.Once {
		if _, err := io.WriteString(st.stdout, "\x1b[H\x1b[2J"); err != nil { // top left, clear
			return err
		}
	}
	return printTop(st.stdout, before, now)
}

// asking gets one state.
type asking func(context.Context) (*admin.State, error)

// source connects to the daemon, one way or the other.
func (c *topCmd) source(ctx context.Context) (ask asking, done func(), err error) {
	if c.Admin != "" {
		return c.overHTTP(), func() {}, nil
	}
	o := client.Options{Name: "spillway top"}
	override(&o.Path, c.Socket)
	if o.Token, err = config.ReadToken(c.TokenFile); err != nil {
		return nil, nil, err
	}
	wait, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	mount, err := client.Dial(wait, o)
	if err != nil {
		return nil, nil, &failure{code: exitError, message: err.Error(), remedy: "is the daemon running? --socket names another one", cause: err}
	}
	return func(ctx context.Context) (*admin.State, error) {
		text, err := mount.Stats(ctx)
		if err != nil {
			return nil, err
		}
		s := &admin.State{Type: "stat", Ready: true} // it answers
		return s, json.Unmarshal(text, s)
	}, mount.Close, nil
}

// askTime bounds one question.
const askTime = 5 * time.Second

// stateBytesMax bounds an answer.
const stateBytesMax = 64 << 20

func (c *topCmd) overHTTP() asking {
	return func(ctx context.Context) (*admin.State, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		s := &admin.State{}
		return s, askAdmin(ctx, c.Admin, "/v1/stat", nil, s)
	}
}

// askAdmin gets what the admin interface at an address has at a path.
func askAdmin(ctx context.Context, address, path string, query url.Values, into any) error {
	return (&operator{address: address}).ask(ctx, path, query, nil, into)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/alecthomas/kong"
)

//go:generate go test -run ^(TestHelp|TestReference|TestConfigurationPage)$ -update .

// cli is the command line. After a change: go generate.
type cli struct {
	Serve      serveCmd      `cmd:"" help:"Serve stores to the clients of this machine over a Unix socket."`
	Top        topCmd        `cmd:"" help:"Show what a running daemon does, again and again."`
	Config     configCmd     `cmd:"" help:"Check or show the daemon's configuration."`
	Pool       poolCmd       `cmd:"" help:"See and change the pool that a daemon is a node of."`
	Fio        fioCmd        `cmd:"" help:"Measure media, a store or a daemon with fio's jobs, and judge P99 of block reads against the time of a token."`
	Replay     replayCmd     `cmd:"" help:"Replay a request trace against a store: compare every byte read, report hits, speed and a verdict."`
	Budget     budgetCmd     `cmd:"" help:"Say what a token costs on a GPU, where that comes from, and what it asks of a drive."`
	Plan       planCmd       `cmd:"" help:"Simulate hits and writes of a trace by capacity and eviction policy, before drives are bought."`
	Put        putCmd        `cmd:"" help:"Store one block."`
	Get        getCmd        `cmd:"" help:"Read one block."`
	Ls         lsCmd         `cmd:"" help:"List the blocks of a namespace."`
	Stat       statCmd       `cmd:"" help:"Show a store's state."`
	Ns         nsCmd         `cmd:"" help:"List, limit or drop namespaces."`
	Warm       warmCmd       `cmd:"" help:"Fill a namespace ahead of need: by prompts through an engine, or by copying blocks."`
	Scrub      scrubCmd      `cmd:"" help:"Read and prove every block of a store; bad ones become misses."`
	Check      checkCmd      `cmd:"" help:"Check every byte of a store that is not open, and rebuild its index."`
	Inspect    inspectCmd    `cmd:"" help:"Decode the files of a store, in use or not; never writes."`
	Doctor     doctorCmd     `cmd:"" help:"Say what is wrong with a directory and its machine, and what mends it."`
	GPU        gpuCmd        `cmd:"" name:"gpu" help:"List GPUs, their NUMA nodes, links and drivers, and what is missing to use them."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Version    versionCmd    `cmd:"" help:"Show the version and what is compiled in."`
}

const description = "Spillway keeps KV-cache blocks on local NVMe."

// command is implemented by every leaf of cli. The error is a *failure or is
// explained by explain.
type command interface {
	run(ctx context.Context, st *state) error
}

// reporter is implemented by the commands that take --json: reports are the
// types of what they print, for the reference.
type reporter interface {
	reports() []any
}

// run parses the command line, runs its command and prints its error, if any.
func run(st *state) exitCode {
	err := parseAndRun(st)
	if err == nil {
		return exitPass
	}
	f := explain(err)
	f.print(st.stderr, slices.Contains(st.args, "--json"))
	return f.code
}

func parseAndRun(st *state) error {
	helpShown := false
	parser := newParser(st, func(int) { helpShown = true })
	args, asked, err := takeFio(parser.Model, st.args)
	if err != nil {
		return st.badFio(err)
	}
	parsed, err := parser.Parse(args)
	if helpShown {
		return nil
	}
	if err != nil {
		err = usageError(parsed, err)
		if asked != nil {
			return st.badFio(err)
		}
		return err
	}
	cmd, ok := parsed.Selected().Target.Addr().Interface().(command)
	if !ok {
		panic("command without run: " + parsed.Command())
	}
	if f, isFio := cmd.(*fioCmd); isFio {
		f.asked = asked
	}
	ctx, stop := st.interrupt(context.Background())
	defer stop()
	return cmd.run(ctx, st)
}

// newParser makes the parser of a fresh command line; exit is called when a
// help text has been printed.
func newParser(st *state, exit func(int)) *kong.Kong {
	parser, err := kong.New(&cli{},
		kong.Name("spillway"),
		kong.Description(description),
		kong.Writers(st.stdout, st.stderr),
		kong.Exit(exit),
		kong.Help(func(options kong.HelpOptions, ctx *kong.Context) error {
			if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
				return err
			}
			return printFooter(ctx)
		}),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}),
	)
	if err != nil {
		panic(err) // the grammar itself is wrong; every test would show it
	}
	return parser
}

// printFooter ends every help text.
func printFooter(ctx *kong.Context) error {
	if cmd := ctx.Selected(); cmd != nil {
		if _, isFio := cmd.Target.Addr().Interface().(*fioCmd); isFio {
			if err := printFioOptions(ctx.Stdout); err != nil {
				return err
			}
		}
	}
	if cmd := ctx.Selected(); cmd != nil && slices.ContainsFunc(valuesOf(cmd), isSize) {
		if _, err := fmt.Fprintf(ctx.Stdout, "\n%s\n", sizeRule); err != nil {
			return err
		}
	}
	return printExitCodes(ctx.Stdout)
}

func valuesOf(cmd *kong.Node) []*kong.Value {
	values := slices.Clone(cmd.Positional)
	for _, flag := range cmd.Flags {
		values = append(values, flag.Value)
	}
	return values
}

func isSize(v *kong.Value) bool {
	switch v.Target.Interface().(type) {
	case byteSize, []byteSize, quotaSize:
		return true
	}
	return false
}

// missingValue is how the parser says that the command line ended where a value had to be.
var missingValue = regexp.MustCompile(`expected .* value but got "EOL" \(<EOL>\)`)

// usageError says which command's help to read.
func usageError(parsed *kong.Context, err error) error {
	path := "spillway"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		parsed = wrong.Context
	}
	if parsed != nil && parsed.Selected() != nil {
		path = parsed.Selected().FullPath()
	}
	return &failure{code: exitUsage, message: missingValue.ReplaceAllString(err.Error(), "needs a value"), remedy: "see " + path + " --help", cause: err}
}

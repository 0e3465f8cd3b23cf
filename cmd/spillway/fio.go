package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/spillway-kv/spillway/fio/budget"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/units"
)

// fioCmd has the flags that fio does not have. Those of fio, and the jobs, are read
// by package fio/job: see takeFio.
type fioCmd struct {
	budget.Ask
	JSON              bool     `name:"json" help:"The same as --output-format=json; errors go to stderr as JSON."`
	Sweep             string   `placeholder:"iodepth=LIST" help:"Run the last job at one queue depth after the other, such as iodepth=1,2,4,8, and find the knee."`
	CompareTransports int      `placeholder:"ROUNDS" help:"Run the jobs, which only read through daemons of a pool, with blocks of other nodes coming by RDMA and by TCP in turns, so many rounds (15 are good), and compare."`
	CompareDaemon     []string `placeholder:"PATH|ADDRESS" help:"With --compare-transports: socket, or admin address, of another node's daemon, whose processor time counts, too."`
	Precondition      bool     `help:"Before the jobs bring the files of raw to steady state: write them over twice, then at random until the rate is level."`
	AllowForeign      bool     `help:"Allow a block device, a file or a store that no benchmark made. What is there may be destroyed."`
	Report            string   `placeholder:"FILE" complete:"file" help:"Write a page with charts and the machine's facts: one HTML file that needs nothing else."`
	Quiet             bool     `help:"Show no progress."`
	Jobs              []string `arg:"" optional:"" name:"jobfile|--name=NAME|--option=value" complete:"file" help:"Job files, jobs and options, as in fio."`

	asked *job.Run
}

// Help is shown under the flags.
func (*fioCmd) Help() string {
	return "Reads fio's job files and fio's command line, drives files or block devices (raw), a store, a running daemon (pool) or nothing (null), " +
		"and prints fio's reports. Options before the first --name hold for all jobs; each --name begins a job. " +
		"With a budget it judges P99 of block reads, from submission (in an open loop: from the intended start) to the verified answer. " +
		"At Ctrl-C the results so far are printed and the exit code is 1. --cmdhelp=OPTION explains an option of fio, and docs/fio.md all of them."
}

// takeFio reads the command line of spillway fio, of which the flags of fioCmd are
// left for the command line's parser: it does not know options that begin jobs. Other
// commands are left as they are.
func takeFio(app *kong.Application, args []string) (rest []string, asked *job.Run, err error) {
	if len(args) == 0 || args[0] != "fio" {
		return args, nil, nil
	}
	var own []job.Flag
	for _, n := range app.Children {
		if n.Name != "fio" {
			continue
		}
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				own = append(own, job.Flag{Name: f.Name, Value: !f.IsBool()})
			}
		}
	}
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "--help" || arg == "-h" }) {
		return []string{"fio", "--help"}, nil, nil
	}
	asked, err = job.Parse(args[1:], own)
	if err != nil {
		return []string{"fio"}, nil, err
	}
	return append([]string{"fio"}, asked.Own...), asked, nil
}

// run is called with what takeFio has read.
func (c *fioCmd) run(ctx context.Context, st *state) error {
	o := c.asked.Options
	switch {
	case o.ParseOnly:
		for _, note := range c.asked.Notes {
			fmt.Fprintln(st.stderr, note)
		}
		_, err := fmt.Fprintf(st.stderr, "%s, no mistake found\n", units.Count(int64(len(c.asked.Jobs)), "job"))
		return err
	case o.CommandHelp != "":
		if err := job.Explain(st.stdout, o.CommandHelp); err != nil {
			return usagef("see --cmdhelp=all, or docs/fio.md", "--cmdhelp: %v", err)
		}
		return nil
	case o.ShowCommand:
		_, err := fmt.Fprintln(st.stdout, c.asked.CommandLine())
		return err
	}
	formats := formatsOf(o.Formats)
	if c.JSON {
		formats = result.Formats{JSON: true, Plus: formats.Plus}
	}
	w, closeOutput, err := c.output(st)
	if err != nil {
		return err
	}
	f := &fioRun{c: c, st: st, formats: formats}
	code, err := f.conduct(ctx, w)
	if closeErr := closeOutput(); err == nil && closeErr != nil {
		return closeErr
	}
	return f.failure(exitCode(code), err)
}

// output is where the result goes.
func (c *fioCmd) output(st *state) (w io.Writer, closeOutput func() error, err error) {
	if c.asked.Options.Output == "" {
		return st.stdout, func() error { return nil }, nil
	}
	file, err := os.Create(c.asked.Options.Output)
	if err != nil {
		return nil, nil, err
	}
	return file, file.Close, nil
}

func formatsOf(list []job.Format) (f result.Formats) {
	for _, format := range list {
		switch format {
		case job.FormatNormal:
			f.Normal = true
		case job.FormatJSON:
			f.JSON = true
		case job.FormatJSONPlus:
			f.Plus = true
		}
	}
	return f
}

// printFioOptions lists what may stand in job files and on the command line.
func printFioOptions(w io.Writer) error {
	if _, err := fmt.Fprint(w, "\nOptions of fio, of jobs and of the run; in job files without the dashes:\n\n"); err != nil {
		return err
	}
	return job.WriteHelp(w)
}

// badFio tells what is wrong with the command line of fio; where that asks for JSON,
// in a document on standard output too.
func (st *state) badFio(err error) error {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{code: exitUsage, message: err.Error(), remedy: "see spillway fio --help", cause: err}
	}
	if !jsonAsked(st.args) {
		return f
	}
	r := result.NewRun(result.Config{Version: fioVersion(st), ExitCode: func(error) int { return int(f.code) }}, st.now())
	_, _ = r.Conduct(st.stdout, result.Formats{JSON: true}, func() error { return f }) // f itself is what to tell
	return f
}

// fioVersion is what stands where fio has its own version.
func fioVersion(st *state) string { return "spillway-" + versionOf(st).Version }

// jsonAsked says whether the arguments, which could not be read, ask for JSON.
func jsonAsked(args []string) bool {
	for i, arg := range args {
		value, isFormat := strings.CutPrefix(arg, "--output-format")
		if isFormat && value == "" && i+1 < len(args) {
			value = args[i+1]
		}
		if arg == "--json" || isFormat && strings.Contains(value, "json") {
			return true
		}
	}
	return false
}

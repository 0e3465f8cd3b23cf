package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/units"
)

type checkCmd struct {
	Path          string        `arg:"" optional:"" name:"dir" complete:"dir" help:"The store's directory; or give it with --dir."`
	Dir           string        `placeholder:"DIR" complete:"dir" help:"The store's directory."`
	Rebuild       bool          `help:"Make a new index from what segments, log and the old index say; the old one is kept aside."`
	NoData        bool          `name:"no-data" help:"Leave the blocks themselves unread."`
	Quiet         bool          `short:"q" help:"Show faults only: no progress, no summary."`
	BufferedIO    bool          `name:"buffered-io" help:"Allow buffered I/O where the file system has no direct I/O."`
	AnyFilesystem bool          `name:"any-filesystem" help:"Allow file systems other than ext4 and XFS."`
	LockWait      time.Duration `default:"5s" help:"How long to retry a directory in use."`
	jsonFlag
}

// Help is shown by --help.
func (*checkCmd) Help() string {
	return "Reads every file of a store that nobody has open, and every block, and lists every fault. " +
		"Without --rebuild nothing is written. What a kill or a power cut leaves behind in a healthy store is no fault. " +
		"The exit code is 5 if any damage was found, also if it was mended."
}

// checkReport is the JSON of a check.
type checkReport struct {
	Type string `json:"type"` // check
	Dir  string `json:"dir"`  // the store's directory
	engine.CheckReport
	SecondsPerGiB float64        `json:"seconds_per_gib"` // of a rebuild; 0 without one
	Faults        []engine.Fault `json:"faults"`          // every one, in the order they were found
}

func (*checkCmd) reports() []any { return []any{checkReport{}} }

func (c *checkCmd) run(ctx context.Context, st *state) error {
	dir := c.Path
	switch {
	case c.Path != "" && c.Dir != "":
		return usagef("give one of them", "the directory is given twice: %q and --dir %q", c.Path, c.Dir)
	case c.Path == "" && c.Dir == "":
		return usagef("give the store's directory", "no directory to check")
	case c.Path == "":
		dir = c.Dir
	}
	faults := []engine.Fault{}
	meter := newMeter(st)
	var writeErr error
	began := st.now()
	report, err := engine.Check(ctx, engine.CheckOptions{
		Dir: dir, BufferedIO: c.BufferedIO, AnyFileSystem: c.AnyFilesystem, LockWait: max(c.LockWait, time.Nanosecond),
		NoData: c.NoData, Rebuild: c.Rebuild, Logger: warnings(st.stderr, c.JSON),
		OnFault: func(f engine.Fault) {
			if c.JSON {
				faults = append(faults, f)
				return
			}
			meter.clear()
			writeErr = errors.Join(writeErr, printFault(st.stdout, f))
		},
		Progress: func(p engine.CheckProgress) {
			if !c.Quiet && !c.JSON {
				meter.show(func(now time.Time) string { return checkLine(p, now.Sub(began)) })
			}
		},
	})
	meter.clear()
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && report.StoreID == "" && len(faults) == 0 {
		return gravest(err, c.damaged(report)) // it did not begin
	}
	out := checkReport{"check", dir, report, 0, faults}
	if report.Rebuilt != nil {
		out.SecondsPerGiB = report.Rebuilt.SecondsPerGiB()
	}
	writeErr = errors.Join(writeErr, c.print(st.stdout, &out))
	if interrupted {
		err = &failure{code: exitError, message: "interrupted; what is listed is what was found so far", cause: err}
	}
	return gravest(writeErr, err, c.damaged(report))
}

// damaged is the failure of a store with damage, nil without.
func (c *checkCmd) damaged(r engine.CheckReport) error {
	if r.Damage == 0 {
		return nil
	}
	remedy := "docs/operations.md says what to do about each"
	if r.Rebuilt != nil {
		remedy = "the index is new; what else was found is as it was"
	}
	return &failure{code: exitDamage, message: fmt.Sprintf("damage was found: %d", r.Damage), remedy: remedy}
}

func printFault(w io.Writer, f engine.Fault) error {
	where := f.File
	if f.Slot != nil {
		where += fmt.Sprintf(", slot %d", *f.Slot)
	}
	if f.Offset >= 0 {
		where += fmt.Sprintf(", offset %d", f.Offset)
	}
	_, err := fmt.Fprintf(w, "%s: %s: %s: %s\n", f.Severity, where, f.What, f.Means)
	return err
}

func (c *checkCmd) print(w io.Writer, r *checkReport) error {
	if c.JSON {
		return printJSON(w, r)
	}
	if c.Quiet {
		return nil
	}
	n := func(v any) string { return fmt.Sprint(v) }
	state := "closed"
	if !r.Clean {
		state = "not known to have been closed"
	}
	read := units.Bytes(r.Bytes)
	if r.Rebuilt == nil {
		read = fmt.Sprintf("%d, %s", r.Read, read)
	}
	rows := [][]string{
		{"store", r.StoreID}, {"last run", state}, {"segments", n(r.Segments)}, {"log files", n(r.LogFiles)},
		{"blocks", n(r.Blocks)}, {"read", read}, {"lost to a power cut", n(r.Lost)},
	}
	if b := r.Rebuilt; b != nil {
		rows = append(rows, []string{"restored", fmt.Sprintf("%d, %d of them without their key", b.Restored, b.Unnamed)},
			[]string{"not restored", fmt.Sprintf("%d slots failed, %d names given up for deletions", b.Lost, b.GivenUp)},
			[]string{"rebuild", fmt.Sprintf("%v, %.2f s per GiB", b.Elapsed.Round(time.Millisecond), r.SecondsPerGiB)})
		if b.OldIndex != "" {
			rows = append(rows, []string{"old index", b.OldIndex})
		}
	}
	rows = append(rows, []string{"faults", fmt.Sprintf("%d damage, %d notices", r.Damage, r.Notices)},
		[]string{"elapsed", r.Elapsed.Round(time.Millisecond).String()})
	return table(w, rows)
}

func checkLine(p engine.CheckProgress, elapsed time.Duration) string {
	line := fmt.Sprintf("%s of %s, %s/s", units.Bytes(p.DoneBytes), units.Bytes(p.TotalBytes), units.Bytes(int64(float64(p.DoneBytes)/elapsed.Seconds())))
	if p.Left > 0 {
		line += fmt.Sprintf(", %v left", p.Left.Round(time.Second))
	}
	return line
}

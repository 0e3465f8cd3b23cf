package result

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// Formats are the forms in which a result is written.
type Formats struct {
	Normal bool // fio's normal text
	JSON   bool // without bins
	Plus   bool // JSON+: with bins
}

// ParseFormats reads an output-format such as normal or normal,json+.
func ParseFormats(text string) (Formats, error) {
	var f Formats
	for part := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(part) {
		case "normal":
			f.Normal = true
		case "json":
			f.JSON = true
		case "json+":
			f.Plus = true
		default:
			return Formats{}, fmt.Errorf("output format %q: want normal, json or json+, or several with commas between", part)
		}
	}
	return f, nil
}

// Exit codes, as the command's help lists them.
const (
	exitPass        = 0
	exitError       = 1
	exitOverBudget  = 3
	exitCannotJudge = 4
	exitDamage      = 5
)

// Panic is a panic that was caught, as an error.
type Panic struct {
	Value any
	Stack string // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("a fault in the program: %v", p.Value) }

// Guard calls f and turns a panic in it into an error. Every goroutine of a run
// goes through it, since a panic that reaches the top of a goroutine ends the
// process before anything is written.
func Guard(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{value, string(debug.Stack())}
		}
	}()
	return f()
}

// Conduct calls body, which is the run, and then writes the result to w, in one
// piece and exactly once, however body ended: well, with an error (the document
// says which), interrupted, or in a panic. So nothing else may write to w, but
// Tick. It returns the exit code of the process, which the document carries too,
// and what body returned.
func (r *Run) Conduct(w io.Writer, formats Formats, body func() error) (code int, err error) {
	err = Guard(body)
	d := r.conclude(err)
	if r.config.Page != nil {
		if pageErr := Guard(r.config.Page); pageErr != nil && err == nil {
			err = pageErr
			d = r.conclude(err)
		}
	}
	if writeErr := d.Write(w, formats); writeErr != nil && err == nil {
		return exitError, fmt.Errorf("the result could not be written: %w", writeErr)
	}
	return d.Spillway.ExitCode, err
}

// conclude is the last document, with exit code and error.
func (r *Run) conclude(err error) (d *Document) {
	fault := Guard(func() error {
		d = r.Document(r.NowNS())
		return nil
	})
	if fault != nil { // the statistics themselves are at fault: say at least that
		d = &Document{FioVersion: r.config.Version, Jobs: []Job{}, Spillway: &Spillway{Version: r.config.Version}}
		if err == nil {
			err = fault
		}
	}
	d.Spillway.ExitCode = d.exitCode()
	if err != nil {
		d.Spillway.Error = err.Error()
		d.Spillway.ExitCode = exitError
		if r.config.ExitCode != nil {
			d.Spillway.ExitCode = r.config.ExitCode(err)
		}
	}
	r.Amend(func(s *Spillway) { s.Error, s.ExitCode = d.Spillway.Error, d.Spillway.ExitCode }) // for documents made later
	return d
}

// exitCode follows from the jobs and the verdict: error before damage before the
// budget. An I/O that failed is an error even where the job goes on after it.
func (d *Document) exitCode() int {
	code := exitPass
	if verdict, _ := d.Spillway.Worst(); verdict != "" {
		code = verdictCodes[verdict]
	}
	for _, j := range d.Jobs {
		if j.damaged() > 0 {
			code = exitDamage
		}
	}
	for _, j := range d.Jobs {
		// An error that is nothing but the damage it found is damage.
		if j.Error != 0 && j.damaged() == 0 || j.failed() > 0 {
			return exitError
		}
	}
	return code
}

var verdictCodes = map[string]int{"pass": exitPass, "over budget": exitOverBudget, "cannot judge": exitCannotJudge, NotJudged: exitPass}

func (j *Job) damaged() int64 {
	return j.count(func(s *SpillwayStats) int64 { return s.Damaged })
}

func (j *Job) failed() int64 { return j.count(func(s *SpillwayStats) int64 { return s.Failed }) }

func (j *Job) count(of func(*SpillwayStats) int64) (sum int64) {
	if j.Spillway == nil {
		return 0
	}
	for _, s := range []*SpillwayStats{j.Spillway.Read, j.Spillway.Write} {
		if s != nil {
			sum += of(s)
		}
	}
	return sum
}

// Write writes the document in the forms wanted, JSON first, as fio does.
func (d *Document) Write(w io.Writer, formats Formats) error {
	if formats.JSON || formats.Plus {
		if err := d.WriteJSON(w, formats.Plus); err != nil {
			return err
		}
	}
	if formats.Normal {
		return d.WriteText(w)
	}
	return nil
}

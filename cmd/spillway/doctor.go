package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/cmd/spillway/doctor"
)

type doctorCmd struct {
	jsonFlag
	Capacity byteSize `placeholder:"SIZE" help:"The capacity you plan: says whether it fits."`
	Config   string   `placeholder:"FILE" complete:"file" help:"The daemon's configuration: its stores are looked at where no DIR is given; judges RDMA, too, where its pool is to use it."`
	Dir      string   `arg:"" optional:"" complete:"dir" help:"The directory of a store, or of one to come; needed without --config."`
}

// Help is shown under the flags.
func (*doctorCmd) Help() string {
	return "Each line is ok, warn or bad: what was found, what it means for a store, and the command that mends it. " +
		"Direct I/O and what else files need is tried out in the directory; nothing is left there, no store is made, no lock is taken, " +
		"and a store in use goes on undisturbed. What there is of RDMA is shown as found; with --config it is judged by what pool.transport wants. Without DIR every store of the configuration is looked at, with its capacity; with --json that is an object a line for each. The exit code is 1 if anything is bad."
}

// doctorReport is the JSON of a doctor's visit.
type doctorReport struct {
	Type   string         `json:"type"`   // doctor
	Dir    string         `json:"dir"`    // that was looked at
	Bad    int            `json:"bad"`    // checks that are bad
	Warn   int            `json:"warn"`   // checks that are a warning
	Checks []doctor.Check `json:"checks"` // in the order in which one would look
}

func (*doctorCmd) reports() []any { return []any{doctorReport{}} }

func (c *doctorCmd) run(_ context.Context, st *state) error {
	visits, err := c.visits()
	if err != nil {
		return err
	}
	bad, warn := 0, 0
	for i, v := range visits {
		facts := st.machine.Gather(v.dir)
		r := doctorReport{Type: "doctor", Dir: facts.Dir, Checks: doctor.Examine(&facts, v.plan)}
		for _, check := range r.Checks {
			switch check.Level {
			case doctor.Bad:
				r.Bad++
			case doctor.Warn:
				r.Warn++
			}
		}
		bad, warn = bad+r.Bad, warn+r.Warn
		if err := c.show(st.stdout, &r, i, len(visits)); err != nil {
			return err
		}
	}
	if bad > 0 {
		return &failure{code: exitError, message: fmt.Sprintf("%d checks are bad, %d are a warning", bad, warn), remedy: "each names what mends it"}
	}
	return nil
}

// visit is one directory to look at, and what it is for.
type visit struct {
	dir  string
	plan doctor.Plan
}

// visits are the directory that is given, or else the stores of the configuration.
func (c *doctorCmd) visits() (all []visit, err error) {
	plan := doctor.Plan{CapacityBytes: int64(c.Capacity)}
	var stores []config.Store
	if c.Config != "" {
		f, err := loadConfig(c.Config)
		if err != nil {
			return nil, err
		}
		plan.RDMA, stores = rdmaPlan(f), f.Stores
	}
	if c.Dir != "" {
		return []visit{{c.Dir, plan}}, nil
	}
	for i := range stores {
		if stores[i].Dir == "" {
			continue
		}
		v := visit{stores[i].Dir, plan}
		if c.Capacity == 0 {
			v.plan.CapacityBytes = int64(stores[i].Capacity)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, &failure{code: exitUsage, message: "there is no directory to look at", remedy: "give DIR, or --config with a file that names stores"}
	}
	return all, nil
}

// show prints what was found in one directory of some.
func (c *doctorCmd) show(w io.Writer, r *doctorReport, i, of int) error {
	if c.JSON {
		return printJSON(w, *r)
	}
	if of > 1 {
		if _, err := fmt.Fprintf(w, "%sstore %s\n", strings.Repeat("\n", min(i, 1)), r.Dir); err != nil {
			return err
		}
	}
	return r.print(w)
}

// rdmaPlan is what a configuration wants of RDMA; nil: nothing.
func rdmaPlan(f *config.File) *doctor.RDMAPlan {
	p := &f.Pool
	if p.ID == "" || p.Transport != config.TransportRDMA {
		return nil
	}
	return &doctor.RDMAPlan{Refused: p.RDMARefused(), Ports: p.RDMAPorts, GIDIndex: p.RDMAGIDIndex, TrafficClass: p.RDMATrafficClass, RegisterBytes: f.RDMABytes()}
}

func (r *doctorReport) print(w io.Writer) error { return printChecks(w, r.Checks) }

// printChecks writes a line for each check, and one for what mends it.
func printChecks(w io.Writer, checks []doctor.Check) error {
	for _, check := range checks {
		text := fmt.Sprintf("%-4s  %-19s  %s: %s\n", check.Level, check.Name, check.Found, check.Means)
		if check.Remedy != "" {
			text += fmt.Sprintf("      %-19s  mend: %s\n", "", check.Remedy)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

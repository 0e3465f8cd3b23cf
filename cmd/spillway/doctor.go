package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/cmd/spillway/doctor"
)

type doctorCmd struct {
	jsonFlag
	Capacity byteSize `placeholder:"SIZE" help:"The capacity you plan: says whether it fits."`
	Config   string   `placeholder:"FILE" complete:"file" help:"The daemon's configuration: judges RDMA, too, where its pool is to use it."`
	Dir      string   `arg:"" complete:"dir" help:"The directory of a store, or of one to come."`
}

// Help is shown under the flags.
func (*doctorCmd) Help() string {
	return "Each line is ok, warn or bad: what was found, what it means for a store, and the command that mends it. " +
		"Direct I/O and what else files need is tried out in the directory; nothing is left there, no store is made, no lock is taken, " +
		"and a store in use goes on undisturbed. What there is of RDMA is shown as found; with --config it is judged by what pool.transport wants. The exit code is 1 if anything is bad."
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
	plan := doctor.Plan{CapacityBytes: int64(c.Capacity)}
	if c.Config != "" {
		f, err := loadConfig(c.Config)
		if err != nil {
			return err
		}
		plan.RDMA = rdmaPlan(f)
	}
	facts := st.machine.Gather(c.Dir)
	r := doctorReport{Type: "doctor", Dir: facts.Dir, Checks: doctor.Examine(&facts, plan)}
	for _, check := range r.Checks {
		switch check.Level {
		case doctor.Bad:
			r.Bad++
		case doctor.Warn:
			r.Warn++
		}
	}
	var err error
	if c.JSON {
		err = printJSON(st.stdout, r)
	} else {
		err = r.print(st.stdout)
	}
	if err != nil {
		return err
	}
	if r.Bad > 0 {
		return &failure{code: exitError, message: fmt.Sprintf("%d checks are bad, %d are a warning", r.Bad, r.Warn), remedy: "each names what mends it"}
	}
	return nil
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

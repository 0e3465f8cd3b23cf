package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/fio/budget"
	"github.com/spillway-kv/spillway/tiering/model"
)

type budgetCmd struct {
	budget.Ask
	jsonFlag
	List  string     `enum:"models,gpus," default:"" placeholder:"models|gpus" help:"List the models or GPUs that are known by name."`
	Drive []byteSize `placeholder:"SIZE" default:"7GB,14GB" help:"What a drive reads in a second; several with commas."`
	Save  string     `placeholder:"FILE" complete:"file" help:"Keep a number or a scraped metric as a measurement of this model, GPU, batch and context, for --budget-from."`
}

// Help is shown under the flags.
func (*budgetCmd) Help() string {
	return "Sources, the most trusted first: --budget, --budget-from, --budget-preset, and the roofline of --model and --gpu; " +
		"the first that is given decides. docs/budget.md tells how each is derived."
}

// modelList is the JSON of --list=models.
type modelList struct {
	Type   string              `json:"type"`   // models
	Models []budget.ModelFacts `json:"models"` // known by name, with KV in bf16
}

// gpuList is the JSON of --list=gpus.
type gpuList struct {
	Type string            `json:"type"` // gpu_models
	GPUs []budget.GPUFacts `json:"gpus"` // known by name, arithmetic in bf16
}

func (*budgetCmd) reports() []any { return []any{budget.Derivation{}, modelList{}, gpuList{}} }

func (c *budgetCmd) run(ctx context.Context, st *state) error {
	if c.List != "" {
		return c.list(st.stdout)
	}
	machine := budget.Machine{Monitor: st.gpus.monitor}
	b, err := c.Resolve(ctx, machine)
	if err != nil {
		return budgetFailure(err)
	}
	if c.Save != "" {
		setup, err := c.Setup(machine)
		if err == nil {
			err = b.Save(c.Save, setup, st.now())
		}
		if err != nil {
			return budgetFailure(err)
		}
	}
	var rates []float64
	for _, rate := range c.Drive {
		rates = append(rates, float64(rate))
	}
	d := b.Derive(rates)
	if c.JSON {
		return printJSON(st.stdout, d)
	}
	return printRows(st.stdout, d.Lines())
}

// budgetFailure is a *failure where the command line is at fault.
func budgetFailure(err error) error {
	var usage *budget.UsageError
	if !errors.As(err, &usage) {
		return err
	}
	remedy := ""
	var unknown *model.UnknownError
	if errors.As(err, &unknown) {
		remedy = "spillway budget --list=models shows those that are known; --model-config takes any other"
		if usage.Option == "gpu" {
			remedy = "spillway budget --list=gpus shows those that are known; for another one measure the time of a token and give --budget"
		}
	}
	return &failure{code: exitUsage, message: err.Error(), remedy: remedy, cause: err}
}

// printRows writes labels and texts in two columns.
func printRows(w io.Writer, rows [][2]string) error {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, row[0], row[1]); err != nil {
			return err
		}
	}
	return nil
}

func (c *budgetCmd) list(w io.Writer) error {
	if c.List == "models" {
		return c.listModels(w)
	}
	found := gpuList{Type: "gpu_models"}
	rows := [][]string{{"GPU", "MEMORY GB/S", "BF16 TFLOPS", "FP8", "FP4", "HOST LINK GB/S", "MEMORY GB", "SOURCE"}}
	for _, name := range model.GPUNames() {
		g, err := model.FindGPU(name)
		if err != nil {
			panic(err) // of the table
		}
		found.GPUs = append(found.GPUs, budget.FactsOfGPU(g, model.BF16))
		row := []string{g.Name}
		for _, n := range []float64{g.GBps, g.BF16TFLOPS, g.FP8TFLOPS, g.FP4TFLOPS, g.LinkGBps, g.MemoryGB} {
			row = append(row, showUnless0(int64(n), func(n int64) string { return fmt.Sprint(n) }))
		}
		rows = append(rows, append(row, g.Source))
	}
	if c.JSON {
		return printJSON(w, found)
	}
	return table(w, rows)
}

func (c *budgetCmd) listModels(w io.Writer) error {
	found := modelList{Type: "models"}
	rows := [][]string{{"MODEL", "PARAMETERS", "ACTIVE", "LAYERS", "KV BYTES A TOKEN", "WEIGHTS"}}
	for _, name := range model.Names() {
		m, err := model.Find(name)
		if err != nil {
			panic(err) // of the table
		}
		f := budget.FactsOfModel(m, model.BF16)
		found.Models = append(found.Models, f)
		rows = append(rows, []string{m.Name, fmt.Sprintf("%.3g B", f.Parameters/1e9), fmt.Sprintf("%.3g B", f.Active/1e9), fmt.Sprint(f.Layers),
			fmt.Sprint(f.TokenBytes + f.IndexBytes), m.Weights.String()})
	}
	if c.JSON {
		return printJSON(w, found)
	}
	return table(w, rows)
}

package budget

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/model"
)

// UsageError says what is wrong with an Ask: the command line is to be mended.
type UsageError struct {
	Option string // its name; empty: no single one is at fault
	Err    error
}

func (e *UsageError) Error() string {
	if e.Option == "" {
		return e.Err.Error()
	}
	return "--" + e.Option + ": " + e.Err.Error()
}

// Unwrap is the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usage(option, format string, args ...any) error {
	return &UsageError{Option: option, Err: fmt.Errorf(format, args...)}
}

// Source is the kind of thing that a budget comes from.
type Source string

// The sources, the most trusted first.
const (
	Number      Source = "number"
	Metric      Source = "metric"
	Measurement Source = "measurement"
	Roofline    Source = "roofline"
	MLPerf      Source = "mlperf"
)

// Budget is the time that the P99 of a block read must stay under.
type Budget struct {
	PerToken time.Duration
	Source   Source
	Where    string          // where it comes from, in words
	Setup    *model.Setup    // what runs, if a model and a GPU were named; nil otherwise
	Metric   *Reading        // of Source Metric
	Prefill  []StoredPrefill // measured prompts: those said, or of Source Measurement; may be none
	Notes    []string        // what to know beside, a sentence each
}

// Machine is what Resolve looks at beside the Ask. The zero Machine is this one.
type Machine struct {
	Sleep   func(ctx context.Context, d time.Duration) error // between two scrapes; nil: the clock
	Monitor func() gpu.Monitor                               // for GPU auto; nil: gpu.OpenMonitor
}

// Empty says that no budget is asked for.
func (a *Ask) Empty() bool {
	return a.Budget == "" && a.From == "" && a.Preset == "" && a.Model == "" && a.ModelConfig == ""
}

// Resolve finds the budget. Errors about the Ask itself are *UsageError: nothing asked
// for, or a fault in what decides or in what says which model runs where. Other errors are
// of an engine that does not answer, or of a machine without a GPU.
func (a *Ask) Resolve(ctx context.Context, m Machine) (*Budget, error) {
	if a.Empty() {
		return nil, &UsageError{Err: errors.New("no budget: give --budget=TIME, --budget-from=URL, or both --model=NAME and --gpu=NAME, such as --model=Llama-3.1-8B --gpu=H100")}
	}
	said := *a
	var file *Stored
	if a.Budget == "" && a.From != "" && !isURL(a.From) {
		var err error
		if file, err = ReadStored(a.From); err != nil {
			return nil, &UsageError{"budget-from", err}
		}
		said = a.filled(file)
	}
	setup, err := said.Setup(m)
	if err != nil {
		return nil, err
	}
	b, err := said.decide(ctx, m, setup, file)
	if err != nil {
		return nil, err
	}
	if a.Prefill != "" {
		if b.Prefill, err = parsePrefill(a.Prefill); err != nil {
			return nil, &UsageError{"prefill", err}
		}
	}
	if setup.Model != nil && setup.GPU != nil {
		b.Setup = &setup
		b.Notes = append(b.Notes, fits(&setup)...)
	}
	return b, nil
}

// decide asks the most trusted source that was named.
func (a *Ask) decide(ctx context.Context, m Machine, setup model.Setup, file *Stored) (*Budget, error) {
	switch {
	case a.Budget != "":
		d, err := fio.ParseBudget(a.Budget)
		if err != nil {
			return nil, &UsageError{"budget", err}
		}
		return &Budget{PerToken: d, Source: Number, Where: "--budget"}, nil
	case isURL(a.From):
		return a.scrape(ctx, m)
	case file != nil:
		return a.stored(file, setup)
	case a.Preset != "":
		return preset(a.Preset, setup)
	}
	return roofline(setup)
}

func roofline(setup model.Setup) (*Budget, error) {
	if setup.GPU == nil {
		return nil, usage("gpu", "a roofline needs a GPU; spillway budget --list=gpus shows them, auto takes this machine's")
	}
	step := setup.Decode()
	return &Budget{PerToken: step.PerToken, Source: Roofline, Where: fmt.Sprintf("roofline of %s, bound by %s", Describe(&setup), step.Bound)}, nil
}

// Setup is the model and the GPU that are asked for; either may be missing.
func (a *Ask) Setup(m Machine) (s model.Setup, err error) {
	if s.Model, err = a.model(); err != nil {
		return s, err
	}
	if s.GPU, err = a.gpu(m); err != nil {
		return s, err
	}
	if s.Weights, err = model.ParsePrecision(a.Weights); err != nil {
		return s, &UsageError{"weights", err}
	}
	if s.KV, err = model.ParsePrecision(a.KV); err != nil {
		return s, &UsageError{"kv", err}
	}
	for _, n := range []struct {
		option, text string
		at           *int
		unsaid       int
	}{{"tp", a.TP, &s.Tensor, 1}, {"pp", a.PP, &s.Pipeline, 1}, {"batch", a.Batch, &s.Batch, 1}, {"context", a.Context, &s.Context, contextUnsaid}} {
		if *n.at, err = count(n.text, n.unsaid); err != nil {
			return s, &UsageError{n.option, err}
		}
	}
	if s.Model != nil && s.GPU != nil {
		if err := s.Validate(); err != nil {
			return s, &UsageError{Err: err}
		}
	}
	return s.WithDefaults(), nil
}

// contextUnsaid is the context of a sequence where none is said.
const contextUnsaid = 4096

// count reads a number of things, of tokens too: 32, 32k or 128K, which are
// multiples of 1024.
func count(text string, unsaid int) (int, error) {
	if text == "" {
		return unsaid, nil
	}
	digits, thousands := strings.CutSuffix(strings.ToLower(text), "k")
	n, err := strconv.ParseInt(digits, 10, 31)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number from 1 on", text)
	}
	if thousands {
		n *= 1024
	}
	if n > 1<<31-1 {
		return 0, fmt.Errorf("%q is too many", text)
	}
	return int(n), nil
}

func (a *Ask) model() (*model.Model, error) {
	switch {
	case a.Model != "" && a.ModelConfig != "":
		return nil, usage("model-config", "--model is given too; give one of them")
	case a.ModelConfig != "":
		m, err := model.Load(a.ModelConfig)
		if err != nil {
			return nil, &UsageError{"model-config", err}
		}
		return m, nil
	case a.Model == "":
		return nil, nil
	}
	m, err := model.Find(a.Model)
	if err != nil {
		return nil, &UsageError{"model", err}
	}
	return m, nil
}

// Describe names a setup: Llama-3.1-70B bf16 on 4 x H100 80GB HBM3 (TP 4), batch 1,
// context 4096, KV bf16.
func Describe(s *model.Setup) string {
	where := s.GPU.Name
	if n := s.Tensor * s.Pipeline; n > 1 {
		where = fmt.Sprintf("%d x %s (TP %d", n, s.GPU.Name, s.Tensor)
		if s.Pipeline > 1 {
			where += fmt.Sprintf(", PP %d", s.Pipeline)
		}
		where += ")"
	}
	return fmt.Sprintf("%s %v on %s, batch %d, context %d, KV %v", s.Model.Name, s.Weights, where, s.Batch, s.Context, s.KV)
}

package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/tiering/model"
)

// MeasurementType is the field type of a file with a measurement.
const MeasurementType = "token_time"

const (
	measurementVersion  = 1
	measurementBytesMax = 4 << 20
	pointsMax           = 10000
)

// Stored is a file with measured times of tokens, JSON. Points differ in batch and
// context only: another model, GPU or parallelism is another file.
type Stored struct {
	Type     string          `json:"type"`              // token_time
	Version  int             `json:"version"`           // 1
	Model    string          `json:"model,omitempty"`   // that was measured
	GPU      string          `json:"gpu,omitempty"`     // that it ran on, as NVML names it
	TP       int             `json:"tp,omitempty"`      // GPUs that share a layer
	PP       int             `json:"pp,omitempty"`      // groups of GPUs
	Weights  string          `json:"weights,omitempty"` // bf16, fp8 or fp4
	KV       string          `json:"kv,omitempty"`      // bf16, fp8 or fp4
	Measured time.Time       `json:"measured"`          // when
	By       string          `json:"by"`                // what measured, in words
	Points   []StoredPoint   `json:"points"`            // decode steps
	Prefill  []StoredPrefill `json:"prefill,omitempty"` // prompts
}

// StoredPoint is a measured decode step.
type StoredPoint struct {
	Batch   int     `json:"batch,omitempty"`   // sequences decoded at once; 0: unknown
	Context int     `json:"context,omitempty"` // tokens of each; 0: unknown
	MS      float64 `json:"ms_per_token"`      // milliseconds from one token of a sequence to its next
}

// StoredPrefill is a measured prompt.
type StoredPrefill struct {
	Tokens int     `json:"tokens"` // of the prompt
	MS     float64 `json:"ms"`     // milliseconds for all of it
}

// ReadStored reads and checks a file with a measurement.
func ReadStored(path string) (*Stored, error) {
	text, err := model.ReadFile(path, measurementBytesMax)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	s := &Stored{}
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("%s is no measurement: %w", path, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s is no measurement: %w", path, err)
	}
	return s, nil
}

func (s *Stored) check() error {
	switch {
	case s.Type != MeasurementType:
		return fmt.Errorf("its type is %q, not %s", s.Type, MeasurementType)
	case s.Version != measurementVersion:
		return fmt.Errorf("version %d is not known, only %d", s.Version, measurementVersion)
	case len(s.Points) == 0 || len(s.Points) > pointsMax || len(s.Prefill) > pointsMax:
		return fmt.Errorf("%d points and %d prompts: want 1 to %d points", len(s.Points), len(s.Prefill), pointsMax)
	}
	for _, p := range s.Points {
		if _, err := fio.ParseBudget(p.time().String()); err != nil || p.Batch < 0 || p.Context < 0 {
			return fmt.Errorf("a point of batch %d, context %d and %g ms", p.Batch, p.Context, p.MS)
		}
	}
	for _, p := range s.Prefill {
		if p.Tokens < 1 || !(p.MS > 0) {
			return fmt.Errorf("a prompt of %d tokens in %g ms", p.Tokens, p.MS)
		}
	}
	return nil
}

func (p StoredPoint) time() time.Duration { return toTime(p.MS / 1e3) }

// matches says what of the setup is not what was measured.
func (s *Stored) matches(setup *model.Setup) error {
	differs := func(what, measured, asked string) error {
		return fmt.Errorf("the measurement is of %s %s, not of %s", what, measured, asked)
	}
	if setup.Model != nil && s.Model != "" {
		if m, err := model.Find(s.Model); s.Model != setup.Model.Name && (err != nil || m.Name != setup.Model.Name) {
			return differs("model", s.Model, setup.Model.Name)
		}
	}
	if setup.GPU != nil && s.GPU != "" {
		if g, err := model.FindGPU(s.GPU); s.GPU != setup.GPU.Name && (err != nil || g.Name != setup.GPU.Name) {
			return differs("GPU", s.GPU, setup.GPU.Name)
		}
	}
	if s.TP > 0 && s.TP != setup.Tensor {
		return differs("TP", fmt.Sprint(s.TP), fmt.Sprint(setup.Tensor))
	}
	if s.PP > 0 && s.PP != setup.Pipeline {
		return differs("PP", fmt.Sprint(s.PP), fmt.Sprint(setup.Pipeline))
	}
	if w, err := model.ParsePrecision(s.Weights); err == nil && w != model.Unset && setup.Model != nil && w != setup.Weights {
		return differs("weights", s.Weights, setup.Weights.String())
	}
	return nil
}

// at is the point for a batch and a context: the one measured at the largest of
// both that are not over them, so that its time is no longer than the asked one's.
func (s *Stored) at(batch, context int) (best StoredPoint, err error) {
	found := false
	for _, p := range s.Points {
		if p.Batch > batch || p.Context > context {
			continue
		}
		if !found || p.Batch > best.Batch || p.Batch == best.Batch && p.Context > best.Context {
			best, found = p, true
		}
	}
	if found {
		return best, nil
	}
	var all []string
	for _, p := range s.Points {
		all = append(all, fmt.Sprintf("batch %d, context %d", p.Batch, p.Context))
	}
	return best, fmt.Errorf("nothing was measured at or under batch %d, context %d; there are %s", batch, context, strings.Join(all, "; "))
}

// filled is a with what it leaves unsaid as the file says it, as far as that is known
// here.
func (a *Ask) filled(s *Stored) Ask {
	said := *a
	fill := func(at *string, with string) {
		if *at == "" {
			*at = with
		}
	}
	if _, err := model.Find(s.Model); err == nil && a.ModelConfig == "" {
		fill(&said.Model, s.Model)
	}
	if _, err := model.FindGPU(s.GPU); err == nil {
		fill(&said.GPU, s.GPU)
	}
	for at, n := range map[*string]int{&said.TP: s.TP, &said.PP: s.PP} {
		if n > 0 {
			fill(at, strconv.Itoa(n))
		}
	}
	fill(&said.Weights, s.Weights)
	fill(&said.KV, s.KV)
	if p := s.Points[0]; len(s.Points) == 1 && a.Batch == "" && a.Context == "" && p.Batch > 0 && p.Context > 0 {
		said.Batch, said.Context = strconv.Itoa(p.Batch), strconv.Itoa(p.Context)
	}
	return said
}

// stored takes the budget from a file.
func (a *Ask) stored(s *Stored, setup model.Setup) (*Budget, error) {
	if err := s.matches(&setup); err != nil {
		return nil, &UsageError{"budget-from", fmt.Errorf("%s: %w", a.From, err)}
	}
	p, err := s.at(setup.Batch, setup.Context)
	if err != nil {
		return nil, &UsageError{"budget-from", fmt.Errorf("%s: %w", a.From, err)}
	}
	b := &Budget{PerToken: p.time(), Source: Measurement, Prefill: s.Prefill,
		Where: fmt.Sprintf("%s, measured by %s on %s", a.From, s.By, s.Measured.UTC().Format(time.DateOnly))}
	if p.Batch != setup.Batch || p.Context != setup.Context {
		b.Notes = append(b.Notes, fmt.Sprintf("measured at batch %s, context %s: no longer than at batch %d, context %d",
			known(p.Batch), known(p.Context), setup.Batch, setup.Context))
	}
	return b, nil
}

func known(n int) string {
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}

// errNotMeasured: only what was measured is worth keeping.
var errNotMeasured = errors.New("this budget was not measured: give it as a number, or take it from an engine's metrics")

// Save keeps a measured budget in a file, for --budget-from. A file that holds points of
// the same model, GPU and parallelism gets one more, or a newer one in place of
// the same; one that holds others is left alone, with an error.
func (b *Budget) Save(path string, setup model.Setup, now time.Time) error {
	if b.Source != Number && b.Source != Metric {
		return errNotMeasured
	}
	s := Stored{TP: setup.Tensor, PP: setup.Pipeline, KV: setup.KV.String(), Prefill: b.Prefill,
		Measured: now.UTC().Truncate(time.Second), By: b.Where}
	if setup.Model != nil {
		s.Model, s.Weights = setup.Model.Name, setup.Weights.String()
	}
	if setup.GPU != nil {
		s.GPU = setup.GPU.Name
	}
	point := StoredPoint{setup.Batch, setup.Context, float64(b.PerToken) / float64(time.Millisecond)}
	old, err := ReadStored(path)
	switch {
	case err == nil:
		if old.Model != s.Model || old.GPU != s.GPU || old.TP != s.TP || old.PP != s.PP || old.Weights != s.Weights || old.KV != s.KV {
			return fmt.Errorf("%s holds a measurement of something else (%s on %s); give another file", path, old.Model, old.GPU)
		}
		if len(s.Prefill) == 0 {
			s.Prefill = old.Prefill
		}
		for _, p := range old.Points {
			if p.Batch != point.Batch || p.Context != point.Context {
				s.Points = append(s.Points, p)
			}
		}
	case !os.IsNotExist(err):
		return err
	}
	s.Points = append(s.Points, point)
	return s.Write(path)
}

// Write checks s and replaces the file with it as a whole. It sets Type and Version.
func (s *Stored) Write(path string) error {
	s.Type, s.Version = MeasurementType, measurementVersion
	if err := s.check(); err != nil {
		return fmt.Errorf("%s is not written: %w", path, err)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".spillway-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

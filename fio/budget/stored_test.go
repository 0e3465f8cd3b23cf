package budget

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var then = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

// TestSave: what is saved is what is read, points of one setup gather in one file, and
// the file alone names what runs.
func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	url := engine(t, bars("vllm:inter_token_latency_seconds", "", 20, bounds, 0, 800, 900, 990, 1000))
	for _, a := range []Ask{{From: url, Batch: "32", Context: "8k"}, {Budget: "9ms", Batch: "8", Context: "8k"}, {Budget: "8.5ms", Batch: "8", Context: "8k"}} {
		a.Model, a.GPU, a.TP = "Llama-3.1-70B-FP8", "H100", "2"
		b, err := a.Resolve(t.Context(), here())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Save(path, *b.Setup, then); err != nil {
			t.Fatal(err)
		}
	}
	s, err := ReadStored(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &Stored{Type: "token_time", Version: 1, Model: "Llama-3.1-70B", GPU: "H100 80GB HBM3", TP: 2, PP: 1, Weights: "fp8", KV: "bf16",
		Measured: then.Truncate(time.Second), By: "--budget", Points: []StoredPoint{{32, 8192, 20}, {8, 8192, 8.5}}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
	for _, c := range []struct {
		ask   Ask
		want  time.Duration
		notes int
	}{
		{Ask{Batch: "32", Context: "8192"}, 20 * ms, 0},
		{Ask{Batch: "33", Context: "8200"}, 20 * ms, 1},
		{Ask{Batch: "31", Context: "8k", Model: "meta-llama/Llama-3.3-70B-Instruct", Weights: "fp8", GPU: "H100"}, 8500 * time.Microsecond, 1},
	} {
		c.ask.From = path
		b, err := c.ask.Resolve(t.Context(), Machine{})
		if err != nil || b.PerToken != c.want || b.Source != Measurement || b.Setup == nil || b.Setup.Tensor != 2 || len(b.Notes) != c.notes {
			t.Errorf("%+v: %+v, %v, want %v", c.ask, b, err, c.want)
		}
	}
	for want, a := range map[string]Ask{
		"nothing was measured at or under batch 1, context 4096; there are batch 32, context 8192; batch 8": {},
		"of TP 2, not of 4":                        {TP: "4"},
		"of PP 1, not of 2":                        {PP: "2"},
		"of model Llama-3.1-70B, not of Qwen3-32B": {Model: "Qwen3-32B"},
		"of GPU H100 80GB HBM3, not of H200":       {GPU: "H200"},
		"of weights fp8, not of bf16":              {Weights: "bf16"},
	} {
		a.From = path
		var usage *UsageError
		if _, err := a.Resolve(t.Context(), Machine{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	other := Ask{Budget: "1ms", Model: "Qwen3-32B", GPU: "H100"}
	b, err := other.Resolve(t.Context(), Machine{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Save(path, *b.Setup, then); err == nil || !strings.Contains(err.Error(), "something else (Llama-3.1-70B on H100 80GB HBM3)") {
		t.Error(err)
	}
	b.Source = Roofline
	if err := b.Save(path, *b.Setup, then); !errors.Is(err, errNotMeasured) {
		t.Error(err)
	}
	if again, err := ReadStored(path); err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("the file changed: %+v, %v", again, err)
	}
}

// TestStoredAlone: one point's batch and context are taken where none are said, and
// measured prompts are handed on.
func TestStoredAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	write(t, path, `{"type": "token_time", "version": 1, "model": "Llama-3.1-8B", "gpu": "NVIDIA H200", "tp": 1, "weights": "bf16", "measured": "2026-01-02T03:04:05Z",
		"by": "gpu-check", "points": [{"batch": 16, "context": 8192, "ms_per_token": 6.25}], "prefill": [{"tokens": 4096, "ms": 120}]}`)
	b, err := (&Ask{From: path}).Resolve(t.Context(), Machine{})
	if err != nil || b.PerToken != 6250*time.Microsecond || len(b.Notes) != 0 || b.Setup.Batch != 16 || b.Setup.Context != 8192 || len(b.Prefill) != 1 ||
		!strings.HasSuffix(b.Where, "m.json, measured by gpu-check on 2026-01-02") {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestStoredRefused: files that are no measurement.
func TestStoredRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	const head = `{"type": "token_time", "version": 1, "measured": "2026-01-02T03:04:05Z", "by": "x", `
	for text, want := range map[string]string{
		"":                       "EOF",
		`{"type": "x"}`:          `its type is "x"`,
		`{"type": "token_time"}`: "version 0 is not known",
		head + `"points": []}`:   "0 points",
		head + `"extra": 1}`:     "extra",
		head + `"points": [{"ms_per_token": 0}]}`:                             "a point of batch 0, context 0 and 0 ms",
		head + `"points": [{"ms_per_token": 1e300}]}`:                         "a point of",
		head + `"points": [{"batch": -1, "ms_per_token": 1}]}`:                "a point of batch -1",
		head + `"points": [{"ms_per_token": 1}], "prefill": [{"tokens": 0}]}`: "a prompt of 0 tokens",
	} {
		write(t, path, text)
		if _, err := ReadStored(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := (&Stored{By: "x"}).Write(path); err == nil || !strings.Contains(err.Error(), "0 points") {
		t.Error(err)
	}
	if _, err := ReadStored("/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
	if err := (&Budget{PerToken: ms, Source: Number}).Save(filepath.Join(path, "below"), setupOf(t, Ask{}), then); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

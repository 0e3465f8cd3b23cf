package budget

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/tiering/model"
)

func setupOf(t *testing.T, a Ask) model.Setup {
	t.Helper()
	s, err := a.Setup(Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func derive(t *testing.T, a Ask, rates ...float64) *Derivation {
	t.Helper()
	b, err := a.Resolve(t.Context(), Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return b.Derive(rates)
}

// TestInFlight: what the gate lets a drive of 14 GB/s owe, for cases worked out by
// hand, in MB and in blocks of 16 tokens.
func TestInFlight(t *testing.T) {
	for _, c := range []struct {
		ask    Ask
		mb     string
		blocks int64
	}{
		{Ask{Model: "Llama-3.1-8B", GPU: "H100"}, "87", 41},
		{Ask{Model: "Llama-3.1-70B", GPU: "H100", TP: "4"}, "197", 37},
		{Ask{Model: "DeepSeek-R1", GPU: "H200", TP: "8", Preset: "default"}, "210", 186},
	} {
		d := derive(t, c.ask, 14e9, 7e9)
		full, half := d.Drives[0], d.Drives[1]
		if got := fmt.Sprintf("%.0f", float64(full.InFlightBytes)/1e6); got != c.mb || full.Blocks[0] != c.blocks {
			t.Errorf("%+v: %s MB, %d blocks, want %s and %d", c.ask, got, full.Blocks[0], c.mb, c.blocks)
		}
		if n := half.InFlightBytes*2 - full.InFlightBytes; n < -2 || n > 2 {
			t.Errorf("%+v: half the rate: %d bytes of %d", c.ask, half.InFlightBytes, full.InFlightBytes)
		}
	}
	if got := InFlight(7e9, 12*time.Millisecond); got != 84e6 {
		t.Errorf("%d bytes", got)
	}
}

// TestDerivation: the parts add up, and the words hold the figures.
func TestDerivation(t *testing.T) {
	for _, a := range []Ask{
		{Model: "Llama-3.1-70B", GPU: "H100", TP: "4", Batch: "32"}, {Model: "DeepSeek-R1", GPU: "B200", TP: "8", PP: "2", Batch: "128", Context: "32k"},
		{Model: "Gemma-3-27B", GPU: "L40S", TP: "2"}, {Model: "Qwen3.5-397B", GPU: "MI300X", TP: "8"}, {Model: "GLM-5", GPU: "GB200", TP: "16", KV: "fp8"},
		{Model: "gpt-oss-120b", GPU: "H100", Preset: "default"},
	} {
		if a.Model == "Qwen3.5-397B" {
			a.Model = "Qwen3.5-397B-A17B"
		}
		d := derive(t, a, 7e9)
		r := d.Roofline
		if sum := max(r.MemoryMS, r.ComputeMS) + r.AllReduceMS + r.SendMS; sum-r.TokenMS > 1e-9 || r.TokenMS-sum > 1e-9 {
			t.Errorf("%+v: parts of %g ms, %g in all", a, sum, r.TokenMS)
		}
		if a.Preset == "" && d.TokenMS != r.TokenMS {
			t.Errorf("%+v: budget of %g, roofline of %g", a, d.TokenMS, r.TokenMS)
		}
		for _, p := range d.Prefixes {
			if even := float64(p.Bytes) / p.ComputeMS / 1e6; even/p.GBps > 1.001 || p.GBps/even > 1.001 {
				t.Errorf("%+v: %d tokens break even at %g GB/s, not %g", a, p.Tokens, p.GBps, even)
			}
		}
		text := fmt.Sprint(d.Lines())
		for _, want := range []string{d.Model.Name, d.GPU.Name, fmt.Sprint(d.Model.TokenBytes), "per token", "16 tokens", "64 tokens", "256 tokens", "Little's law", "loading wins from", "prefix of 8192 tokens"} {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: no %q in\n%s", a, want, text)
			}
		}
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
	}
}

// TestLines: a bare number says what it implies and nothing of models; an unknown
// GPU's arithmetic is left out.
func TestLines(t *testing.T) {
	d := derive(t, Ask{Budget: "12ms"}, 7e9)
	want := [][2]string{{"budget", "12.0 ms per token: --budget"}, {"drive of 7 GB/s", "by Little's law 80.11 MiB may be in flight"}}
	if got := d.Lines(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	s := setupOf(t, Ask{Model: "Llama-3.1-8B", GPU: "H100"})
	s.GPU = model.GPUOfBus("NVIDIA X1", 6144, 3201)
	b, err := roofline(s)
	if err != nil {
		t.Fatal(err)
	}
	b.Setup = &s
	d = b.Derive([]float64{7e9})
	text := fmt.Sprint(d.Lines())
	if len(d.Prefixes) != 0 || !strings.Contains(text, "arithmetic unknown") || strings.Contains(text, "loading") {
		t.Errorf("%s", text)
	}
}

// TestShow: times with three digits.
func TestShow(t *testing.T) {
	for ms, want := range map[float64]string{0: "none", 0.0271: "27.1 us", 0.61: "610 us", 6.19: "6.19 ms", 30: "30.0 ms", 118.2: "118 ms", 5555: "5555 ms", 118512: "118.5 s"} {
		if got := show(ms); got != want {
			t.Errorf("%g is %q, want %q", ms, got, want)
		}
	}
}

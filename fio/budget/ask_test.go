package budget

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/model"
)

// TestRoofline: a named model and GPU give the roofline, with what was said.
func TestRoofline(t *testing.T) {
	for _, c := range []struct {
		ask  Ask
		want string // milliseconds
	}{
		{Ask{Model: "Llama-3.1-8B", GPU: "H100"}, "6.19"},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", Batch: "32", Context: "4k"}, "12.40"},
		{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "2"}, "14.21"},
		{Ask{Model: "Llama-3.1-70B", GPU: "H100", TP: "2", Weights: "fp8"}, "14.21"},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", Batch: "32", KV: "fp8"}, "9.20"},
	} {
		b, err := c.ask.Resolve(t.Context(), Machine{})
		if err != nil {
			t.Errorf("%+v: %v", c.ask, err)
			continue
		}
		if got := fmt.Sprintf("%.2f", inMS(b.PerToken)); got != c.want || b.Source != Roofline || b.Setup == nil || !strings.Contains(b.Where, "bound by memory bandwidth") {
			t.Errorf("%+v: %s ms of %s, want %s", c.ask, got, b.Where, c.want)
		}
	}
	small := Ask{Model: "Llama-3.1-70B", GPU: "L4"}
	b, err := small.Resolve(t.Context(), Machine{})
	if err != nil || len(b.Notes) != 1 || !strings.HasPrefix(b.Notes[0], "weights and KV take 142 GB") || !strings.HasSuffix(b.Notes[0], "has 24 GB: it cannot run so") {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestTrust: the most trusted source that is given decides, and what runs is known all
// the same.
func TestTrust(t *testing.T) {
	url := engine(t, bars("vllm:inter_token_latency_seconds", "", 20, bounds, 0, 800, 900, 990, 1000))
	file := filepath.Join(t.TempDir(), "m.json")
	write(t, file, `{"type": "token_time", "version": 1, "measured": "2026-01-02T03:04:05Z", "by": "hand", "points": [{"ms_per_token": 7.5}]}`)
	for _, c := range []struct {
		ask    Ask
		source Source
		want   time.Duration
	}{
		{Ask{Budget: "12ms", From: url, Preset: "default"}, Number, 12 * ms},
		{Ask{From: url, Preset: "default"}, Metric, 20 * ms},
		{Ask{From: file, Preset: "default"}, Measurement, 7500 * time.Microsecond},
		{Ask{Preset: "default"}, MLPerf, 30 * ms},
		{Ask{Preset: "server"}, MLPerf, 100 * ms},
		{Ask{Preset: "strict", Batch: "64"}, Roofline, 6192858},
		{Ask{}, Roofline, 6192858},
	} {
		c.ask.Model, c.ask.GPU = "Llama-3.1-8B", "H100"
		b, err := c.ask.Resolve(t.Context(), here())
		if err != nil || b.Source != c.source || (b.PerToken-c.want).Abs() > time.Microsecond || b.Setup == nil || b.Setup.Model.Name != "Llama-3.1-8B" {
			t.Errorf("%+v: %+v, %v, want %v by %s", c.ask, b, err, c.want, c.source)
		}
	}
}

// TestPresets: MLPerf's limits, and what it has no limit for.
func TestPresets(t *testing.T) {
	for name, want := range map[string]time.Duration{"Llama-3.1-8B": 30 * ms, "Llama-3.3-70B": 40 * ms, "Llama-2-70B": 40 * ms, "Llama-3.1-405B": 80 * ms, "DeepSeek-R1": 15 * ms, "gpt-oss-120b": 15 * ms} {
		if b, err := (&Ask{Preset: "default", Model: name}).Resolve(t.Context(), Machine{}); err != nil || b.PerToken != want || b.Setup != nil {
			t.Errorf("%s: %+v, %v, want %v", name, b, err, want)
		}
	}
	if b, err := (&Ask{Preset: "server", Model: "Mixtral-8x7B"}).Resolve(t.Context(), Machine{}); err != nil || b.PerToken != 200*ms {
		t.Errorf("%+v, %v", b, err)
	}
	for i := range Limits {
		if m, err := model.Find(Limits[i].Model); err != nil || m.Name != Limits[i].Model {
			t.Errorf("%s is not in the table: %v", Limits[i].Model, err)
		}
	}
}

// TestRefused: each fault of an Ask names its option, before anything is asked.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	write(t, file, `{"hidden_size": 64}`)
	for _, c := range []struct {
		ask  Ask
		want string
	}{
		{Ask{}, "no budget: give --budget"},
		{Ask{GPU: "H100"}, "no budget: give --budget"},
		{Ask{Budget: "12"}, "--budget: "},
		{Ask{Budget: "2h"}, "--budget: "},
		{Ask{Budget: "12ms", Model: "x"}, `--model: no model "x" is known`},
		{Ask{Model: "Llama-3.1-8B"}, "--gpu: a roofline needs a GPU"},
		{Ask{Model: "Llama-3.1-8B", GPU: "H10"}, "--gpu: no GPU \"H10\" is known; near are "},
		{Ask{Model: "Llama-3.1-8B", ModelConfig: file}, "--model-config: --model is given too"},
		{Ask{ModelConfig: file, GPU: "H100"}, "--model-config: config of " + filepath.Base(dir) + ": num_hidden_layers: is missing"},
		{Ask{ModelConfig: filepath.Join(dir, "none"), GPU: "H100"}, "--model-config: open "},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", TP: "0"}, `--tp: "0" is not a number from 1 on`},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", PP: "x"}, "--pp: "},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", Batch: "-1"}, "--batch: "},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", Context: "9999999k"}, "--context: "},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", Context: "99999999"}, "a context of 99999999 tokens"},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", TP: "4096"}, "TP 4096"},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", Weights: "int3"}, "--weights: "},
		{Ask{Model: "Llama-3.1-8B", GPU: "H100", KV: "int3"}, "--kv: "},
		{Ask{Preset: "strict"}, "--budget-preset: strict needs a model"},
		{Ask{Preset: "strict", Model: "Llama-3.1-8B"}, "--gpu: a roofline needs a GPU"},
		{Ask{Preset: "lenient", Model: "Llama-3.1-8B"}, `--budget-preset: no preset "lenient"`},
		{Ask{Preset: "default", Model: "Mixtral-8x7B"}, "--budget-preset: MLPerf has no interactive limit for Mixtral-8x7B; take server"},
		{Ask{Preset: "default", Model: "Qwen3-8B"}, "--budget-preset: MLPerf has no limit for Qwen3-8B, only for Llama-3.1-8B, Llama-2-70B"},
		{Ask{From: filepath.Join(dir, "none")}, "--budget-from: open "},
		{Ask{From: file}, "--budget-from: " + file + " is no measurement"},
	} {
		_, err := c.ask.Resolve(t.Context(), Machine{})
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v:\n%v, want\n%s", c.ask, err, c.want)
		}
	}
}

// TestCount: numbers as people write them.
func TestCount(t *testing.T) {
	for text, want := range map[string]int{"": 7, "1": 1, "32": 32, "8k": 8192, "128K": 131072} {
		if n, err := count(text, 7); n != want || err != nil {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}
}

// TestSet: an Ask takes every option by its name, as a parser of another kind gives
// them.
func TestSet(t *testing.T) {
	var a Ask
	for i, o := range Options {
		if o.Name == "" || o.Placeholder == "" || o.Help == "" {
			t.Errorf("%+v", o)
		}
		if !a.Set(o.Name, fmt.Sprint(i)) {
			t.Errorf("%s is not known", o.Name)
		}
		if got := reflect.ValueOf(a).Field(i).String(); got != fmt.Sprint(i) {
			t.Errorf("%s is %q", o.Name, got)
		}
	}
	if a.Set("iodepth", "1") || len(Options) != reflect.TypeFor[Ask]().NumField() {
		t.Error("unknown options, or forgotten ones")
	}
}

// monitor is a machine's GPU; its unset methods are not asked.
type monitor struct {
	gpu.Monitor
	name       string
	bits, MHz  int
	none, dark error
}

func (m monitor) Close() {}

func (m monitor) Missing() error { return m.none }

func (m monitor) Count() (int, error) {
	if m.name == "" {
		return 0, nil
	}
	return 1, nil
}

func (m monitor) Name(int) (string, error) { return m.name, nil }

func (m monitor) MemoryBus(int) (int, int, error) { return m.bits, m.MHz, m.dark }

// TestThisGPU: auto is the machine's GPU, by its name or else by its bus.
func TestThisGPU(t *testing.T) {
	dark := errors.New("dark")
	for _, c := range []struct {
		monitor monitor
		want    string
	}{
		{monitor{name: "NVIDIA H200"}, "H200 4800 GB/s"},
		{monitor{name: "NVIDIA X1", bits: 6144, MHz: 3201}, "NVIDIA X1 4916.736 GB/s"},
		{monitor{name: "NVIDIA X1"}, "a bus of 0 bits at 0 MHz"},
		{monitor{name: "NVIDIA X1", dark: dark}, `"NVIDIA X1" is in no table, and its memory is unknown: dark; name one that is like it`},
		{monitor{none: dark}, "--gpu=auto: dark; name a GPU in its place"},
		{monitor{}, gpu.ErrNoGPU.Error()},
	} {
		b, err := (&Ask{Model: "Llama-3.1-8B", GPU: "Auto"}).Resolve(t.Context(), Machine{Monitor: func() gpu.Monitor { return c.monitor }})
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%s %v GB/s", b.Setup.GPU.Name, b.Setup.GPU.GBps)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %s", c.monitor, got, c.want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/tiering/gpu"
)

// TestBudget: the derivation has a line for each thing that it follows from.
func TestBudget(t *testing.T) {
	got := process{t: t}.run("budget", "--model", "llama-3.1-70b-instruct", "--gpu", "h100", "--tp=4", "--batch=32").want(t, exitPass, "", "").stdout
	for _, want := range []string{
		"18.0 ms per token: roofline of Llama-3.1-70B bf16 on 4 x H100 80GB HBM3 (TP 4), batch 32, context 4096, KV bf16, bound by memory bandwidth",
		"70.55 billion parameters, 80 layers", "327680 bytes a token", "memory 3350 GB/s, 989 TFLOPS", "141.1 GB of weights, and 42.95 GB of KV spread over 4",
		"all-reduce 800 us", "5 MiB (16 tokens), 20 MiB (64 tokens), 80 MiB (256 tokens)", "server 200 ms, interactive 40.0 ms",
		"a prefix of 8192 tokens", "loading wins from", "drive of 7 GB/s", "drive of 14 GB/s", "by Little's law",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	v := process{t: t}.run("budget", "--model=DeepSeek-R1", "--gpu=H200", "--tp=8", "--budget-preset=default", "--drive=10GB", "--json").want(t, exitPass, "", "").object(t, "budget")
	drives := v["drives"].([]any)
	if v["token_ms"] != 15.0 || v["source"] != "mlperf" || len(drives) != 1 || drives[0].(map[string]any)["in_flight_bytes"] != 150e6 || len(v["blocks"].([]any)) != 3 {
		t.Errorf("%v", v)
	}
	process{t: t}.run("budget", "--budget=12ms").want(t, exitPass, "12.0 ms per token: --budget", "")
}

// TestBudgetFailures: a wrong command line is told what is near; a page without the
// metric is an error of another kind.
func TestBudgetFailures(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, c := range []struct {
		args string
		code exitCode
		says string
	}{
		{"budget", exitUsage, "no budget: give --budget"},
		{"budget --model Llama-3.1-8 --gpu H100", exitUsage, "near are Llama-3.1-8B"},
		{"budget --model Llama-3.1-8B --gpu H10", exitUsage, "--list=gpus"},
		{"budget --budget 12", exitUsage, "write it like 30ms"},
		{"budget --model Llama-3.1-8B --gpu H10", exitUsage, "give --budget"},
		{"budget --list", exitUsage, "--list: needs a value"},
		{"budget --list cars", exitUsage, "must be one of"},
		{"budget --budget 12ms --drive fast", exitUsage, "is not a size"},
		{"budget --model Llama-3.1-8B --gpu H100 --save /dev/null/x", exitError, "was not measured"},
		{"budget --budget-from " + server.URL, exitError, "404 Not Found"},
		{"budget --model Llama-3.1-8B --gpu auto", exitError, "--gpu=auto: "},
	} {
		none := &gpuSources{monitor: func() gpu.Monitor { return gpu.SysfsMonitor(t.TempDir(), errors.New("none here")) }}
		process{t: t, gpus: none}.run(strings.Fields(c.args)...).want(t, c.code, "", c.says)
	}
}

// TestBudgetSaved: what an engine shows is kept, and read again without the engine.
func TestBudgetSaved(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "vllm:inter_token_latency_seconds_sum 12.5\nvllm:inter_token_latency_seconds_count 1000\n")
	}))
	file := filepath.Join(t.TempDir(), "m.json")
	run := func(args ...string) outcome { return process{t: t}.run(append([]string{"budget"}, args...)...) }
	run("--budget-from", server.URL, "--model=Qwen3-8B", "--gpu=L40S", "--batch=4", "--save", file).want(t, exitPass, "12.5 ms per token: mean of vllm:inter_token_latency_seconds, 1000 observations", "")
	server.Close()
	v := run("--budget-from", file, "--json").want(t, exitPass, "", "").object(t, "budget")
	if v["token_ms"] != 12.5 || v["source"] != "measurement" || v["model"].(map[string]any)["name"] != "Qwen3-8B" || v["setup"].(map[string]any)["batch"] != 4.0 {
		t.Errorf("%v", v)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"gpu": "L40S"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestBudgetLists: every name of a list is one that the command takes.
func TestBudgetLists(t *testing.T) {
	models := process{t: t}.run("budget", "--list=models", "--json").want(t, exitPass, "", "").object(t, "models")["models"].([]any)
	gpus := process{t: t}.run("budget", "--list=gpus", "--json").want(t, exitPass, "", "").object(t, "gpu_models")["gpus"].([]any)
	if len(models) < 30 || len(gpus) < 14 {
		t.Errorf("%d models, %d GPUs", len(models), len(gpus))
	}
	for i := range max(len(models), len(gpus)) {
		m, g := models[i%len(models)].(map[string]any)["name"].(string), gpus[i%len(gpus)].(map[string]any)["name"].(string)
		process{t: t}.run("budget", "--model", m, "--gpu", g).want(t, exitPass, "roofline of "+m, "")
	}
	process{t: t}.run("budget", "--list=models").want(t, exitPass, "Llama-3.1-8B", "")
	process{t: t}.run("budget", "--list=gpus").want(t, exitPass, "H100 80GB HBM3", "")
	if script := (process{t: t}).run("completion", "bash").stdout; !strings.Contains(script, " H100 ") || !strings.Contains(script, " Llama-3.1-8B ") || !strings.Contains(script, " rtx4090 ") && !strings.Contains(script, " 4090 ") {
		t.Error("models and GPUs are not completed")
	}
}

package config

import (
	"testing"
	"time"
)

// TestGateModel: a model on its GPU stands for a number, and what it comes to is said.
func TestGateModel(t *testing.T) {
	f := parse(t, smallest+"[gate]\nmodel = \"Llama-3.1-70B\"\ngpu = \"H200\"\ntp = 4\n")
	o, err := f.NodeOptions()
	if err != nil || o.Model != "Llama-3.1-70B" || o.GPU != "H200" || o.TensorParallel != 4 || o.ComputePerToken != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	// (2 x 70.55e9 + 2 x 80 x 64 x 128 x 4096) / (0.6 x 4 x 989e12)
	if got, want := f.Gate.PromptToken(), 61710*time.Nanosecond; (got - want).Abs() > 10*time.Nanosecond {
		t.Errorf("%v a token, want %v", got, want)
	}
	const want = "gate: by the roofline of Llama-3.1-70B TP 4 on H200, a token of a prompt of 4096 takes 61.71µs, and one of 32768 77.54µs; " +
		"a prefix so long is worth loading from 5.31 and 4.23 GB/s on"
	if lines := f.Explain(); len(lines) != 1 || lines[0] != want {
		t.Errorf("%q\nwant\n%q", lines, want)
	}
	number := parse(t, smallest+"[gate]\ncompute_per_token = \"27us\"\ngpu = \"H200\"\n")
	if got := number.Gate.PromptToken(); got != 27*time.Microsecond || len(number.Explain()) != 0 {
		t.Errorf("%v a token, %q", got, number.Explain())
	}
	if got := parse(t, smallest).Gate.PromptToken(); got != 0 {
		t.Errorf("nothing said, and %v a token", got)
	}
}

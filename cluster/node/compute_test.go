package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// TestComputeOf: what is nearest to a namespace says the time to compute its prefixes.
func TestComputeOf(t *testing.T) {
	rule := map[string]NamespaceRule{"n": {ComputePerToken: time.Millisecond}}
	named := engine.Descriptor{Name: "n", Model: "Qwen3-8B", TensorParallel: 2}
	strange := engine.Descriptor{Name: "s", Model: "/models/ours"}
	for _, c := range []struct {
		options  Options
		of       engine.Descriptor
		from     string
		perToken time.Duration
		model    string
		tensor   int
	}{
		{Options{Namespaces: rule, GPU: "H200", Model: "Llama-3.1-8B"}, named, computeFromRule, time.Millisecond, "", 0},
		{Options{GPU: "H200", Model: "Llama-3.1-8B", TensorParallel: 4}, named, computeFromModel, 0, "Qwen3-8B", 2},
		{Options{GPU: "H200", Model: "Llama-3.1-8B", TensorParallel: 4}, strange, computeFromGate, 0, "Llama-3.1-8B", 4},
		{Options{GPU: "H200", ComputePerToken: time.Second}, strange, computeFromGate, time.Second, "", 0},
		{Options{GPU: "H200"}, strange, "", 0, "", 0},
		{Options{}, named, "", 0, "", 0},
	} {
		got := c.options.computeOf(&c.of)
		name, tensor := "", 0
		if got.setup != nil {
			name, tensor = got.setup.Model.Name, got.setup.Tensor
		}
		if got.from != c.from || got.perToken != c.perToken || name != c.model || tensor != c.tensor {
			t.Errorf("%+v of %+v: %+v (%s on %d), want %+v", c.options, c.of, got, name, tensor, c)
		}
		if known := got.prefix(100) > 0; known != (c.from != "") || got.prefix(0) != 0 {
			t.Errorf("%+v: a prefix of 100 takes %v", c.options, got.prefix(100))
		}
	}
}

// TestComputeOptions: a model needs a GPU, both need to be known, and a number beside is
// refused.
func TestComputeOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"near are H200":         {GPU: "H20O"},
		"near are Llama-3.1-8B": {GPU: "H200", Model: "Llama-3.1-8"},
		"without a GPU":         {Model: "Llama-3.1-8B"},
		"give one of them":      {GPU: "H200", Model: "Llama-3.1-8B", ComputePerToken: 1},
		"TP -1":                 {TensorParallel: -1},
	} {
		if err := o.validateCompute(); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	good := Options{GPU: "H200", Model: "Llama-3.1-8B", TensorParallel: 8}
	if err := good.validateCompute(); err != nil {
		t.Error(err)
	}
}

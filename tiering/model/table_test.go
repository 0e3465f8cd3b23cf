package model

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// geometry is the KV geometry of every model as its config and cards tell it,
// written down apart from the table: bytes of one token in BF16, and MiB of
// blocks of 16, 64 and 256 tokens to the digits given.
var geometry = []struct {
	names          string // that mean the same model
	bytes          int64
	b16, b64, b256 string
}{
	{"Llama-2-7B", 524288, "8", "32", "128"},
	{"Llama-2-70B", 327680, "5", "20", "80"},
	{"Llama-3-8B|Llama-3.1-8B|meta-llama/Meta-Llama-3.1-8B-Instruct", 131072, "2", "8", "32"},
	{"Llama-3-70B|Llama-3.1-70B|Llama-3.3-70B", 327680, "5", "20", "80"},
	{"Llama-3.1-405B", 516096, "7.875", "31.5", "126"},
	{"Mistral-7B-v0.2|mistralai/Mistral-7B-Instruct-v0.2", 131072, "2", "8", "32"},
	{"Mistral-Large-2407", 360448, "5.5", "22", "88"},
	{"Mixtral-8x7B|mistralai/Mixtral-8x7B-v0.1", 131072, "2", "8", "32"},
	{"Mixtral-8x22B", 229376, "3.5", "14", "56"},
	{"Qwen2.5-7B", 57344, "0.875", "3.5", "14"},
	{"Qwen2.5-14B", 196608, "3", "12", "48"},
	{"Qwen2.5-32B", 262144, "4", "16", "64"},
	{"Qwen2.5-72B", 327680, "5", "20", "80"},
	{"Qwen3-8B", 147456, "2.25", "9", "36"},
	{"Qwen3-14B", 163840, "2.5", "10", "40"},
	{"Qwen3-32B|Qwen/Qwen3-32B-FP8", 262144, "4", "16", "64"},
	{"Qwen3-30B-A3B", 98304, "1.5", "6", "24"},
	{"Qwen3-235B-A22B", 192512, "2.9375", "11.75", "47"},
	{"Qwen3.5-397B-A17B", 30720, "0.469", "1.875", "7.5"},
	{"Gemma-2-9B|google/gemma-2-9b-it", 344064, "5.25", "21", "84"},
	{"Gemma-2-27B", 376832, "5.75", "23", "92"},
	{"Gemma-3-27B", 507904, "7.75", "31", "124"},
	{"gpt-oss-20b", 49152, "0.75", "3", "12"},
	{"gpt-oss-120b|openai/gpt-oss-120b", 73728, "1.125", "4.5", "18"},
	{"GLM-4.5-Air", 188416, "2.875", "11.5", "46"},
	{"GLM-4.5|GLM-4.6", 376832, "5.75", "23", "92"},
	{"MiniMax-M2.5", 253952, "3.875", "15.5", "62"},
	{"DeepSeek-V3|DeepSeek-R1", 70272, "1.072", "4.289", "17.16"},
	{"Kimi-K2|Kimi-K2.5|moonshotai/Kimi-K2-Instruct", 70272, "1.072", "4.289", "17.16"},
	{"GLM-5", 89856, "1.371", "5.484", "21.94"},
}

// TestGeometry: bytes of tokens and blocks are what the formula says of each model.
func TestGeometry(t *testing.T) {
	for _, g := range geometry {
		for name := range strings.SplitSeq(g.names, "|") {
			m, err := Find(name)
			if err != nil {
				t.Error(err)
				continue
			}
			if got := m.TokenBytes(BF16); got != g.bytes {
				t.Errorf("%s: %d bytes a token, want %d", name, got, g.bytes)
			}
			if got := m.TokenBytes(FP8); got != g.bytes/2 {
				t.Errorf("%s: %d bytes a token in FP8, want %d", name, got, g.bytes/2)
			}
			for tokens, want := range map[int64]string{16: g.b16, 64: g.b64, 256: g.b256} {
				_, digits, _ := strings.Cut(want, ".")
				if got := fmt.Sprintf("%.*f", len(digits), float64(m.BlockBytes(int(tokens), BF16)-tokens*m.IndexBytes())/(1<<20)); got != want {
					t.Errorf("%s: a block of %d tokens has %s MiB, want %s", name, tokens, got, want)
				}
			}
		}
	}
	if len(Names()) < 30 {
		t.Errorf("%d models", len(Names()))
	}
}

// TestParameters: what is derived from a shape is what its makers publish. They
// round, or cut off, to as few as two digits, GLM counts the layer that guesses ahead,
// and some leave the input table out of an active count.
func TestParameters(t *testing.T) {
	for i := range models {
		r := &models[i]
		p := r.shape.model(r.name, BF16).Params
		tolerance := 0.012
		if r.name == "Kimi-K2" { // published as 1T
			tolerance = 0.03
		}
		if got := p.Total / 1e9; math.Abs(got/r.total-1) > tolerance {
			t.Errorf("%s: %.2f billion parameters, published %g", r.name, got, r.total)
		}
		if (r.active > 0) != (p.Count > 0) {
			t.Errorf("%s: %d experts, %g active", r.name, p.Count, r.active)
		}
		if r.active == 0 {
			continue
		}
		whole, without := p.Active()/1e9, (p.Active()-p.Input)/1e9
		if min(math.Abs(whole/r.active-1), math.Abs(without/r.active-1)) > 0.07 {
			t.Errorf("%s: %.2f billion active, %.2f without the input table, published %g", r.name, whole, without, r.active)
		}
	}
}

// TestDecoder: the shape that a plain decoder is built from has the parameters that the
// table says, and no other kind of model gives one.
func TestDecoder(t *testing.T) {
	for _, name := range Names() {
		m, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		plain := m.Params.Count == 0 && len(m.Attention) == 1 && m.Attention[0].Kind == Grouped && m.Attention[0].Window == 0
		d := m.Decoder
		if (d != nil) != plain {
			t.Errorf("%s: %+v", name, d)
		}
		if d == nil {
			continue
		}
		layer := d.Hidden*d.HeadDim*2*(d.Heads+d.KVHeads) + 3*d.Hidden*d.Inner
		tables := 2
		if d.Tied {
			tables = 1
		}
		if got := float64(d.Layers*layer + tables*d.Vocab*d.Hidden); got != m.Params.Total {
			t.Errorf("%s: %g parameters, want %g", name, got, m.Params.Total)
		}
	}
}

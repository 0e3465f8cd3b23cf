package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// fieldError is about one field of a config.
type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }

func field(name, format string, args ...any) error {
	return &fieldError{name, fmt.Errorf(format, args...)}
}

var errMissing = errors.New("is missing")

// shape says the same as the config, with the defaults of the model's kind.
func (c *config) shape() (s shape, err error) {
	if err := c.understood(); err != nil {
		return s, err
	}
	s = shape{layers: c.Layers, hidden: c.Hidden, vocab: c.Vocab, heads: c.Heads, kvHeads: c.KVHeads, headDim: c.HeadDim, inner: c.Inner}
	for _, need := range []struct {
		name  string
		value int
	}{{"num_hidden_layers", c.Layers}, {"hidden_size", c.Hidden}, {"num_attention_heads", c.Heads}, {"vocab_size", c.Vocab}} {
		if need.value == 0 {
			return s, &fieldError{need.name, errMissing}
		}
	}
	s.tied = c.Tied != nil && *c.Tied || c.Tied == nil && strings.HasPrefix(c.ModelType, "gemma")
	s.plainMLP = slices.Contains(plainMLPs, c.ModelType)
	s.gated = c.Gated || strings.HasPrefix(c.ModelType, "qwen3_next")
	for _, part := range []func(*shape) error{c.heads, c.layersOfKinds, c.experts} {
		if err := part(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// plainMLPs are kinds of models whose MLPs have two matrices in place of three.
var plainMLPs = []string{"starcoder2", "gpt_neox", "phi", "nemotron"}

// understood refuses what would be derived wrongly.
func (c *config) understood() error {
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"attention_chunk_size", c.Chunk > 0}, {"global_head_dim", c.GlobalDim > 0}, {"num_kv_shared_layers", c.SharedKV > 0},
		{"hybrid_override_pattern", c.Hybrid != ""}, {"block_configs", says(c.Blocks)}, {"attn_layer_period", c.MixPeriod > 0},
		{"ssm_state_size", c.StateSize > 0}, {"mamba_d_state", c.MambaState > 0}, {"is_encoder_decoder", c.BothWays}, {"compress_ratios", says(c.Compression)},
	} {
		if f.has {
			return field(f.name, "models that have it are not understood; give a measured time instead")
		}
	}
	return nil
}

func says(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// heads fills in what a head is.
func (c *config) heads(s *shape) error {
	if c.Latent == 0 {
		if s.kvHeads == 0 {
			s.kvHeads = s.heads
		}
		if s.headDim == 0 {
			if s.hidden%s.heads != 0 {
				return &fieldError{"head_dim", errMissing}
			}
			s.headDim = s.hidden / s.heads
		}
		return nil
	}
	s.kvHeads, s.headDim = 0, 0
	for _, need := range []struct {
		name  string
		value int
	}{{"qk_nope_head_dim", c.Plain}, {"qk_rope_head_dim", c.Rotary}, {"v_head_dim", c.Value}} {
		if need.value == 0 {
			return &fieldError{need.name, errMissing}
		}
	}
	s.latent, s.rotary, s.plain, s.value, s.queryRank = c.Latent, c.Rotary, c.Plain, c.Value, c.QueryRank
	s.indexHeads, s.indexDim, s.topK = c.IndexHeads, c.IndexDim, c.IndexTopK
	return nil
}

// The kinds of layers that configs list.
const (
	fullLayer   = "full_attention"
	windowLayer = "sliding_attention"
	linearLayer = "linear_attention"
)

// kindOf is the kind of layer i, where the config does not list them.
func (c *config) kindOf(i int) string {
	window := func(yes bool) string {
		if yes && c.Window > 0 {
			return windowLayer
		}
		return fullLayer
	}
	switch {
	case c.FullInterval > 1:
		if (i+1)%c.FullInterval != 0 {
			return linearLayer
		}
		return fullLayer
	case c.UseWindow != nil: // qwen: the first layers are full
		return window(*c.UseWindow && i >= c.FullLayers)
	case c.Pattern > 1:
		return window((i+1)%c.Pattern != 0)
	case strings.HasPrefix(c.ModelType, "gemma3"):
		return window((i+1)%6 != 0)
	case strings.HasPrefix(c.ModelType, "gemma2"), c.ModelType == "gpt_oss":
		return window(i%2 == 0)
	}
	return window(true)
}

// layersOfKinds counts windows and linear attention.
func (c *config) layersOfKinds(s *shape) error {
	if n := len(c.LayerTypes); n != 0 && n != c.Layers {
		return field("layer_types", "lists %d layers, and num_hidden_layers is %d", n, c.Layers)
	}
	for i := range min(c.Layers, layersMax) {
		kind := c.kindOf(i)
		if len(c.LayerTypes) > 0 {
			kind = c.LayerTypes[i]
		}
		switch kind {
		case windowLayer:
			s.windowed++
		case linearLayer:
			s.linear++
		case fullLayer:
		default:
			return field("layer_types", "%q is not understood; known are %s, %s and %s", kind, fullLayer, windowLayer, linearLayer)
		}
	}
	if s.windowed > 0 {
		if s.window = c.Window; s.window == 0 {
			return &fieldError{"sliding_window", errMissing}
		}
	}
	if s.latent > 0 && s.windowed+s.linear > 0 {
		return field("kv_lora_rank", "latent attention beside other kinds of layers is not understood")
	}
	if s.linear > 0 {
		return c.linear(s)
	}
	return nil
}

func (c *config) linear(s *shape) error {
	for _, need := range []struct {
		name  string
		value int
		at    *int
	}{{"linear_num_key_heads", c.LinearKeyHeads, &s.linearKeyHeads}, {"linear_key_head_dim", c.LinearKeyDim, &s.linearKeyDim},
		{"linear_num_value_heads", c.LinearHeads, &s.linearHeads}, {"linear_value_head_dim", c.LinearDim, &s.linearDim},
		{"linear_conv_kernel_dim", c.LinearKernel, &s.linearKernel}} {
		if need.value == 0 {
			return &fieldError{need.name, errMissing}
		}
		*need.at = need.value
	}
	s.linearFloatSize = 4
	if c.StateType == "bfloat16" || c.StateType == "float16" {
		s.linearFloatSize = 2
	}
	return nil
}

// experts fills in the MLPs.
func (c *config) experts(s *shape) error {
	s.experts = first(c.RoutedExperts, c.LocalExperts, c.Experts)
	if s.experts <= 1 {
		s.experts = 0
		if s.inner == 0 {
			return &fieldError{"intermediate_size", errMissing}
		}
		return nil
	}
	if s.perToken = first(c.PerToken, c.PerTokenAlso); s.perToken == 0 {
		return &fieldError{"num_experts_per_tok", errMissing}
	}
	if s.expert = first(c.ExpertInner, c.Inner); s.expert == 0 {
		return &fieldError{"moe_intermediate_size", errMissing}
	}
	s.shared = first(c.SharedInner, c.SharedAlso, c.SharedExperts*s.expert)
	var err error
	if s.dense, err = c.dense(); err != nil {
		return err
	}
	if s.dense > 0 && s.inner == 0 {
		return &fieldError{"intermediate_size", errMissing}
	}
	return nil
}

// dense counts the layers without experts.
func (c *config) dense() (n int, err error) {
	every, sparse := 1, []int(nil)
	if says(c.SparseFreq) {
		if json.Unmarshal(c.SparseFreq, &every) != nil && json.Unmarshal(c.SparseFreq, &sparse) != nil {
			return 0, field("moe_layer_freq", "is neither a number nor a list of them")
		}
	}
	if sparse != nil && len(sparse) != c.Layers {
		return 0, field("moe_layer_freq", "lists %d layers, and num_hidden_layers is %d", len(sparse), c.Layers)
	}
	step := max(c.SparseStep, 1)
	for i := range min(c.Layers, layersMax) {
		switch {
		case i < c.DenseFirst, slices.Contains(c.DenseLayers, i), (i+1)%step != 0, every > 1 && i%every != 0, sparse != nil && sparse[i] == 0:
			n++
		}
	}
	return n, nil
}

// first is the first that is not 0.
func first(values ...int) int {
	for _, v := range values {
		if v != 0 {
			return v
		}
	}
	return 0
}

// Bounds of a shape, far beyond any model, within which no product overflows.
const (
	layersMax = 1024
	widthMax  = 1 << 20
	headsMax  = 1 << 11
	dimMax    = 1 << 12
	tokensMax = 1 << 30
)

// check refuses what no model has.
func (s *shape) check() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"num_hidden_layers", s.layers, layersMax}, {"hidden_size", s.hidden, widthMax}, {"vocab_size", s.vocab, 1 << 26},
		{"num_attention_heads", s.heads, headsMax}, {"num_key_value_heads", s.kvHeads, s.heads}, {"head_dim", s.headDim, dimMax},
		{"sliding_window", s.window, tokensMax}, {"kv_lora_rank", s.latent, widthMax}, {"q_lora_rank", s.queryRank, widthMax},
		{"qk_rope_head_dim", s.rotary, dimMax}, {"qk_nope_head_dim", s.plain, dimMax}, {"v_head_dim", s.value, dimMax},
		{"index_n_heads", s.indexHeads, headsMax}, {"index_head_dim", s.indexDim, dimMax}, {"index_topk", s.topK, tokensMax},
		{"linear_num_key_heads", s.linearKeyHeads, headsMax}, {"linear_key_head_dim", s.linearKeyDim, dimMax},
		{"linear_num_value_heads", s.linearHeads, headsMax}, {"linear_value_head_dim", s.linearDim, dimMax}, {"linear_conv_kernel_dim", s.linearKernel, dimMax},
		{"intermediate_size", s.inner, 1 << 24}, {"moe_intermediate_size", s.expert, 1 << 24}, {"n_shared_experts", s.shared, 1 << 24},
		{"num_experts", s.experts, 1 << 16}, {"num_experts_per_tok", s.perToken, max(s.experts, 1)},
	} {
		if f.value < 0 || f.value > f.max {
			return field(f.name, "%d is out of range, 0 to %d", f.value, f.max)
		}
	}
	return nil
}

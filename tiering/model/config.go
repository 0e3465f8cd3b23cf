package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// configBytesMax is the longest config.json that is read; real ones have some
// KiB.
const configBytesMax = 4 << 20

// ConfigError says what is wrong with a config.json.
type ConfigError struct {
	Name  string // of the model, or its file
	Field string // that is missing or wrong; empty: it is no config at all
	Err   error
}

func (e *ConfigError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("config of %s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("config of %s: %s: %v", e.Name, e.Field, e.Err)
}

// Unwrap is the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Load reads a config.json in the form of Hugging Face. The model is named after
// the file, or after its folder if the file is called config.json. What is wrong
// with the text is a *ConfigError.
func Load(path string) (*Model, error) {
	text, err := ReadFile(path, configBytesMax)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	if full, err := filepath.Abs(path); err == nil && name == "config.json" {
		name = filepath.Base(filepath.Dir(full))
	}
	return FromConfig(name, text)
}

// ReadFile reads a whole small file; a pipe or a device gives what it has. One of more
// than bytesMax bytes is a *fs.PathError, as other faults are.
func ReadFile(path string, bytesMax int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, bytesMax+1))
	if err == nil && int64(len(text)) > bytesMax {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d bytes", bytesMax)}
	}
	return text, err
}

// config is a config.json, as far as it tells what a token costs. 0, null and a
// missing field are one: the field is not said.
type config struct {
	ModelType string  `json:"model_type"`
	Text      *config `json:"text_config"`
	Language  *config `json:"language_config"`

	Layers int   `json:"num_hidden_layers"`
	Hidden int   `json:"hidden_size"`
	Vocab  int   `json:"vocab_size"`
	Tied   *bool `json:"tie_word_embeddings"`
	Inner  int   `json:"intermediate_size"`

	Heads      int      `json:"num_attention_heads"`
	KVHeads    int      `json:"num_key_value_heads"`
	HeadDim    int      `json:"head_dim"`
	Gated      bool     `json:"attn_output_gate"`
	Window     int      `json:"sliding_window"`
	UseWindow  *bool    `json:"use_sliding_window"`
	FullLayers int      `json:"max_window_layers"`
	Pattern    int      `json:"sliding_window_pattern"`
	LayerTypes []string `json:"layer_types"`

	Latent     int `json:"kv_lora_rank"`
	QueryRank  int `json:"q_lora_rank"`
	Plain      int `json:"qk_nope_head_dim"`
	Rotary     int `json:"qk_rope_head_dim"`
	Value      int `json:"v_head_dim"`
	IndexHeads int `json:"index_n_heads"`
	IndexDim   int `json:"index_head_dim"`
	IndexTopK  int `json:"index_topk"`

	FullInterval   int    `json:"full_attention_interval"`
	LinearKeyHeads int    `json:"linear_num_key_heads"`
	LinearKeyDim   int    `json:"linear_key_head_dim"`
	LinearHeads    int    `json:"linear_num_value_heads"`
	LinearDim      int    `json:"linear_value_head_dim"`
	LinearKernel   int    `json:"linear_conv_kernel_dim"`
	StateType      string `json:"mamba_ssm_dtype"`

	Experts       int             `json:"num_experts"`
	LocalExperts  int             `json:"num_local_experts"`
	RoutedExperts int             `json:"n_routed_experts"`
	PerToken      int             `json:"num_experts_per_tok"`
	PerTokenAlso  int             `json:"experts_per_token"`
	ExpertInner   int             `json:"moe_intermediate_size"`
	SharedExperts int             `json:"n_shared_experts"`
	SharedInner   int             `json:"shared_expert_intermediate_size"`
	SharedAlso    int             `json:"shared_intermediate_size"`
	DenseFirst    int             `json:"first_k_dense_replace"`
	DenseLayers   []int           `json:"mlp_only_layers"`
	SparseStep    int             `json:"decoder_sparse_step"`
	SparseFreq    json.RawMessage `json:"moe_layer_freq"` // a number, or one of 0 and 1 for each layer

	Quantization *quantization `json:"quantization_config"`

	// What is not understood: a model that has it costs something else than what
	// would be derived.
	Chunk       int             `json:"attention_chunk_size"`
	GlobalDim   int             `json:"global_head_dim"`
	SharedKV    int             `json:"num_kv_shared_layers"`
	Hybrid      string          `json:"hybrid_override_pattern"`
	Blocks      json.RawMessage `json:"block_configs"`
	MixPeriod   int             `json:"attn_layer_period"`
	StateSize   int             `json:"ssm_state_size"`
	MambaState  int             `json:"mamba_d_state"`
	BothWays    bool            `json:"is_encoder_decoder"`
	Compression json.RawMessage `json:"compress_ratios"`
}

// quantization says how weights are kept.
type quantization struct {
	Method    string `json:"quant_method"`
	Algorithm string `json:"quant_algo"`
	Bits      int    `json:"bits"`
	Groups    map[string]struct {
		Weights *struct {
			Bits int `json:"num_bits"`
		} `json:"weights"`
	} `json:"config_groups"`
}

// FromConfig derives a model from a config.json in the form of Hugging Face, of
// language models and of those that nest one (text_config, language_config).
// The error is a *ConfigError that names the field at fault.
func FromConfig(name string, text []byte) (*Model, error) {
	var c config
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&c); err != nil {
		e := &ConfigError{Name: name, Err: err}
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			e.Field, e.Err = wrong.Field, fmt.Errorf("cannot be a %s", wrong.Value)
		}
		return nil, e
	}
	inner := c.language()
	s, err := inner.shape()
	if err == nil {
		err = s.check()
	}
	if err != nil {
		var field *fieldError
		if errors.As(err, &field) {
			return nil, &ConfigError{Name: name, Field: field.field, Err: field.err}
		}
		return nil, &ConfigError{Name: name, Err: err}
	}
	return s.model(name, inner.Quantization.precision()), nil
}

// language is the part about language, with what the whole says of it.
func (c *config) language() *config {
	inner := c.Text
	if inner == nil {
		inner = c.Language
	}
	if inner == nil || c.Layers > 0 {
		return c
	}
	if inner.ModelType == "" {
		inner.ModelType = c.ModelType
	}
	if inner.Tied == nil {
		inner.Tied = c.Tied
	}
	if inner.Quantization == nil {
		inner.Quantization = c.Quantization
	}
	return inner
}

// precision of weights; BF16 if nothing is said.
func (q *quantization) precision() Precision {
	if q == nil {
		return BF16
	}
	bits := q.Bits
	for _, g := range q.Groups {
		if g.Weights != nil {
			bits = g.Weights.Bits
		}
	}
	switch q.Method {
	case "fp8", "fbgemm_fp8":
		return FP8
	case "mxfp4":
		return FP4
	}
	switch q.Algorithm {
	case "FP8":
		bits = 8
	case "NVFP4":
		bits = 4
	}
	switch bits {
	case 4:
		return FP4
	case 8:
		return FP8
	}
	return BF16
}

package model

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// configs are written by hand in the form of each kind of model, with facts of
// published ones, and must give what the table says of it.
var configs = map[string]string{
	"Llama-3.1-70B": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
		"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false, "rope_scaling": {"factor": 8.0}, "torch_dtype": "bfloat16"}`,
	// Without num_key_value_heads: as many as query heads.
	"Llama-2-7B": `{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}`,
	"Mistral-Large-2407": `{"model_type": "mistral", "hidden_size": 12288, "intermediate_size": 28672, "num_hidden_layers": 88, "num_attention_heads": 96,
		"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32768, "sliding_window": null}`,
	"Mixtral-8x7B": `{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
		"num_key_value_heads": 8, "num_experts_per_tok": 2, "num_local_experts": 8, "vocab_size": 32000, "sliding_window": null}`,
	// A window that is switched off.
	"Qwen2.5-7B": `{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
		"vocab_size": 152064, "sliding_window": 131072, "use_sliding_window": false, "max_window_layers": 28, "tie_word_embeddings": false}`,
	"Qwen3-235B-A22B": `{"model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94, "head_dim": 128,
		"num_attention_heads": 64, "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936}`,
	"DeepSeek-R1": `{"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
		"num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
		"n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1, "num_nextn_predict_layers": 1, "vocab_size": 129280,
		"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}}`,
	// The language model is nested, and its weights are in groups of 4 bits.
	"Kimi-K2-FP4": `{"model_type": "kimi_k25", "vision_config": {"hidden_size": 1152}, "tie_word_embeddings": false, "text_config": {"model_type": "kimi_k2", "hidden_size": 7168,
		"intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536,
		"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
		"vocab_size": 163840, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}}}}}`,
	"GLM-5": `{"model_type": "glm_moe_dsa", "hidden_size": 6144, "intermediate_size": 12288, "moe_intermediate_size": 2048, "num_hidden_layers": 78, "num_attention_heads": 64,
		"head_dim": 64, "kv_lora_rank": 512, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "index_head_dim": 128, "index_n_heads": 32,
		"index_topk": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "vocab_size": 154880, "dtype": "bfloat16"}`,
	// Alternating windows that the config does not list; the input table is the output's.
	"Gemma-2-9B": `{"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8,
		"head_dim": 256, "sliding_window": 4096, "vocab_size": 256000}`,
	"Gemma-3-27B": `{"model_type": "gemma3", "vision_config": {}, "text_config": {"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
		"num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024, "vocab_size": 262208}}`,
	"gpt-oss-20b": `{"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
		"head_dim": 64, "sliding_window": 128, "num_local_experts": 32, "experts_per_token": 4, "vocab_size": 201088, "quantization_config": {"quant_method": "mxfp4"},
		"layer_types": [` + kinds(24, 2) + `]}`,
	"GLM-4.5-Air": `{"model_type": "glm4_moe", "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 46, "num_attention_heads": 96,
		"num_key_value_heads": 8, "head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1, "vocab_size": 151552}`,
	"MiniMax-M2.5": `{"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8,
		"head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8, "shared_intermediate_size": 0, "vocab_size": 200064, "quantization_config": {"quant_method": "fp8"}}`,
	"Qwen3.5-397B-A17B": `{"model_type": "qwen3_5_moe", "tie_word_embeddings": false, "text_config": {"hidden_size": 4096, "num_hidden_layers": 60, "num_attention_heads": 32,
		"num_key_value_heads": 2, "head_dim": 256, "attn_output_gate": true, "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
		"linear_num_value_heads": 64, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32", "num_experts": 512, "num_experts_per_tok": 10,
		"moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024, "vocab_size": 248320}}`,
}

// kinds lists layers of which every n-th looks at all, the others at a window.
func kinds(layers, every int) string {
	var all []string
	for i := range layers {
		kind := windowLayer
		if (i+1)%every == 0 {
			kind = fullLayer
		}
		all = append(all, `"`+kind+`"`)
	}
	return strings.Join(all, ", ")
}

// TestConfigs: a config gives the model that the table has under that name.
func TestConfigs(t *testing.T) {
	for name, text := range configs {
		want, err := Find(name)
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := FromConfig(want.Name, []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, the table has\n%+v", name, got, want)
		}
	}
}

// TestConfigWindows: the ways in which a config says that layers have a window.
func TestConfigWindows(t *testing.T) {
	const plain = `"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000`
	for more, windowed := range map[string]int{
		`, "model_type": "mistral", "sliding_window": 4096`:                                                    32,
		`, "model_type": "mistral", "sliding_window": null`:                                                    0,
		`, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 20`: 12,
		`, "model_type": "cohere2", "sliding_window": 4096, "sliding_window_pattern": 4`:                       24,
		`, "model_type": "gemma2", "sliding_window": 4096`:                                                     16,
		`, "sliding_window": 512, "layer_types": [` + kinds(32, 8) + `]`:                                       28,
	} {
		m, err := FromConfig("x", []byte("{"+plain+more+"}"))
		if err != nil {
			t.Errorf("%s: %v", more, err)
			continue
		}
		got := 0
		for _, a := range m.Attention {
			if a.Window > 0 {
				got += a.Layers
			}
		}
		if got != windowed || m.Layers() != 32 {
			t.Errorf("%s: %d of %d layers have a window, want %d of 32", more, got, m.Layers(), windowed)
		}
	}
}

// TestConfigDense: the ways in which a config says that layers have no experts.
func TestConfigDense(t *testing.T) {
	const plain = `"hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 10, "num_experts": 4, "num_experts_per_tok": 1`
	for more, routed := range map[string]float64{
		``: 6, `, "first_k_dense_replace": 2`: 4, `, "mlp_only_layers": [0, 5]`: 4, `, "decoder_sparse_step": 2`: 3,
		`, "moe_layer_freq": 3`: 2, `, "moe_layer_freq": [0, 1, 1, 1, 1, 0]`: 4, `, "moe_layer_freq": null`: 6,
	} {
		m, err := FromConfig("x", []byte("{"+plain+more+"}"))
		if err != nil {
			t.Errorf("%s: %v", more, err)
			continue
		}
		if got := m.Params.Experts / (4 * 3 * 64 * 32); got != routed {
			t.Errorf("%s: %g layers have experts, want %g", more, got, routed)
		}
	}
}

// TestConfigPrecision: what the weights are kept in.
func TestConfigPrecision(t *testing.T) {
	const plain = `"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 10`
	for more, want := range map[string]Precision{
		``: BF16, `, "quantization_config": {"quant_method": "fp8"}`: FP8, `, "quantization_config": {"quant_method": "awq", "bits": 4}`: FP4,
		`, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}`: FP4, `, "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}`: FP8,
		`, "quantization_config": {"quant_method": "gptq", "bits": 8}`: FP8, `, "quantization_config": null`: BF16,
	} {
		if m, err := FromConfig("x", []byte("{"+plain+more+"}")); err != nil || m.Weights != want {
			t.Errorf("%s: %+v, %v, want %v", more, m, err, want)
		}
	}
}

// TestConfigRefused: each fault names its field.
func TestConfigRefused(t *testing.T) {
	base := map[string]string{"hidden_size": "64", "intermediate_size": "128", "num_hidden_layers": "4", "num_attention_heads": "4", "vocab_size": "10"}
	for _, c := range []struct{ field, value, says string }{
		{"hidden_size", "", "hidden_size: is missing"},
		{"num_hidden_layers", "", "num_hidden_layers: is missing"},
		{"num_attention_heads", "null", "num_attention_heads: is missing"},
		{"vocab_size", "", "vocab_size: is missing"},
		{"intermediate_size", "", "intermediate_size: is missing"},
		{"num_attention_heads", "7", "head_dim: is missing"},
		{"hidden_size", `"wide"`, "hidden_size: cannot be a string"},
		{"hidden_size", "-64", "hidden_size: -64 is out of range"},
		{"num_hidden_layers", "5000", "num_hidden_layers: 5000 is out of range, 0 to 1024"},
		{"num_hidden_layers", "-1", "num_hidden_layers: -1 is out of range"},
		{"vocab_size", "100000000", "vocab_size: 100000000 is out of range"},
		{"num_key_value_heads", "5", "num_key_value_heads: 5 is out of range, 0 to 4"},
		{"kv_lora_rank", "512", "qk_nope_head_dim: is missing"},
		{"num_experts", "8", "num_experts_per_tok: is missing"},
		{"full_attention_interval", "4", "linear_num_key_heads: is missing"},
		{"layer_types", `["full_attention"]`, "layer_types: lists 1 layers, and num_hidden_layers is 4"},
		{"layer_types", `["mamba", "a", "b", "c"]`, `layer_types: "mamba" is not understood`},
		{"layer_types", `[` + kinds(4, 2) + `]`, "sliding_window: is missing"},
		{"hybrid_override_pattern", `"M*M*"`, "hybrid_override_pattern: models that have it are not understood"},
		{"attention_chunk_size", "8192", "attention_chunk_size: models"},
		{"block_configs", "[{}]", "block_configs: models"},
		{"is_encoder_decoder", "true", "is_encoder_decoder: models"},
		{"text_config", `{"num_hidden_layers": "x"}`, "text_config.num_hidden_layers: cannot be a string"},
	} {
		fields := []string{}
		for name, value := range base {
			if name != c.field {
				fields = append(fields, `"`+name+`": `+value)
			}
		}
		if c.value != "" {
			fields = append(fields, `"`+c.field+`": `+c.value)
		}
		_, err := FromConfig("x", []byte("{"+strings.Join(fields, ", ")+"}"))
		var wrong *ConfigError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "config of x: "+c.says) {
			t.Errorf("%s %s: %v, want %q", c.field, c.value, err, c.says)
		}
	}
	for _, text := range []string{"", "[]", "{", `{"text_config": null}`, `"x"`} {
		if _, err := FromConfig("x", []byte(text)); err == nil {
			t.Errorf("%q is a config", text)
		}
	}
}

// TestLoad: names after files and folders, and bounded files.
func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "My-Model")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"config.json": "My-Model", "other.json": "other.json"} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(configs["Llama-2-7B"]), 0o666); err != nil {
			t.Fatal(err)
		}
		if m, err := Load(path); err != nil || m.Name != want {
			t.Errorf("%s: %v, %v", file, m, err)
		}
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// FuzzConfig: any text is an error or a model whose figures are numbers.
func FuzzConfig(f *testing.F) {
	for _, text := range configs {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := FromConfig("x", text)
		if err != nil {
			return
		}
		s := Setup{Model: m, GPU: &gpus[0].GPU, Tensor: 8, Batch: 32, Context: ContextMax}
		if s.Validate() != nil {
			return
		}
		d, p := s.Decode(), s.Prefill(ContextMax)
		if m.Layers() < 1 || m.Params.Total < 1 || d.WeightBytes < 1 || d.KVBytes < 0 || d.PerToken < 1 || p.Time < 1 || math.IsNaN(s.BreakEven(1)) || s.BreakEven(1) < 0 {
			t.Errorf("%+v: %+v, %+v", m, d, p)
		}
	})
}

package model

// row is a model with more of what it is called, and the parameter counts, in
// 10^9, that its makers give; active is 0 for dense ones.
type row struct {
	name          string
	also          []string
	shape         shape
	total, active float64
	weights       Precision
}

// models are the models that are known. The shapes are facts of their configs; the
// published counts are there to prove what is derived from the shapes.
var models = []row{
	{"Llama-2-7B", nil, shape{layers: 32, hidden: 4096, vocab: 32000, heads: 32, kvHeads: 32, headDim: 128, inner: 11008}, 6.7, 0, BF16},
	{"Llama-2-70B", nil, shape{layers: 80, hidden: 8192, vocab: 32000, heads: 64, kvHeads: 8, headDim: 128, inner: 28672}, 69, 0, BF16},
	{"Llama-3.1-8B", []string{"Llama-3-8B", "Llama-8B"},
		shape{layers: 32, hidden: 4096, vocab: 128256, heads: 32, kvHeads: 8, headDim: 128, inner: 14336}, 8.0, 0, BF16},
	{"Llama-3.1-70B", []string{"Llama-3-70B", "Llama-3.3-70B", "Llama-70B"},
		shape{layers: 80, hidden: 8192, vocab: 128256, heads: 64, kvHeads: 8, headDim: 128, inner: 28672}, 70.6, 0, BF16},
	{"Llama-3.1-405B", []string{"Llama-405B"},
		shape{layers: 126, hidden: 16384, vocab: 128256, heads: 128, kvHeads: 8, headDim: 128, inner: 53248}, 406, 0, BF16},
	{"Mistral-7B", nil, shape{layers: 32, hidden: 4096, vocab: 32000, heads: 32, kvHeads: 8, headDim: 128, inner: 14336}, 7.2, 0, BF16},
	{"Mistral-Large-2407", []string{"Mistral-Large"},
		shape{layers: 88, hidden: 12288, vocab: 32768, heads: 96, kvHeads: 8, headDim: 128, inner: 28672}, 123, 0, BF16},
	{"Mixtral-8x7B", nil,
		shape{layers: 32, hidden: 4096, vocab: 32000, heads: 32, kvHeads: 8, headDim: 128, experts: 8, perToken: 2, expert: 14336}, 46.7, 12.9, BF16},
	{"Mixtral-8x22B", nil,
		shape{layers: 56, hidden: 6144, vocab: 32000, heads: 48, kvHeads: 8, headDim: 128, experts: 8, perToken: 2, expert: 16384}, 141, 39, BF16},
	{"Qwen2.5-7B", nil, shape{layers: 28, hidden: 3584, vocab: 152064, heads: 28, kvHeads: 4, headDim: 128, inner: 18944}, 7.6, 0, BF16},
	{"Qwen2.5-14B", nil, shape{layers: 48, hidden: 5120, vocab: 152064, heads: 40, kvHeads: 8, headDim: 128, inner: 13824}, 14.7, 0, BF16},
	{"Qwen2.5-32B", nil, shape{layers: 64, hidden: 5120, vocab: 152064, heads: 40, kvHeads: 8, headDim: 128, inner: 27648}, 32.5, 0, BF16},
	{"Qwen2.5-72B", nil, shape{layers: 80, hidden: 8192, vocab: 152064, heads: 64, kvHeads: 8, headDim: 128, inner: 29568}, 72.7, 0, BF16},
	{"Qwen3-8B", nil, shape{layers: 36, hidden: 4096, vocab: 151936, heads: 32, kvHeads: 8, headDim: 128, inner: 12288}, 8.2, 0, BF16},
	{"Qwen3-14B", nil, shape{layers: 40, hidden: 5120, vocab: 151936, heads: 40, kvHeads: 8, headDim: 128, inner: 17408}, 14.8, 0, BF16},
	{"Qwen3-32B", nil, shape{layers: 64, hidden: 5120, vocab: 151936, heads: 64, kvHeads: 8, headDim: 128, inner: 25600}, 32.8, 0, BF16},
	{"Qwen3-30B-A3B", nil,
		shape{layers: 48, hidden: 2048, vocab: 151936, heads: 32, kvHeads: 4, headDim: 128, experts: 128, perToken: 8, expert: 768}, 30.5, 3.3, BF16},
	{"Qwen3-235B-A22B", nil,
		shape{layers: 94, hidden: 4096, vocab: 151936, heads: 64, kvHeads: 4, headDim: 128, experts: 128, perToken: 8, expert: 1536}, 235, 22, BF16},
	{"Qwen3.5-397B-A17B", nil,
		shape{layers: 60, hidden: 4096, vocab: 248320, heads: 32, kvHeads: 2, headDim: 256, gated: true,
			linear: 45, linearKeyHeads: 16, linearKeyDim: 128, linearHeads: 64, linearDim: 128, linearKernel: 4, linearFloatSize: 4,
			experts: 512, perToken: 10, expert: 1024, shared: 1024}, 397, 17, BF16},
	{"Gemma-2-9B", nil,
		shape{layers: 42, hidden: 3584, vocab: 256000, tied: true, heads: 16, kvHeads: 8, headDim: 256, window: 4096, windowed: 21, inner: 14336}, 9.2, 0, BF16},
	{"Gemma-2-27B", nil,
		shape{layers: 46, hidden: 4608, vocab: 256000, tied: true, heads: 32, kvHeads: 16, headDim: 128, window: 4096, windowed: 23, inner: 36864}, 27.2, 0, BF16},
	{"Gemma-3-27B", nil,
		shape{layers: 62, hidden: 5376, vocab: 262208, tied: true, heads: 32, kvHeads: 16, headDim: 128, window: 1024, windowed: 52, inner: 21504}, 27, 0, BF16},
	{"gpt-oss-20b", nil,
		shape{layers: 24, hidden: 2880, vocab: 201088, heads: 64, kvHeads: 8, headDim: 64, window: 128, windowed: 12, experts: 32, perToken: 4, expert: 2880}, 20.9, 3.6, FP4},
	{"gpt-oss-120b", nil,
		shape{layers: 36, hidden: 2880, vocab: 201088, heads: 64, kvHeads: 8, headDim: 64, window: 128, windowed: 18, experts: 128, perToken: 4, expert: 2880}, 116.8, 5.1, FP4},
	{"GLM-4.5-Air", nil,
		shape{layers: 46, hidden: 4096, vocab: 151552, heads: 96, kvHeads: 8, headDim: 128, inner: 10944, experts: 128, perToken: 8, expert: 1408, shared: 1408, dense: 1}, 106, 12, BF16},
	{"GLM-4.5", []string{"GLM-4.6"},
		shape{layers: 92, hidden: 5120, vocab: 151552, heads: 96, kvHeads: 8, headDim: 128, inner: 12288, experts: 160, perToken: 8, expert: 1536, shared: 1536, dense: 3}, 355, 32, BF16},
	{"MiniMax-M2.5", []string{"MiniMax-M2"},
		shape{layers: 62, hidden: 3072, vocab: 200064, heads: 48, kvHeads: 8, headDim: 128, experts: 256, perToken: 8, expert: 1536}, 230, 10, FP8},
	{"DeepSeek-R1", []string{"DeepSeek-V3", "DeepSeek-V3.1"}, deepseek(shape{}), 671, 37, FP8},
	{"DeepSeek-V3.2", nil, deepseek(shape{indexHeads: 64, indexDim: 128, topK: 2048}), 671, 37, FP8},
	{"Kimi-K2", []string{"Kimi-K2.5"},
		shape{layers: 61, hidden: 7168, vocab: 163840, heads: 64, latent: 512, rotary: 64, plain: 128, value: 128, queryRank: 1536,
			inner: 18432, experts: 384, perToken: 8, expert: 2048, shared: 2048, dense: 1}, 1000, 32, FP8},
	{"GLM-5", nil,
		shape{layers: 78, hidden: 6144, vocab: 154880, heads: 64, latent: 512, rotary: 64, plain: 192, value: 256, queryRank: 2048,
			indexHeads: 32, indexDim: 128, topK: 2048, inner: 12288, experts: 256, perToken: 8, expert: 2048, shared: 2048, dense: 3}, 744, 40, BF16},
	{"Qwen3-Coder-480B-A35B", nil,
		shape{layers: 62, hidden: 6144, vocab: 151936, heads: 96, kvHeads: 8, headDim: 128, experts: 160, perToken: 8, expert: 2560}, 480, 35, BF16},
}

// deepseek is the shape of DeepSeek-V3, with an indexer or without.
func deepseek(s shape) shape {
	s.layers, s.hidden, s.vocab, s.heads = 61, 7168, 129280, 128
	s.latent, s.rotary, s.plain, s.value, s.queryRank = 512, 64, 128, 128, 1536
	s.inner, s.experts, s.perToken, s.expert, s.shared, s.dense = 18432, 256, 8, 2048, 2048, 3
	return s
}

package budget

import (
	"slices"
	"time"

	"github.com/spillway-kv/spillway/tiering/model"
)

// Derivation is a budget with all that it was derived from, and what follows from it.
type Derivation struct {
	Type     string          `json:"type"`               // budget
	TokenMS  float64         `json:"token_ms"`           // the budget: milliseconds of one token
	Source   Source          `json:"source"`             // number, metric, measurement, roofline or mlperf
	Where    string          `json:"where"`              // where it comes from, in words
	Notes    []string        `json:"notes"`              // what to know beside, a sentence each
	Metric   *MetricFacts    `json:"metric,omitempty"`   // of source metric
	Model    *ModelFacts     `json:"model,omitempty"`    // of --model or --model-config
	GPU      *GPUFacts       `json:"gpu,omitempty"`      // of --gpu
	Setup    *SetupFacts     `json:"setup,omitempty"`    // how the model runs
	Roofline *RooflineFacts  `json:"roofline,omitempty"` // of a decode step
	Limit    *LimitFacts     `json:"limit,omitempty"`    // MLPerf's
	Blocks   []BlockFacts    `json:"blocks,omitempty"`   // of the model
	Prefixes []PrefixFacts   `json:"prefixes,omitempty"` // load or recompute
	Prompts  []StoredPrefill `json:"prompts,omitempty"`  // measured ones, of source measurement
	Drives   []DriveFacts    `json:"drives"`             // what the budget means for a drive of such a rate
}

// MetricFacts is what was scraped.
type MetricFacts struct {
	Engine       string  `json:"engine"`         // vllm, sglang, tensorrt-llm or tgi
	Name         string  `json:"name"`           // of the metric
	Labels       string  `json:"labels"`         // of the series that count; empty: all
	Statistic    string  `json:"statistic"`      // mean, or p and a number
	Observations float64 `json:"observations"`   // counted
	OverS        float64 `json:"over_s"`         // seconds between two scrapes; 0: since the engine started
	LowMS        float64 `json:"bucket_low_ms"`  // of a quantile: the bucket it lies in
	HighMS       float64 `json:"bucket_high_ms"` // of a quantile; 0: that bucket has no end
}

// ModelFacts is what is known of a model.
type ModelFacts struct {
	Name       string  `json:"name"`                            // of the model
	Parameters float64 `json:"parameters"`                      // in all
	Active     float64 `json:"active"`                          // that one token meets
	Experts    int     `json:"experts,omitempty"`               // of a layer
	PerToken   int     `json:"experts_per_token,omitempty"`     // of them, that one token meets
	Layers     int     `json:"layers"`                          // of all kinds
	TokenBytes int64   `json:"kv_bytes_per_token"`              // in all layers
	FarBytes   int64   `json:"kv_bytes_per_far_token"`          // in layers that look back at all tokens
	IndexBytes int64   `json:"index_bytes_per_token,omitempty"` // of indexers
	StateBytes int64   `json:"state_bytes,omitempty"`           // of one sequence, of linear attention

	Decoder *model.Decoder `json:"decoder,omitempty"` // its shape; absent: it is no plain decoder
}

// FactsOfModel is what is known of m, with KV in some precision.
func FactsOfModel(m *model.Model, kv model.Precision) ModelFacts {
	p := &m.Params
	return ModelFacts{m.Name, p.Total, p.Active(), p.Count, p.PerToken, m.Layers(), m.TokenBytes(kv), m.FarBytes(kv), m.IndexBytes(), m.StateBytes(),
		m.Decoder}
}

// GPUFacts is what is known of a GPU.
type GPUFacts struct {
	Name     string  `json:"name"`          // as NVML has it
	GBps     float64 `json:"gb_per_s"`      // of its memory
	TFLOPS   float64 `json:"tflops"`        // dense, for these weights; 0: unknown
	LinkGBps float64 `json:"link_gb_per_s"` // to the host, each way, in theory; 0: unknown
	MemoryGB float64 `json:"memory_gb"`     // 0: unknown
	Source   string  `json:"source"`        // of these figures
}

// FactsOfGPU is what is known of g, with weights in some precision.
func FactsOfGPU(g *model.GPU, weights model.Precision) GPUFacts {
	return GPUFacts{g.Name, g.GBps, g.TFLOPS(weights), g.LinkGBps, g.MemoryGB, g.Source}
}

// SetupFacts is how a model runs.
type SetupFacts struct {
	TP      int    `json:"tp"`      // GPUs that share each layer
	PP      int    `json:"pp"`      // groups of GPUs
	Batch   int    `json:"batch"`   // sequences decoded at once
	Context int    `json:"context"` // tokens of each
	Weights string `json:"weights"` // their precision
	KV      string `json:"kv"`      // its precision
}

// RooflineFacts is a decode step.
type RooflineFacts struct {
	Parameters     float64 `json:"parameters"`      // that it reads
	WeightBytes    int64   `json:"weight_bytes"`    // that it reads, over all GPUs
	KVBytes        int64   `json:"kv_bytes"`        // that it reads, of the whole batch
	KVGPUs         int     `json:"kv_gpus"`         // that share the KV
	BandwidthShare float64 `json:"bandwidth_share"` // of the GPU's memory bandwidth
	ComputeShare   float64 `json:"compute_share"`   // of the GPU's arithmetic
	MemoryMS       float64 `json:"memory_ms"`       // to read weights and KV
	ComputeMS      float64 `json:"compute_ms"`      // to multiply
	AllReduceMS    float64 `json:"all_reduce_ms"`   // between GPUs that share layers
	SendMS         float64 `json:"send_ms"`         // between groups of GPUs
	TokenMS        float64 `json:"token_ms"`        // in all
	Bound          string  `json:"bound"`           // memory bandwidth or arithmetic
}

// LimitFacts is what MLPerf allows a model, milliseconds as P99; 0: no such limit.
type LimitFacts struct {
	Model              string  `json:"model"`                // that MLPerf runs
	ServerFirstMS      float64 `json:"server_first_ms"`      // to the first token
	ServerTokenMS      float64 `json:"server_token_ms"`      // of each further one: preset server
	InteractiveFirstMS float64 `json:"interactive_first_ms"` // to the first token
	InteractiveTokenMS float64 `json:"interactive_token_ms"` // of each further one: preset default
}

// BlockFacts is a block of the model.
type BlockFacts struct {
	Tokens int   `json:"tokens"` // that it holds
	Bytes  int64 `json:"bytes"`  // of all layers
}

// PrefixFacts compares loading a prefix with computing it.
type PrefixFacts struct {
	Tokens    int     `json:"tokens"`                             // of the prefix
	Bytes     int64   `json:"bytes"`                              // of its blocks
	ComputeMS float64 `json:"compute_ms"`                         // to compute it
	GBps      float64 `json:"break_even_gb_per_s"`                // read rate from which loading is faster
	PeakGBps  float64 `json:"peak_break_even_gb_per_s,omitempty"` // the same for a GPU at its peak, by Mooncake's criterion
}

// DriveFacts is what the budget means for a drive.
type DriveFacts struct {
	GBps          float64 `json:"gb_per_s"`                    // that it reads
	InFlightBytes int64   `json:"in_flight_bytes"`             // that may be outstanding, by Little's law
	Blocks        []int64 `json:"in_flight_blocks,omitempty"`  // of the sizes in blocks: how many may be outstanding
	WorthFrom     int     `json:"worth_from_tokens,omitempty"` // the shortest prefix that it loads faster than it is computed; absent: none, or unknown
}

// The sizes of what is derived.
var (
	blockTokens  = []int{16, 64, 256}
	prefixTokens = []int{1024, 8192, 32768, 131072}
)

// Derive writes down how b came about and what follows for drives that read so many
// bytes a second.
func (b *Budget) Derive(driveRates []float64) *Derivation {
	d := &Derivation{Type: "budget", TokenMS: inMS(b.PerToken), Source: b.Source, Where: b.Where, Notes: append([]string{}, b.Notes...),
		Prompts: b.Prefill, Drives: []DriveFacts{}}
	if r := b.Metric; r != nil {
		d.Metric = &MetricFacts{r.Engine, r.Name, r.Labels, r.Statistic, r.Count, r.Over.Seconds(), inMS(r.LowerBound), inMS(r.UpperBound)}
	}
	if b.Setup != nil {
		d.describe(b.Setup)
	}
	for _, rate := range driveRates {
		f := DriveFacts{GBps: rate / 1e9, InFlightBytes: InFlight(rate, b.PerToken)}
		for _, block := range d.Blocks {
			f.Blocks = append(f.Blocks, f.InFlightBytes/max(block.Bytes, 1))
		}
		if b.Setup != nil {
			f.WorthFrom, _ = b.Setup.WorthFrom(rate, 0)
		}
		d.Drives = append(d.Drives, f)
	}
	return d
}

// describe adds what follows from the setup.
func (d *Derivation) describe(s *model.Setup) {
	m := s.Model
	ofModel, ofGPU := FactsOfModel(m, s.KV), FactsOfGPU(s.GPU, s.Weights)
	d.Model, d.GPU = &ofModel, &ofGPU
	d.Setup = &SetupFacts{s.Tensor, s.Pipeline, s.Batch, s.Context, s.Weights.String(), s.KV.String()}
	step := s.Decode()
	d.Roofline = &RooflineFacts{step.Parameters, step.WeightBytes, step.KVBytes, step.KVSpread, s.Assume.Bandwidth, s.Assume.Decode,
		inMS(step.Memory), inMS(step.Compute), inMS(step.AllReduce), inMS(step.Send), inMS(step.PerToken), string(step.Bound)}
	if l := LimitOf(m); l != nil {
		d.Limit = &LimitFacts{l.Model, inMS(l.ServerFirst), inMS(l.ServerToken), inMS(l.InteractiveFirst), inMS(l.InteractiveToken)}
	}
	for _, n := range blockTokens {
		d.Blocks = append(d.Blocks, BlockFacts{n, m.BlockBytes(n, s.KV)})
	}
	lengths := append(slices.Clone(prefixTokens), s.Context)
	slices.Sort(lengths)
	for _, n := range slices.Compact(lengths) {
		even := s.BreakEven(n)
		if even == 0 {
			continue // the GPU's arithmetic is unknown, or the model keeps nothing
		}
		f := PrefixFacts{Tokens: n, Bytes: m.BlockBytes(n, s.KV), ComputeMS: inMS(s.Prefill(n).Time), GBps: even / 1e9}
		if peak, ok := s.PeakBreakEven(n); ok {
			f.PeakGBps = peak / 1e9
		}
		d.Prefixes = append(d.Prefixes, f)
	}
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package model

import (
	"errors"
	"fmt"
	"time"
)

// Setup is a model that runs somewhere.
type Setup struct {
	Model    *Model
	GPU      *GPU
	Tensor   int       // GPUs that share each layer (TP); 0: 1
	Pipeline int       // groups of GPUs with layers of their own (PP); 0: 1
	Batch    int       // sequences decoded at once; 0: 1
	Context  int       // tokens of each of them
	Weights  Precision // Unset: Model.Weights
	KV       Precision // Unset: BF16
	Assume   Assumptions
}

// Assumptions are the constants of the roofline that no datasheet has. A zero
// value means the default.
type Assumptions struct {
	// Bandwidth is the share of a GPU's memory bandwidth that a decode step gets:
	// 0.8, aiconfigurator's own correction.
	Bandwidth float64
	// Decode and Prefill are shares of peak arithmetic: 0.6, the middle of 0.5 to
	// 0.7, which is from memory.
	Decode, Prefill float64
	// AllReduce is the time of one all-reduce, two for each layer where Tensor is
	// over 1: 5 us, from memory (5 to 10 us). Negative: none.
	AllReduce time.Duration
	// Send is the time between two groups of a pipeline: 10 us, aiconfigurator's
	// latency between two GPUs.
	Send time.Duration
	// Fixed is what a step costs beside: 0 in place of 0.2 to 1 ms from memory, as
	// the roofline is a bound.
	Fixed time.Duration
}

// withDefaults fills in what is not set.
func (a Assumptions) withDefaults() Assumptions {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&a.Bandwidth, 0.8)
	set(&a.Decode, 0.6)
	set(&a.Prefill, 0.6)
	if a.AllReduce == 0 {
		a.AllReduce = 5 * time.Microsecond
	}
	a.AllReduce = max(a.AllReduce, 0)
	if a.Send == 0 {
		a.Send = 10 * time.Microsecond
	}
	return a
}

// The bounds of a Setup.
const (
	GPUsMax    = 1024
	BatchMax   = 1 << 16
	ContextMax = 1 << 25
	bytesMax   = 1e18 // of KV
)

// WithDefaults fills in what is not set.
func (s Setup) WithDefaults() Setup {
	s.Tensor, s.Pipeline, s.Batch = max(s.Tensor, 1), max(s.Pipeline, 1), max(s.Batch, 1)
	s.KV = s.KV.or(BF16)
	if s.Model != nil {
		s.Weights = s.Weights.or(s.Model.Weights).or(BF16)
	}
	s.Assume = s.Assume.withDefaults()
	return s
}

// Validate says what is wrong with s.
func (s Setup) Validate() error {
	switch {
	case s.Model == nil:
		return errors.New("no model")
	case s.GPU == nil:
		return errors.New("no GPU")
	case s.Tensor < 0 || s.Pipeline < 0 || s.Tensor*max(s.Pipeline, 1) > GPUsMax || s.Pipeline > GPUsMax:
		return fmt.Errorf("TP %d and PP %d: want 1 to %d GPUs together", s.Tensor, s.Pipeline, GPUsMax)
	case s.Pipeline > s.Model.Layers():
		return fmt.Errorf("PP %d: %s has %d layers", s.Pipeline, s.Model.Name, s.Model.Layers())
	case s.Batch < 0 || s.Batch > BatchMax:
		return fmt.Errorf("a batch of %d: want 1 to %d", s.Batch, BatchMax)
	case s.Context < 0 || s.Context > ContextMax:
		return fmt.Errorf("a context of %d tokens: want 0 to %d", s.Context, ContextMax)
	case float64(max(s.Batch, 1))*float64(s.Model.KeptBytes(s.Context, s.KV)) > bytesMax:
		return fmt.Errorf("a batch of %d with a context of %d tokens: the KV of that is in no computer", s.Batch, s.Context)
	}
	return nil
}

// Bound says what a step waits for.
type Bound string

// The bounds.
const (
	MemoryBound  Bound = "memory bandwidth"
	ComputeBound Bound = "arithmetic"
)

// Step is one decode step: the time from one token of a sequence to its next.
type Step struct {
	Batch       int     // sequences that a pass through a pipeline carries
	Parameters  float64 // read: all of a dense model, the experts met of others
	WeightBytes int64   // read, over all GPUs
	KVBytes     int64   // read, of all sequences of a pass
	KVSpread    int     // over how many GPUs that is spread
	Memory      time.Duration
	Compute     time.Duration
	AllReduce   time.Duration // all of them together
	Send        time.Duration // between the groups of a pipeline
	Fixed       time.Duration
	PerToken    time.Duration // the sum: the longer of Memory and Compute, and the rest
	Bound       Bound         // which of the two is longer
}

// Decode is the roofline of a decode step:
//
//	max((W/TP + KV/spread) / (0.8 BW), 2 P B / (TP 0.6 F)) + 2 layers t_allreduce
//
// W are the weights that the batch touches, P the parameters that a token meets. A
// GPU holds at least one KV head, so KV is spread over min(TP, KV heads) GPUs. A
// latent is needed by all heads: each sequence's lies on one GPU whole, and
// sequences are spread (data-parallel attention), over min(TP, batch) GPUs.
//
// The groups of a pipeline work one after the other for one token, each on a share of
// the batch: a pipeline makes a step no shorter, but for the KV of fewer sequences.
func (s Setup) Decode() Step {
	s = s.WithDefaults()
	p := &s.Model.Params
	d := Step{Batch: (s.Batch + s.Pipeline - 1) / s.Pipeline, Fixed: s.Assume.Fixed}
	d.Parameters = p.Touched(d.Batch)
	d.WeightBytes = int64(s.Weights.Bytes(d.Parameters))
	d.KVBytes = int64(d.Batch) * s.Model.stepBytes(s.Context, s.KV)
	d.KVSpread = s.spread(d.Batch)
	perGPU := float64(d.WeightBytes)/float64(s.Tensor) + float64(d.KVBytes)/float64(d.KVSpread)
	d.Memory = seconds(perGPU / (s.Assume.Bandwidth * s.GPU.GBps * 1e9))
	d.Compute = s.computing(2*p.Active()*float64(d.Batch), s.Assume.Decode, s.Tensor)
	if s.Tensor > 1 {
		d.AllReduce = time.Duration(2*s.Model.Layers()) * s.Assume.AllReduce
	}
	d.Send = time.Duration(s.Pipeline-1) * s.Assume.Send
	d.Bound = MemoryBound
	if d.Compute > d.Memory {
		d.Bound = ComputeBound
	}
	d.PerToken = max(d.Memory, d.Compute) + d.AllReduce + d.Send + d.Fixed
	return d
}

// spread is over how many GPUs of a group the KV of a batch lies.
func (s Setup) spread(batch int) int {
	heads := 0
	for i := range s.Model.Attention {
		a := &s.Model.Attention[i]
		if a.Kind == Latent {
			return min(s.Tensor, batch)
		}
		heads = max(heads, a.KVHeads)
	}
	return max(1, min(s.Tensor, heads))
}

// Prompt is the computing of a prompt from its beginning.
type Prompt struct {
	Tokens       int
	LinearFLOPs  float64       // of all tokens: two for each parameter that one meets
	LookingFLOPs float64       // of looking back
	Time         time.Duration // 0: the GPU's arithmetic is unknown
	PerToken     time.Duration // the mean
}

// Prefill is the roofline of a prompt of so many tokens, at least one:
//
//	per token: (2 P + 2 layers heads head_dim tokens) / (0.6 F GPUs)
//
// The second part is the mean over the prompt: a token at position i looks at i
// others, or as many as its window or its indexer lets it, with two products. The
// prompt goes through a pipeline in chunks, which keep all groups busy.
func (s Setup) Prefill(tokens int) Prompt {
	s = s.WithDefaults()
	r := Prompt{Tokens: tokens}
	n := float64(tokens)
	r.LinearFLOPs = 2 * s.Model.Params.Active() * n
	for i := range s.Model.Attention {
		a := &s.Model.Attention[i]
		layers := float64(a.Layers)
		seen := meanSeen(n, a.reach(a.reach(tokens, a.Window), a.TopK))
		r.LookingFLOPs += layers * 2 * float64(a.QueryHeads*(a.KeyDim+a.ValueDim)) * seen * n
		r.LookingFLOPs += layers * 2 * float64(a.IndexHeads*a.IndexDim) * n / 2 * n
	}
	r.Time = s.computing(r.LinearFLOPs+r.LookingFLOPs, s.Assume.Prefill, s.Tensor*s.Pipeline)
	r.PerToken = r.Time / time.Duration(max(tokens, 1))
	return r
}

// meanSeen is how many tokens one of n looks at in the mean, if it looks at all
// before it but at no more than reach.
func meanSeen(n float64, reach int) float64 {
	w := float64(reach)
	if n <= 0 {
		return 0
	}
	return w - w*w/(2*n)
}

// computing is the time of so many operations at a share of the peak of some GPUs; 0
// if their arithmetic is unknown.
func (s Setup) computing(flops, share float64, gpus int) time.Duration {
	peak := s.GPU.TFLOPS(s.Weights) * 1e12
	if peak == 0 {
		return 0
	}
	return seconds(flops / (share * peak * float64(gpus)))
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), float64(1<<62)))
}

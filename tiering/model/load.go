package model

import "time"

// BreakEven is the read rate, in bytes a second, from which loading the whole blocks
// of a prefix is faster than computing it: KV bytes over the time of Prefill; 0 if
// that is unknown.
func (s Setup) BreakEven(prefix int) float64 {
	compute := s.Prefill(prefix).Time.Seconds()
	if compute <= 0 {
		return 0
	}
	return float64(s.Model.BlockBytes(prefix, s.WithDefaults().KV)) / compute
}

// PeakBreakEven is the criterion of the Mooncake paper, which takes the arithmetic at
// its peak and so asks for more than BreakEven:
//
//	rate > G 2 d s / (g (4 p d + 22 d^2))
//
// with G the FLOPs of all GPUs, d the width, s the bytes of a number of KV, g query
// heads for each KV head and p the prefix. It is made for dense models with grouped
// attention in all layers; ok is false for others.
func (s Setup) PeakBreakEven(prefix int) (bytesPerSecond float64, ok bool) {
	s = s.WithDefaults()
	a := &s.Model.Attention[0]
	if s.Model.Params.Count > 0 || len(s.Model.Attention) != 1 || a.Kind != Grouped || a.KVHeads == 0 {
		return 0, false
	}
	peak := s.GPU.TFLOPS(s.Weights) * 1e12 * float64(s.Tensor*s.Pipeline)
	d, p := float64(s.Model.Hidden), float64(prefix)
	group := float64(a.QueryHeads) / float64(a.KVHeads)
	return peak * 2 * d * s.KV.Bytes(1) / (group * (4*p*d + 22*d*d)), true
}

// Choice is what loading a prefix and computing it cost.
type Choice struct {
	Prefix    int   // tokens
	Bytes     int64 // of its blocks
	Load      time.Duration
	Recompute time.Duration // 0: unknown
}

// Loads says whether loading is faster.
func (c Choice) Loads() bool { return c.Load < c.Recompute }

// Choose compares loading the blocks of a prefix, at a rate in bytes a second and
// behind a latency that each load has, with computing it. A rate of 0 never loads.
func (s Setup) Choose(prefix int, bytesPerSecond float64, latency time.Duration) Choice {
	c := Choice{Prefix: prefix, Bytes: s.Model.BlockBytes(prefix, s.WithDefaults().KV), Load: 1<<63 - 1, Recompute: s.Prefill(prefix).Time}
	if bytesPerSecond > 0 {
		c.Load = latency + seconds(float64(c.Bytes)/bytesPerSecond)
	}
	return c
}

// WorthFrom is the shortest prefix, in tokens, that loading at a rate beats; ok is
// false if none up to ContextMax does. Longer ones it beats too: a token costs the
// more to compute the more lie before it, and the same to load.
func (s Setup) WorthFrom(bytesPerSecond float64, latency time.Duration) (tokens int, ok bool) {
	if !s.Choose(ContextMax, bytesPerSecond, latency).Loads() {
		return 0, false
	}
	low, high := 0, ContextMax // loading at high, not at low
	for high-low > 1 {
		middle := low + (high-low)/2
		if s.Choose(middle, bytesPerSecond, latency).Loads() {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

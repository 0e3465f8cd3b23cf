package model

import (
	"math"
	"testing"
	"time"
)

// TestPeakBreakEven: the criterion of the Mooncake paper, GB/s, for cases worked out
// with its formula.
func TestPeakBreakEven(t *testing.T) {
	for _, w := range []struct {
		model, gpu string
		tp, prefix int
		want       string
	}{
		{"Llama-3.1-8B", "H100", 1, 8192, "8.0"},
		{"Llama-3.1-8B", "H100", 1, 32768, "4.5"},
		{"Llama-3.1-70B", "A800", 8, 8192, "5.9"},
		{"Llama-3.1-70B", "H800", 8, 8192, "18.6"},
		{"Llama-3.1-70B", "B200", 8, 8192, "42"},
	} {
		got, ok := setup(t, w.model, w.gpu, w.tp, 1, 1).PeakBreakEven(w.prefix)
		if !ok || !sameDigits(got/1e9, w.want) {
			t.Errorf("%s on %d x %s, prefix %d: %.2f GB/s, want %s", w.model, w.tp, w.gpu, w.prefix, got/1e9, w.want)
		}
	}
	for _, name := range []string{"DeepSeek-R1", "Mixtral-8x7B", "Gemma-2-9B", "Qwen3.5-397B-A17B"} {
		if _, ok := setup(t, name, "H200", 8, 1, 1).PeakBreakEven(8192); ok {
			t.Errorf("%s has a peak break-even", name)
		}
	}
}

// TestBreakEven: two cases worked out for short prefixes, 5.2 and 5.5 GB/s. The first
// took 25 us a token, as 0.65 of peak gives, or the 7.5 billion parameters without the
// input table; 0.6 and all 8.0 give 27 us and 4.8.
func TestBreakEven(t *testing.T) {
	small := setup(t, "Llama-3.1-8B", "H200", 1, 1, 1)
	if got := small.BreakEven(1) / 1e9; !sameDigits(got, "4.8") {
		t.Errorf("8B: %.2f GB/s", got)
	}
	small.Assume.Prefill = 0.65
	if got := small.BreakEven(1) / 1e9; !sameDigits(got, "5.2") {
		t.Errorf("8B at 0.65 of peak: %.2f GB/s, want 5.2", got)
	}
	big := setup(t, "Llama-3.1-70B", "H200", 4, 1, 1)
	if got, us := big.BreakEven(1)/1e9, big.Prefill(1).PerToken.Microseconds(); !sameDigits(got, "5.5") || us != 59 {
		t.Errorf("70B: %.2f GB/s and %d us a token, want 5.5 and 59", got, us)
	}
	// The longer, the lower; and never under the peak criterion's order of magnitude.
	if long, short := small.BreakEven(1<<17), small.BreakEven(1<<10); long >= short {
		t.Errorf("break-even of a long prefix %.3g, of a short one %.3g", long, short)
	}
}

// TestPrefill: a prompt's operations, written out.
func TestPrefill(t *testing.T) {
	s := setup(t, "Llama-3.1-8B", "H100", 1, 1, 1)
	p := s.Prefill(8192)
	// 2 layers heads head_dim tokens, each token.
	if want := 2.0 * 32 * 32 * 128 * 8192 * 8192; p.LookingFLOPs != want {
		t.Errorf("looking back: %g operations, want %g", p.LookingFLOPs, want)
	}
	if want := 2 * s.Model.Params.Total * 8192; p.LinearFLOPs != want {
		t.Errorf("linear: %g operations, want %g", p.LinearFLOPs, want)
	}
	if got, want := p.Time.Seconds(), (p.LinearFLOPs+p.LookingFLOPs)/(0.6*989e12); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("%g s, want %g", got, want)
	}
	for n, want := range map[float64]float64{1000: 500, 4096: 2048, 8192: 4096 - 1024} {
		if got := meanSeen(n, min(int(n), 4096)); got != want {
			t.Errorf("%g tokens with a window of 4096 look at %g, want %g", n, got, want)
		}
	}
}

// TestWorthFrom: the shortest prefix at a rate loads, and one token less does not; at
// that prefix the rate is the break-even rate.
func TestWorthFrom(t *testing.T) {
	for _, name := range []string{"Llama-3.1-8B", "Llama-3.1-70B", "Qwen2.5-7B", "gpt-oss-120b", "DeepSeek-R1"} {
		s := setup(t, name, "H100", 8, 1, 1)
		for _, rate := range []float64{1e9, 7e9, 14e9, 100e9} {
			for _, latency := range []time.Duration{0, 3 * time.Millisecond} {
				n, ok := s.WorthFrom(rate, latency)
				if !ok {
					if s.Choose(ContextMax, rate, latency).Loads() {
						t.Errorf("%s at %g: a prefix of %d loads", name, rate, ContextMax)
					}
					continue
				}
				if !s.Choose(n, rate, latency).Loads() || n > 1 && s.Choose(n-1, rate, latency).Loads() {
					t.Errorf("%s at %g GB/s, %v: from %d tokens on", name, rate/1e9, latency, n)
				}
				if even := s.BreakEven(n); latency == 0 && n > 1000 && math.Abs(even/rate-1) > 0.01 {
					t.Errorf("%s: break-even at %d tokens is %g, rate %g", name, n, even, rate)
				}
			}
		}
	}
	if _, ok := setup(t, "Llama-3.1-8B", "H100", 1, 1, 1).WorthFrom(0, 0); ok {
		t.Error("worth it at no rate at all")
	}
	if n, ok := setup(t, "Llama-3.1-8B", "H100", 1, 1, 1).WorthFrom(20e9, 0); !ok || n != 1 {
		t.Errorf("at 20 GB/s from %d tokens on", n)
	}
}

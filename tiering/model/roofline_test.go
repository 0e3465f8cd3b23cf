package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

func setup(t *testing.T, name, gpu string, tp, batch, context int) Setup {
	t.Helper()
	m, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	g, err := FindGPU(gpu)
	if err != nil {
		t.Fatal(err)
	}
	s := Setup{Model: m, GPU: g, Tensor: tp, Batch: batch, Context: context}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// sameDigits says whether a number is what is printed, to as many digits.
func sameDigits(got float64, printed string) bool {
	_, digits, _ := strings.Cut(printed, ".")
	return fmt.Sprintf("%.*f", len(digits), got) == printed
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// worked are rooflines of decode steps at a context of 4096 tokens, ms a token with
// a batch of 1 and of 32. They were worked out by hand with parameter counts as
// published, 10^9; published replaces what is derived from the shape.
var worked = []struct {
	model     string
	published float64
	gpu       string
	tp        int
	one, many string
}{
	{"Llama-3.1-8B", 8.0, "L4", 1, "69", "138"},
	{"Llama-3.1-8B", 8.0, "L40S", 1, "24", "48"},
	{"Llama-3.1-8B", 8.0, "A100", 1, "10.1", "20"},
	{"Llama-3.1-8B", 8.0, "H100", 1, "6.2", "12.4"},
	{"Llama-3.1-8B", 8.0, "H200", 1, "4.3", "8.6"},
	// 14.7 as published is cut off, and gives 18.5 on an A100; 14.77 is meant.
	{"Qwen2.5-14B", 14.77, "L40S", 1, "44", "80"},
	{"Qwen2.5-14B", 14.77, "A100", 1, "18.6", "34"},
	{"Qwen2.5-14B", 14.77, "H100", 1, "11.3", "20.6"},
	{"Qwen2.5-14B", 14.77, "H200", 1, "7.9", "14.4"},
	{"Qwen3-32B-FP8", 32.8, "L40S", 1, "49", "97"},
	{"Qwen3-32B-FP8", 32.8, "H100", 1, "12.6", "25"},
	{"Qwen3-32B-FP8", 32.8, "H200", 1, "8.8", "17.5"},
	{"Llama-3.1-70B", 70.6, "A100", 4, "22.6", "29"},
	{"Llama-3.1-70B", 70.6, "H100", 4, "14.1", "18"},
	{"Llama-3.1-70B", 70.6, "H200", 8, "5.4", "6.8"},
	{"Llama-3.1-70B-FP8", 70.6, "L40S", 4, "26.8", "42"},
	{"Llama-3.1-70B-FP8", 70.6, "H100", 2, "14.2", "22"},
	{"Llama-3.1-70B-FP8", 70.6, "H200", 1, "18.7", "29.6"},
	// The count published is rounded to 406, and 23.35 with that; 405.85 is meant.
	{"Llama-3.1-405B-FP8", 405.85, "H100", 8, "20.3", "23.3"},
	{"Llama-3.1-405B-FP8", 405.85, "H200", 8, "14.5", "16.7"},
}

// TestRoofline: each worked step comes out to its last digit with the published
// count, and within one in a hundred with the derived one.
func TestRoofline(t *testing.T) {
	for _, w := range worked {
		for batch, want := range map[int]string{1: w.one, 32: w.many} {
			s := setup(t, w.model, w.gpu, w.tp, batch, 4096)
			derived := milliseconds(s.Decode().PerToken)
			s.Model.Params.Total = w.published * 1e9
			d := s.Decode()
			if !sameDigits(milliseconds(d.PerToken), want) || d.Bound != MemoryBound {
				t.Errorf("%s on %d x %s, batch %d: %.4f ms bound by %s, want %s by memory", w.model, w.tp, w.gpu, batch, milliseconds(d.PerToken), d.Bound, want)
			}
			if math.Abs(derived/milliseconds(d.PerToken)-1) > 0.01 {
				t.Errorf("%s on %d x %s, batch %d: %.4f ms with derived parameters", w.model, w.tp, w.gpu, batch, derived)
			}
		}
	}
}

// TestRooflineOfLatents: DeepSeek-R1 on 8 H200. The worked figures, 1.2, 14.4 and
// 22.7 ms at batches of 1, 32 and 128, leave the all-reduce out and spread KV over all
// GPUs. With a batch of 1 that cannot be: every head needs the whole latent, so one GPU
// reads all of it, and the step takes 1.3.
func TestRooflineOfLatents(t *testing.T) {
	for _, w := range []struct {
		batch, spread int
		weightGB      string
		ms, spreadMS  string
	}{{1, 1, "38", "1.3", "1.2"}, {32, 8, "434", "14.4", "14.4"}, {128, 8, "660", "22.7", "22.7"}} {
		s := setup(t, "DeepSeek-R1", "H200", 8, w.batch, 4096)
		s.Assume.AllReduce = -1
		d := s.Decode()
		if !sameDigits(milliseconds(d.PerToken), w.ms) || d.KVSpread != w.spread || d.AllReduce != 0 {
			t.Errorf("batch %d: %.3f ms with KV over %d GPUs, want %s over %d", w.batch, milliseconds(d.PerToken), d.KVSpread, w.ms, w.spread)
		}
		if !sameDigits(float64(d.WeightBytes)/1e9, w.weightGB) {
			t.Errorf("batch %d: %.1f GB of weights, want %s", w.batch, float64(d.WeightBytes)/1e9, w.weightGB)
		}
		spread := float64(d.WeightBytes+d.KVBytes) / (8 * 0.8 * 4800e9) * 1e3
		if !sameDigits(spread, w.spreadMS) {
			t.Errorf("batch %d: %.3f ms with KV spread, want %s", w.batch, spread, w.spreadMS)
		}
		s.Assume.AllReduce = 0
		if got := s.Decode().AllReduce; got != 610*time.Microsecond {
			t.Errorf("all-reduce of 61 layers takes %v", got)
		}
	}
}

// TestBounds: what a step waits for, and what parallelism changes.
func TestBounds(t *testing.T) {
	// 2 x 8.03e9 x 4096 operations at 0.6 of 121 TFLOPS take longer than the memory.
	if d := setup(t, "Llama-3.1-8B", "L4", 1, 4096, 1).Decode(); d.Bound != ComputeBound || d.PerToken != d.Compute || d.Compute <= d.Memory {
		t.Errorf("a huge batch: %+v", d)
	}
	one := setup(t, "Llama-3.1-70B", "H200", 1, 8, 4096)
	piped := one
	piped.Pipeline = 4
	a, b := one.Decode(), piped.Decode()
	if b.Batch != 2 || b.WeightBytes != a.WeightBytes || b.KVBytes != a.KVBytes/4 || b.Send != 30*time.Microsecond {
		t.Errorf("a pipeline of 4: %+v, without %+v", b, a)
	}
	if got, want := piped.Prefill(4096).Time, one.Prefill(4096).Time/4; (got - want).Abs() > time.Microsecond {
		t.Errorf("a prompt through a pipeline of 4: %v, want %v", got, want)
	}
	// 4 KV heads over 8 GPUs: each head lies on two.
	if d := setup(t, "Qwen3-235B-A22B", "H200", 8, 8, 4096).Decode(); d.KVSpread != 4 {
		t.Errorf("4 KV heads are spread over %d GPUs", d.KVSpread)
	}
	wide := setup(t, "Llama-3.1-8B", "H100", 1, 1, 4096)
	half := wide
	half.KV = FP8
	if got, want := half.Decode().KVBytes*2, wide.Decode().KVBytes; got != want {
		t.Errorf("KV in FP8: %d bytes twice, want %d", got, want)
	}
	// A100 has no FP8 arithmetic: weights take half, a prompt takes the same.
	small, big := setup(t, "Llama-3.1-8B-FP8", "A100", 1, 1, 1), setup(t, "Llama-3.1-8B", "A100", 1, 1, 1)
	if small.Decode().WeightBytes*2 != big.Decode().WeightBytes || small.Prefill(100) != big.Prefill(100) {
		t.Error("FP8 on an A100")
	}
}

// TestCoverage: experts that a batch meets, of 8 in 256.
func TestCoverage(t *testing.T) {
	p := Params{Total: 671e9, Experts: 654.45e9, Count: 256, PerToken: 8}
	for batch, want := range map[int]string{1: "37", 32: "434", 128: "660"} {
		if got := p.Touched(batch) / 1e9; !sameDigits(got, want) {
			t.Errorf("batch %d: %.2f, want %s", batch, got, want)
		}
	}
	if p.Coverage(1<<16) > 1 || (Params{Total: 5}).Touched(9) != 5 || (Params{}).Coverage(9) != 1 {
		t.Error("limits")
	}
}

// TestContext: KV by context, for windows, states and indexers.
func TestContext(t *testing.T) {
	gemma := setup(t, "Gemma-3-27B", "H100", 1, 1, 0).Model
	const layer = 2 * 16 * 128 * 2
	for context, want := range map[int]int64{1: 62 * layer, 1024: 62 * layer * 1024, 8192: (10*8192 + 52*1024) * layer} {
		if got := gemma.KeptBytes(context, BF16); got != want {
			t.Errorf("Gemma 3 at %d: %d bytes, want %d", context, got, want)
		}
	}
	if got := gemma.FarBytes(BF16); got != 81920 {
		t.Errorf("Gemma 3 keeps %d bytes of a far token, want 81920", got)
	}
	hybrid := setup(t, "Qwen3.5-397B-A17B", "H200", 8, 1, 0).Model
	// 64 heads of 128 x 128 numbers of 4 bytes, and 3 x 12288 numbers of 2, in 45 layers.
	if got, want := hybrid.StateBytes(), int64(45*(64*128*128*4+3*12288*2)); got != want {
		t.Errorf("states of %d bytes, want %d", got, want)
	}
	if got, want := hybrid.KeptBytes(1000, BF16), hybrid.StateBytes()+30720*1000; got != want {
		t.Errorf("Qwen3.5 at 1000: %d bytes, want %d", got, want)
	}
	sparse := setup(t, "GLM-5", "H200", 8, 1, 0).Model
	if got, want := sparse.IndexBytes(), int64(78*132); got != want {
		t.Errorf("an index of %d bytes a token, want %d", got, want)
	}
	if got, want := sparse.stepBytes(100000, BF16), int64(78*(2048*1152+100000*132)); got != want {
		t.Errorf("a sparse step reads %d bytes, want %d", got, want)
	}
	if got, want := sparse.BlockBytes(16, BF16), int64(16*(89856+78*132)); got != want {
		t.Errorf("a block of %d bytes, want %d", got, want)
	}
}

// TestUnknownGPU: bandwidth from a bus, and what stays unknown.
func TestUnknownGPU(t *testing.T) {
	for _, b := range []struct {
		bits, clock int
		want        float64
	}{{5120, 2619, 3352}, {6144, 3201, 4917}} {
		if g := GPUOfBus("x", b.bits, b.clock); math.Abs(g.GBps-b.want) > 0.5 {
			t.Errorf("%d bits at %d MHz: %.1f GB/s, want %g", b.bits, b.clock, g.GBps, b.want)
		}
	}
	s := setup(t, "Llama-3.1-8B", "H200", 1, 4096, 4096)
	s.GPU = GPUOfBus("x", 6144, 3201)
	if d := s.Decode(); d.Compute != 0 || d.Bound != MemoryBound || d.PerToken != d.Memory {
		t.Errorf("%+v", d)
	}
	if s.Prefill(4096).Time != 0 || s.BreakEven(4096) != 0 || s.Choose(4096, 1e12, 0).Loads() {
		t.Error("a prompt's time is known")
	}
}

// TestValidate: each bound.
func TestValidate(t *testing.T) {
	good := setup(t, "Llama-3.1-8B", "H100", 1, 1, 1)
	for want, change := range map[string]func(*Setup){
		"no model": func(s *Setup) { s.Model = nil }, "no GPU": func(s *Setup) { s.GPU = nil },
		"TP -1": func(s *Setup) { s.Tensor = -1 }, "TP 2048": func(s *Setup) { s.Tensor = 2048 }, "PP 33": func(s *Setup) { s.Pipeline = 33 },
		"TP 64 and PP 32": func(s *Setup) { s.Tensor, s.Pipeline = 64, 32 },
		"batch of":        func(s *Setup) { s.Batch = BatchMax + 1 }, "context of": func(s *Setup) { s.Context = -1 },
	} {
		s := good
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPrecision: names and bytes.
func TestPrecision(t *testing.T) {
	for _, name := range append(Precisions(), "") {
		if p, err := ParsePrecision(name); err != nil || p.String() != name {
			t.Errorf("%q: %v, %v", name, p, err)
		}
	}
	if p, err := ParsePrecision("FP16"); p != BF16 || err != nil {
		t.Errorf("FP16: %v, %v", p, err)
	}
	if _, err := ParsePrecision("int3"); err == nil {
		t.Error("int3")
	}
	for p, want := range map[Precision]float64{Unset: 64, BF16: 64, FP8: 32, FP4: 17} {
		if got := p.Bytes(32); got != want {
			t.Errorf("%v: %s bytes of 32 numbers, want %g", p, strconv.FormatFloat(got, 'g', -1, 64), want)
		}
	}
}

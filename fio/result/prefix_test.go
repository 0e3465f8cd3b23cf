package result

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// TestPrefixLoads: requests of several workers, with and without a prefix.
func TestPrefixLoads(t *testing.T) {
	one, two := newRecorder(WorkerConfig{}), newRecorder(WorkerConfig{})
	one.PrefixLoad(PrefixLoad{Blocks: 9})
	one.Begin(0) // the ramp is over
	one.PrefixLoad(PrefixLoad{Blocks: 4})
	one.PrefixLoad(PrefixLoad{Blocks: 4, Loaded: 2, Tokens: 128, Bytes: 2000, LatencyNS: 64_000, ComputeNS: 128_000})
	two.PrefixLoad(PrefixLoad{Blocks: 3, Loaded: 1, Tokens: 64, Bytes: 1000, LatencyNS: 128_000, ComputeNS: 64_000})
	p := mergeRecorders([]*Recorder{one, two}, 0).prefixLoads()
	if p.Requests != 3 || p.Loads != 2 || p.Blocks != 11 || p.Loaded != 3 || p.Tokens != 192 || p.Bytes != 3000 ||
		*p.NSPerToken != 1000 || p.LatNS.N != 2 || *p.LatNS.Max != 128_000 ||
		p.Compared.Loads != 2 || p.Compared.Faster != 1 || p.Compared.Share != 0.5 || math.Abs(float64(p.Compared.P50)-0.5) > 0.01 || p.Compared.Max != 2 {
		t.Errorf("%+v, %v ns a token", p, *p.NSPerToken)
	}
	var text bytes.Buffer
	p.text(&text)
	for _, want := range []string{"2 of 3 requests, 3 of 11 blocks", "loading took 1µs a token", "1 of 2 loads were faster"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if p := mergeRecorders([]*Recorder{newRecorder(WorkerConfig{})}, 0).prefixLoads(); p != nil {
		t.Errorf("without requests: %+v", p)
	}
}

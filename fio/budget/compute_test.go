package budget

import (
	"testing"
	"time"
)

// TestComputeMeasured: on the line between two lengths, in proportion outside; given
// times go before the file's.
func TestComputeMeasured(t *testing.T) {
	file := &Budget{Where: "a file", Prefill: []StoredPrefill{{2000, 100}, {1000, 30}, {2000, 110}}}
	c, err := (&Ask{}).Compute(file)
	if err != nil || c == nil || c.Where != "prefill measured, a file" {
		t.Fatal(c, err)
	}
	for tokens, want := range map[int]time.Duration{-1: 0, 0: 0, 500: 15 * ms, 1000: 30 * ms, 1500: 65 * ms, 2000: 100 * ms, 4000: 200 * ms} {
		if got := c.Of(tokens); got != want {
			t.Errorf("%d tokens: %v, want %v", tokens, got, want)
		}
	}
	c, err = (&Ask{Prefill: "1k:40ms,8k:420ms"}).Compute(file)
	if err != nil || c.Of(1024) != 40*ms || c.Of(8192) != 420*ms {
		t.Error(c, err)
	}
}

// TestComputeRoofline: of a model and a GPU that are named; without them nothing tells.
func TestComputeRoofline(t *testing.T) {
	a := Ask{Model: "Llama-3.1-8B", GPU: "H100"}
	b, err := a.Resolve(t.Context(), Machine{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Compute(b)
	if err != nil || c == nil || c.Of(8192) != b.Setup.Prefill(8192).Time || c.Of(0) != 0 {
		t.Error(c, err)
	}
	if c, err := (&Ask{}).Compute(&Budget{PerToken: ms}); c != nil || err != nil {
		t.Error(c, err)
	}
	if c, err := (&Ask{}).Compute(nil); c != nil || err != nil {
		t.Error(c, err)
	}
}

func TestPrefillMalformed(t *testing.T) {
	for _, text := range []string{"40ms", "1k", ":40ms", "0:40ms", "-1:40ms", "1k:0ms", "1k:-3ms", "1k:40", "1k:40ms,", "many:1s"} {
		if _, err := (&Ask{Prefill: text}).Compute(nil); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

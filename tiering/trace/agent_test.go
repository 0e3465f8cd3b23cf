package trace

import (
	"fmt"
	"testing"
)

// TestToolAgent holds the other kind to what is published of its model: shares
// of requests by their common prompt, mean lengths, re-use.
func TestToolAgent(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			const n = 12_000
			all, err := readAll(NewGenerator(Config{Seed: seed, Kind: ToolAgent, Requests: n}))
			if err != nil {
				t.Fatal(err)
			}
			sharing := map[[2]uint64]int{} // by the second block
			in, out := 0, 0
			for _, q := range all {
				in, out = in+q.InputLength, out+q.OutputLength
				if q.HashIDs[0] != all[0].HashIDs[0] {
					t.Fatal("a request does not begin with the common block")
				}
				if len(q.HashIDs) > 4 {
					sharing[[2]uint64{q.HashIDs[1], q.HashIDs[4]}]++
				}
			}
			most, second := 0, 0
			for _, count := range sharing {
				if count > most {
					most, second = count, most
				} else {
					second = max(second, count)
				}
			}
			near(t, "share of the long prompt", float64(most)/n, .40, 0, .03)
			near(t, "share of the short prompt", float64(second)/n, .18, 0, .03)
			near(t, "mean input", float64(in)/n, 8_596, .10, 0)
			near(t, "mean output", float64(out)/n, 182, .10, 0)
			near(t, "re-referenced", measure(t, &listSource{all}).rereferenced, .55, 0, .04)
		})
	}
}

// TestSmallerBlocks: an id may cover fewer tokens; what is said stays as long.
func TestSmallerBlocks(t *testing.T) {
	g := NewGenerator(Config{Seed: 1, Requests: 6_000, TokensPerBlock: 64})
	refs, tokens, seen := 0, 0, map[uint64]bool{}
	for range 6_000 {
		q, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(q.HashIDs) != (q.InputLength+63)/64 {
			t.Fatalf("%d ids for %d tokens", len(q.HashIDs), q.InputLength)
		}
		refs, tokens = refs+len(q.HashIDs), tokens+q.InputLength
		for _, id := range q.HashIDs {
			seen[id] = true
		}
	}
	near(t, "tokens a request", float64(tokens)/6_000, 12_000, .15, 0)
	near(t, "re-referenced", 1-float64(len(seen))/float64(refs), .366, 0, .06)
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine/evict"
)

// TestPlan: the JSON names the default and has a row for each policy and capacity, with
// the counts of a trace small enough to count by hand.
func TestPlan(t *testing.T) {
	file := write(t, "trace.jsonl", smallTrace)
	page := filepath.Join(t.TempDir(), "plan.html")
	v := process{t: t}.run("plan", file, "--json", "--capacity", "100%,60%", "--policy", "hazard,lru,belady", "--admit", "all", "--nodes", "3",
		"--block-bytes", "1MiB", "--restart-at", "1s", "--report", page).want(t, exitPass, "", "").object(t, "plan")
	if v["default_policy"] != evict.Default || v["unique_blocks"] != 5.0 || v["references"] != 8.0 {
		t.Errorf("%v", v)
	}
	rows := v["rows"].([]any)
	if len(rows) != 6 || len(v["placements"].([]any)) != 3 {
		t.Fatalf("%d rows, placements %v", len(rows), v["placements"])
	}
	first := rows[0].(map[string]any)
	// 0 1 2 | 0 1 3 | | 4 1: hits are 0, 1 and 1, of which the last has no root.
	if got := counts(first, "policy", "capacity", "capacity_blocks", "hits", "prefix_hits", "writes", "hit_ratio", "prefix_hit_ratio", "writes_per_ref"); got !=
		"policy=hazard capacity=100% capacity_blocks=5 hits=3 prefix_hits=2 writes=5 hit_ratio=0.375 prefix_hit_ratio=0.25 writes_per_ref=0.625" {
		t.Error(got)
	}
	needs := first["needs"].(map[string]any)
	if needs["capacity_bytes"] != 5.0*(1<<20) || needs["drives_by_capacity"] != 1.0 {
		t.Errorf("%v", needs)
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "<svg") || strings.Contains(string(html), "http") {
		t.Errorf("page of %d bytes: %v", len(html), err)
	}
}

// TestPlanTable: people get the same as a table.
func TestPlanTable(t *testing.T) {
	out := process{t: t}.run("plan", "--generate", "--requests", "200", "--capacity", "10%", "--model", "llama-3.1-8b", "--nodes", "4", "-q").stdout
	for _, want := range []string{"200 requests", "hazard (default)", "belady", "64 MiB of Llama-3.1-8B", "per run"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for say, args := range map[string][]string{
		"neither a trace":      {},
		"no eviction policy":   {"--generate", "--policy", "best"},
		"no share between":     {"--generate", "--capacity", "0%"},
		"how many blocks":      {"--generate", "--capacity", "1GiB"},
		"2 to 1024 nodes":      {"--generate", "--nodes", "1"},
		"fewer than there are": {"--generate", "--nodes", "3", "--lose", "3"},
		"no model":             {"--generate", "--model", "no-such-model"},
		"both --model":         {"--generate", "--model", "llama-3.1-8b", "--block-bytes", "1MiB"},
		"is negative":          {"--generate", "--restart-at=-1s"},
		"both a trace":         {"trace", "--generate"},
		"is not above 0":       {"--generate", "--drive-dwpd", "0"},
	} {
		got := process{t: t}.run(append([]string{"plan"}, args...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, say) {
			t.Errorf("%v: exit %d, %q; want %q", args, got.code, got.stderr, say)
		}
	}
}

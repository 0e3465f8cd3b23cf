package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report is everything measured.
type report struct {
	Date        string          `json:"date"`
	Facts       facts           `json:"facts"`
	Config      map[string]any  `json:"config"`
	Comparisons []*comparison   `json:"comparisons"`
	Replay      json.RawMessage `json:"replay,omitempty"`
}

func shown(c config) map[string]any {
	return map[string]any{"size_bytes": c.sizeBytes, "block_bytes": c.blockBytes, "pairs": c.pairs, "runtime_s": c.runtime.Seconds()}
}

// replay runs generated chats through the binary and returns its JSON.
func replay(c config, dir string) (json.RawMessage, error) {
	if c.spillway == "" {
		return nil, nil
	}
	cmd := exec.Command(c.spillway, "replay", "--generate", "--for", "10s", "--quiet", "--json", "--dir", filepath.Join(dir, "replay"),
		"--capacity", "2GiB", "--block-bytes", fmt.Sprint(c.blockBytes))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", cmd, err)
	}
	return out, nil
}

// write prints the tables and, if asked, writes the JSON.
func (r *report) write(path string) error {
	r.Date = time.Now().UTC().Format(time.DateOnly)
	slices.SortStableFunc(r.Comparisons, byDepth)
	if path != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	_, err := fmt.Print(r.markdown())
	return err
}

// markdown is the part that docs/benchmarks.md takes over.
func (r *report) markdown() string {
	var b strings.Builder
	f := r.Facts
	fmt.Fprintf(&b, "Measured %s: kernel %s, %s, direct I/O %t, store on %s; %s, %d cores, memory %s; drive %s; %s, %s. %v rounds of %v s, %d MiB in blocks of %d KiB.\n\n",
		r.Date, f.Kernel, f.FileSystem, f.DirectIO, f.StoreDevice, f.CPU, f.Cores, f.Memory, f.Drive, f.Fio, f.Go,
		r.Config["pairs"], r.Config["runtime_s"], r.Config["size_bytes"].(int64)>>20, r.Config["block_bytes"].(int)>>10)
	b.WriteString("| depth | fio engine | | ours, median | fio, median | ours / fio, median (middle 80 %) | fio / fio, median (middle 80 %) | met | load average |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.Comparisons {
		row := func(name, ours, fio string, x ratios) {
			met := map[bool]string{true: "yes", false: "**no**"}[x.Met]
			fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %.1f |\n", c.Depth, c.Engine, name, ours, fio, x.Ours, x.Fio, met, c.LoadAvg.Median)
		}
		row("IOPS", fmt.Sprintf("%.0f", c.Ours.IOPS), fmt.Sprintf("%.0f", c.Fio.IOPS), c.IOPS)
		row("P50", micros(c.Ours.P50NS), micros(c.Fio.P50NS), c.P50)
		row("P99", micros(c.Ours.P99NS), micros(c.Fio.P99NS), c.P99)
	}
	if r.Replay == nil {
		return b.String()
	}
	var v struct {
		Latency   struct{ Samples, P50, P90, P99 float64 } `json:"read_latency_ns"`
		IOPS      float64                                  `json:"read_iops"`
		Depth     int                                      `json:"depth"`
		DepthMean float64                                  `json:"depth_mean"`
	}
	if err := json.Unmarshal(r.Replay, &v); err != nil {
		return b.String() + "\nreplay: " + err.Error() + "\n"
	}
	fmt.Fprintf(&b, "\nA replay of generated chats for 10 s, reads between writes, at most %d at once, %.1f on average: %.0f reads of %d KiB, "+
		"%.0f IOPS while reading, P50 %s, P90 %s, P99 %s.\n", v.Depth, v.DepthMean, v.Latency.Samples, r.Config["block_bytes"].(int)>>10,
		v.IOPS, micros(v.Latency.P50), micros(v.Latency.P90), micros(v.Latency.P99))
	return b.String()
}

func (s spread) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Low, s.High) }

func micros(ns float64) string { return fmt.Sprintf("%.0f µs", ns/1000) }

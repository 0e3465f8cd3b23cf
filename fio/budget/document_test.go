package budget

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/budget.md anew")

const documentPage = "../../docs/budget.md"

// measured are published measurements of the time of one token.
var measured = []struct {
	ask    Ask // as far as it is told: no batch means that it is not
	ms     float64
	remark string
}{
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "2", Batch: "1", Context: "5250"}, 18.6, nim},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "2", Batch: "5", Context: "5250"}, 21.8, nim},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "2", Batch: "25", Context: "5250"}, 38.8, nim},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "2", Batch: "50", Context: "5250"}, 59.7, nim},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "2", Batch: "100", Context: "5250"}, 92.9, nim},
	{Ask{Model: "Llama-2-7B-FP8", GPU: "L40S", Batch: "64", Context: "1152", KV: "fp8"}, 39.5, tensorRT},
	{Ask{Model: "Llama-2-7B", GPU: "A100", Batch: "60", Context: "1152"}, 31.1, tensorRT},
	{Ask{Model: "Llama-2-7B-FP8", GPU: "H100", Batch: "112", Context: "1152", KV: "fp8"}, 16.4, tensorRT},
	{Ask{Model: "DeepSeek-R1", GPU: "H200", TP: "8", Batch: "1", Context: "1024"}, 6.3, guessing},
	{Ask{Model: "DeepSeek-R1-FP4", GPU: "B200", TP: "8", Batch: "1", Context: "1024"}, 3.6, guessing},
	{Ask{Model: "Llama-3.1-8B-FP8", GPU: "A100"}, 42.9, lambda},
	{Ask{Model: "Llama-3.1-8B-FP8", GPU: "H100"}, 19.8, lambda},
	{Ask{Model: "Mistral-7B", GPU: "A100"}, 56.5, lambda},
	{Ask{Model: "Mistral-7B", GPU: "H100"}, 27.2, lambda},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "A100", TP: "2"}, 120, lambda},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "A100", TP: "4"}, 88, lambda},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "2"}, 49, lambda},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "4"}, 38, lambda},
	{Ask{Model: "Llama-3.1-70B-FP8", GPU: "H100", TP: "8"}, 34, lambda},
	{Ask{Model: "Mixtral-8x7B", GPU: "A100", TP: "2"}, 67, lambda},
	{Ask{Model: "Mixtral-8x7B", GPU: "H100", TP: "2"}, 38, lambda},
	{Ask{Model: "Llama-3.1-405B-FP8", GPU: "A100", TP: "8"}, 181, lambda},
	{Ask{Model: "Llama-3.1-405B-FP8", GPU: "H100", TP: "8"}, 74, lambda},
}

// The sources.
const (
	nim      = "NVIDIA NIM 1.8; 5000 tokens in, 500 out, so many requests at once"
	tensorRT = "TensorRT-LLM's tables; 128 in, 2048 out; FP8 runs taken to have KV in FP8"
	guessing = "TensorRT-LLM; guesses tokens ahead; context not told"
	lambda   = "Lambda, vLLM 0.5.4; 320 prompts, batch not told"
)

// measuredTable compares the roofline with what was measured.
func measuredTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| model | on | batch | context | measured ms | roofline ms | roofline / measured | source |\n|---|---|---|---|---|---|---|---|\n")
	least, most := 1.0, 0.0
	for _, m := range measured {
		s := setupOf(t, m.ask)
		d := s.Decode()
		ratio := inMS(d.PerToken) / m.ms
		if ratio > 1 {
			t.Errorf("%s: a roofline of %v is over the measured %g ms", Describe(&s), d.PerToken, m.ms)
		}
		batch, context := "not told", "not told"
		if m.ask.Batch != "" {
			batch, context = m.ask.Batch, m.ask.Context
		}
		if batch != "not told" && m.remark != guessing {
			least, most = min(least, ratio), max(most, ratio)
		}
		fmt.Fprintf(&b, "| %s %v | %d x %s | %s | %s | %g | %.1f | %.2f | %s |\n", s.Model.Name, s.Weights, s.Tensor, s.GPU.Name, batch, context, m.ms, inMS(d.PerToken), ratio, m.remark)
	}
	fmt.Fprintf(&b, "\nWhere batch and context are known and no tokens are guessed ahead, the roofline is %.2f to %.2f of what was\nmeasured. ", least, most)
	b.WriteString("Where the batch is not told, the roofline is that of one sequence of 4096 tokens.\n")
	return b.String()
}

// metricTable lists the metrics that are known.
func metricTable() string {
	var b strings.Builder
	b.WriteString("| engine | metric | note |\n|---|---|---|\n")
	for _, m := range metrics {
		name := m.name
		if m.labels != "" {
			name += "{" + m.labels + "}"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m.engine, name, m.note)
	}
	return b.String()
}

// optionTable lists the options of a budget.
func optionTable() string {
	var b strings.Builder
	b.WriteString("| option | meaning |\n|---|---|\n")
	for _, o := range Options {
		fmt.Fprintf(&b, "| `--%s=%s` | %s |\n", o.Name, strings.ReplaceAll(o.Placeholder, "|", `\|`), o.Help)
	}
	return b.String()
}

// TestPage keeps the tables of the page; with -update, or go generate, it writes them
// anew.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(documentPage)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, table := range map[string]string{"options": optionTable(), "metrics": metricTable(), "measured": measuredTable(t)} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok1 := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s has no place for %s", documentPage, name)
		}
		want = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(documentPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s is stale: go generate ./fio/budget writes its tables anew", documentPage)
	}
}

package budget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is an HTTP server that shows one page after the other, the last for ever.
func engine(t *testing.T, pages ...string) (url string) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, pages[min(int(asked.Add(1)), len(pages))-1])
	}))
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

// here is this machine without waiting.
func here() Machine {
	return Machine{Sleep: func(context.Context, time.Duration) error { return nil }}
}

// bars writes a histogram as engines show one: counts at most each bound, ascending.
func bars(name, labels string, sum float64, bounds []string, counts ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# HELP %s Some words, with a \"quote\" and {braces}.\n# TYPE %s histogram\n", name, name)
	comma := ""
	if labels != "" {
		comma = labels + ","
	}
	for i, n := range counts {
		fmt.Fprintf(&b, "%s_bucket{%sle=\"%s\"} %d.0\n", name, comma, bounds[i], n)
	}
	braced := ""
	if labels != "" {
		braced = "{" + labels + "}"
	}
	fmt.Fprintf(&b, "%s_count%s %d.0\n%s_sum%s %g\n", name, braced, counts[len(counts)-1], name, braced, sum)
	fmt.Fprintf(&b, "# TYPE %s_created gauge\n%s_created%s 1.7e+09\n", name, name, braced)
	return b.String()
}

// bounds of inter-token latency, as engines have them.
var bounds = []string{"0.01", "0.025", "0.05", "0.075", "+Inf"}

const other = `# HELP process_cpu_seconds_total CPU.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
python_info{implementation="CPython",version="3.12"} 1
broken line of somebody else {
`

// pages are of each engine in the shape that it shows.
var pages = []struct {
	engine, metric, page string
}{
	{"vllm", "vllm:inter_token_latency_seconds", other + `vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
` + bars("vllm:time_to_first_token_seconds", `engine="0",model_name="m"`, 30, bounds, 0, 0, 1, 2, 50) +
		bars("vllm:time_per_output_token_seconds", `engine="0",model_name="m"`, 99, bounds, 0, 0, 0, 0, 1000) +
		bars("vllm:inter_token_latency_seconds", `engine="0",model_name="m"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"vllm", "vllm:time_per_output_token_seconds", bars("vllm:time_per_output_token_seconds", `model_name="m"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"vllm", "vllm:request_time_per_output_token_seconds", bars("vllm:request_time_per_output_token_seconds", `model_name="m"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"sglang", "sglang:inter_token_latency_seconds", `sglang:token_usage{model_name="m"} 0.28
` + bars("sglang:inter_token_latency_seconds", `engine_type="unified",model_name="m",tp_rank="0"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"sglang", "sglang:time_per_output_token_seconds", bars("sglang:time_per_output_token_seconds", `name="m"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"sglang", "sglang:inter_token_latency_seconds", bars("sglang_inter_token_latency_seconds", `model_name="m"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"tensorrt-llm", "trtllm_time_per_output_token_seconds", "trtllm_kv_cache_hit_rate{engine_type=\"trtllm\"} 0.5\n" +
		bars("trtllm_time_per_output_token_seconds", `engine_type="trtllm",model_name="m"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"tensorrt-llm", "trtllm_time_per_output_token_seconds", bars("trtllm:time_per_output_token_seconds", `model_name="m"`, 20, bounds, 0, 800, 900, 990, 1000)},
	{"tgi", "tgi_request_mean_time_per_token_duration", "tgi_queue_size 0\ntgi_batch_current_size 4\n" +
		bars("tgi_batch_forward_duration", `method="decode"`, 5, bounds, 0, 0, 0, 0, 10) +
		bars("tgi_request_mean_time_per_token_duration", "", 20, bounds, 0, 800, 900, 990, 1000)},
	{"tgi", "tgi_batch_forward_duration", bars("tgi_batch_forward_duration", `method="prefill"`, 5, bounds, 0, 0, 0, 0, 10) +
		bars("tgi_batch_forward_duration", `method="decode"`, 20, bounds, 0, 800, 900, 990, 1000)},
}

// TestEngines: from each engine's page the best metric of a token's time is taken: its
// mean by the sum and the count, its quantiles from the bars.
func TestEngines(t *testing.T) {
	for _, p := range pages {
		url := engine(t, p.page)
		for statistic, want := range map[string]time.Duration{
			"": 20 * ms, "mean": 20 * ms, // 20 s over 1000
			"p50": 19375 * time.Microsecond, // 500 of the 800 between 10 and 25 ms
			"p85": 37500 * time.Microsecond, // 50 of the 100 between 25 and 50 ms
			"p99": 75 * ms,                  // all of those up to 75 ms
		} {
			a := Ask{From: url, Statistic: statistic}
			b, err := a.Resolve(t.Context(), here())
			if err != nil {
				t.Errorf("%s %s: %v", p.metric, statistic, err)
				continue
			}
			if b.PerToken != want || b.Source != Metric || b.Metric.Engine != p.engine || b.Metric.Name != p.metric || b.Metric.Count != 1000 || b.Setup != nil {
				t.Errorf("%s %s: %v of %+v, want %v", p.metric, statistic, b.PerToken, b.Metric, want)
			}
			if !strings.Contains(b.Where, "1000 observations since the engine started") || !strings.Contains(b.Where, url) {
				t.Errorf("%s: from %q", p.metric, b.Where)
			}
		}
	}
}

// TestBuckets: where a quantile lies is said, beyond the last bound too.
func TestBuckets(t *testing.T) {
	url := engine(t, bars("vllm:inter_token_latency_seconds", "", 20, bounds, 0, 800, 900, 990, 1000))
	for statistic, want := range map[string]string{
		"p50":   "p50 lies between 10ms and 25ms",
		"p99.5": "p99.5 lies beyond the last bound of the histogram, 75ms",
	} {
		b, err := (&Ask{From: url, Statistic: statistic}).Resolve(t.Context(), here())
		if err != nil || len(b.Notes) != 1 || !strings.HasPrefix(b.Notes[0], want) {
			t.Errorf("%s: %+v, %v, want %q", statistic, b, err, want)
		}
	}
	b, err := (&Ask{From: url, Statistic: "P99.5"}).Resolve(t.Context(), here())
	if err != nil || b.PerToken != 75*ms || b.Metric.UpperBound != 0 || b.Metric.LowerBound != 75*ms {
		t.Errorf("beyond: %+v, %v", b, err)
	}
}

// TestTwoScrapes: only what happened between them counts; an engine that began again
// counts from there.
func TestTwoScrapes(t *testing.T) {
	name, labels := "vllm:inter_token_latency_seconds", `model_name="m"`
	before := bars(name, labels, 100, bounds, 0, 0, 0, 0, 1000)
	for _, c := range []struct {
		after string
		mean  time.Duration
		p50   time.Duration
		count float64
	}{
		{bars(name, labels, 104, bounds, 0, 200, 200, 200, 1200), 20 * ms, 17500 * time.Microsecond, 200},
		{bars(name, labels, 4, bounds, 0, 200, 200, 200, 200), 20 * ms, 17500 * time.Microsecond, 200},
	} {
		for statistic, want := range map[string]time.Duration{"mean": c.mean, "p50": c.p50} {
			a := Ask{From: engine(t, before, c.after), Statistic: statistic, Interval: "30s"}
			m, slept := here(), time.Duration(0)
			m.Sleep = func(_ context.Context, d time.Duration) error { slept += d; return nil }
			b, err := a.Resolve(t.Context(), m)
			if err != nil || b.PerToken != want || b.Metric.Count != c.count || b.Metric.Over != 30*time.Second || slept != 30*time.Second {
				t.Errorf("%s: %+v, %v after %v, want %v", statistic, b, err, slept, want)
			}
		}
	}
	a := Ask{From: engine(t, before), Interval: "30s"}
	if _, err := a.Resolve(t.Context(), here()); err == nil || !strings.Contains(err.Error(), "no observations within 30s") {
		t.Errorf("nothing happened: %v", err)
	}
	m := here()
	m.Sleep = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLabels: series of one model are summed, of several only with a choice.
func TestLabels(t *testing.T) {
	name := "vllm:inter_token_latency_seconds"
	url := engine(t, bars(name, `engine="0",model_name="a"`, 10, bounds, 0, 500, 500, 500, 500)+bars(name, `engine="1",model_name="a"`, 20, bounds, 0, 0, 500, 500, 500)+
		bars(name, `engine="0",model_name="b, \"c\"}"`, 40, bounds, 0, 0, 0, 0, 1000))
	for labels, want := range map[string]time.Duration{"model_name=a": 30 * ms, "model_name=a, engine=1": 40 * ms, `engine=0,model_name="a"`: 20 * ms} {
		if b, err := (&Ask{From: url, Labels: labels}).Resolve(t.Context(), here()); err != nil || b.PerToken != want || b.Metric.Labels != labels {
			t.Errorf("%s: %+v, %v, want %v", labels, b, err, want)
		}
	}
	// 500 of the bar of 500 up to 25 ms.
	if b, err := (&Ask{From: url, Labels: "model_name=a", Statistic: "p50"}).Resolve(t.Context(), here()); err != nil || b.PerToken != 25*ms {
		t.Errorf("p50 of two series: %+v, %v", b, err)
	}
	for labels, want := range map[string]string{
		"":             `series of several models: a, b, "c"}; choose one with --budget-labels=model_name=a`,
		"model_name=x": `no series of vllm:inter_token_latency_seconds has these labels; there are {engine="0",model_name="a"}, {engine="1",model_name="a"}`,
		"model_name":   `--budget-labels: "model_name" is not name=value`,
	} {
		if _, err := (&Ask{From: url, Labels: labels}).Resolve(t.Context(), here()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", labels, err, want)
		}
	}
}

// TestScrapeRefused: what is wrong with a page is said, with what there is instead.
func TestScrapeRefused(t *testing.T) {
	name := "vllm:inter_token_latency_seconds"
	for want, page := range map[string]string{
		"none of vLLM, SGLang, TensorRT-LLM or TGI is on the page": other,
		"there are vllm:e2e_request_latency_seconds, vllm:time_to_first_token_seconds": bars("vllm:time_to_first_token_seconds", "", 1, bounds, 0, 0, 0, 0, 1) +
			bars("vllm:e2e_request_latency_seconds", "", 1, bounds, 0, 0, 0, 0, 1),
		"has no observations since the engine started": bars(name, "", 0, bounds, 0, 0, 0, 0, 0),
		"line 1: vllm:x has no value":                  "vllm:x{}\n",
		`line 2: vllm:x has the value "fast"`:          "\nvllm:x fast\n",
		"labels that do not end":                       `vllm:x{a="b",c 1`,
		"a label's value that does not end":            `vllm:x{a="b 1`,
		"a value of NaN":                               name + "_count NaN\n" + name + "_sum 1\n",
		"a value of -1":                                name + "_count -1\n" + name + "_sum 1\n",
		`a bucket with the bound "x"`:                  name + `_bucket{le="x"} 1` + "\n" + name + "_count 1\n",
		"a sum of 0 over 5 observations":               name + "_count 5\n" + name + "_sum 0\n",
		"must lie between 1µs and 1h0m0s":              name + "_count 1\n" + name + "_sum 4000\n",
		"and 3 more":                                   manyHistograms(15),
		"a series of more than 256 buckets":            strings.Repeat(name+"_bucket{le=\"1\"} 1\n", 257) + name + "_count 1\n",
	} {
		_, err := (&Ask{From: engine(t, page)}).Resolve(t.Context(), here())
		var usage *UsageError
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &usage) || !strings.Contains(err.Error(), "http://127.0.0.1") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	a := Ask{From: engine(t, name+"_count 5\n"+name+"_sum 1\n"), Statistic: "p50"}
	if _, err := a.Resolve(t.Context(), here()); err == nil || !strings.Contains(err.Error(), "has no buckets; take the mean") {
		t.Error(err)
	}
}

func manyHistograms(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(bars(fmt.Sprintf("vllm:h%02d", i), "", 1, bounds, 0, 0, 0, 0, 1))
	}
	return b.String()
}

// TestServers: servers that are down, slow, wrong or endless.
func TestServers(t *testing.T) {
	url := engine(t, other)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		line := []byte(strings.Repeat("# nothing\n", 1<<12))
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct{ from, want string }{
		{strings.TrimSuffix(url, "/metrics") + "/other", "the answer is 404 Not Found; is the path right"},
		{endless.URL, "the page has more than 33554432 bytes"},
		{gone.URL, "connection refused"},
		{"http://user:secret@" + strings.TrimPrefix(gone.URL, "http://"), "http://user:xxxxx@127.0.0.1"},
	} {
		_, err := (&Ask{From: c.from}).Resolve(t.Context(), here())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", c.from, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := (&Ask{From: silent.URL}).Resolve(ctx, here()); !errors.Is(err, context.Canceled) {
		t.Errorf("a silent server: %v", err)
	}
	for _, a := range []Ask{{From: "http://"}, {From: "http://h/%zz"}, {From: url, Statistic: "max"}, {From: url, Statistic: "p0"}, {From: url, Statistic: "pNaN"},
		{From: url, Interval: "5"}, {From: url, Interval: "-1s"}, {From: url, Interval: "2h"}} {
		_, err := a.Resolve(t.Context(), here())
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// FuzzExposition: any text is an error or samples, in bounded time, and a histogram
// of them gives a time or an error.
func FuzzExposition(f *testing.F) {
	for _, p := range pages {
		f.Add(p.page)
	}
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := exposition(text, func(name string) bool { return engineOf(name) != "" })
		if err != nil {
			return
		}
		m, h, err := page(samples).find(nil)
		if err != nil || h.count == 0 {
			return
		}
		for _, s := range []statistic{{mean: true}, {quantile: 0.5}, {quantile: 0.999}} {
			r := &Reading{Name: m.name}
			if s.of(h, r) == nil && r.Value < 0 {
				t.Errorf("%v of %+v is %v", s, h, r.Value)
			}
		}
	})
}

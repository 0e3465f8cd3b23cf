package admin

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// TestCounts: 70 hits and 30 misses are exactly that; nothing changes while nothing
// happens, two scrapes agree, and no name comes twice.
func TestCounts(t *testing.T) {
	r := newRig(t, node.Options{})
	r.view.Configure(Gate{Budget: time.Hour, ComputePerToken: 2 * time.Millisecond}, "")
	c := r.dial()
	ns := r.open(c, "llama")
	id := r.node.Stat().Spaces[0].ID[:12]
	blocks := r.blocks(c, 0, 100)
	ns.Put(blocks[:70], client.PutOptions{}).Wait()
	ns.Put(blocks[:10], client.PutOptions{}).Wait()
	got := ns.Get(blocks, client.GetOptions{}).Wait()
	ns.Match([][]byte{[]byte("key-0"), []byte("none")}, client.MatchOptions{})
	if got.Statuses[69] != client.Hit || got.Statuses[70] != client.Miss {
		t.Fatalf("%v", got.Statuses)
	}
	must(t, c.Drain(t.Context()))
	first := r.series()
	of := func(name string, labels string) string {
		return fmt.Sprintf(`%s%s{namespace="llama",namespace_id="%s"%s}`, prefix, name, id, labels)
	}
	store := r.node.Stat().Stores[0].Dir
	for name, want := range map[string]string{
		of("get_blocks_total", `,result="hit"`): "70", of("get_blocks_total", `,result="miss"`): "30",
		of("get_blocks_total", `,result="late"`): "0", of("get_blocks_total", `,result="busy"`): "0",
		of("prefix_hit_blocks_total", ""): "70", of("namespace_blocks", ""): "70",
		of("put_blocks_total", `,result="stored"`): "70", of("put_blocks_total", `,result="present"`): "10", of("put_blocks_total", `,result="dropped"`): "0",
		of("read_bytes_total", ""): fmt.Sprint(70 * blockBytes), of("written_bytes_total", ""): fmt.Sprint(70 * blockBytes),
		prefix + "match_keys_total": "2", prefix + "match_keys_present_total": "1", prefix + "connections": "1", prefix + "ready": "1",
		prefix + "block_read_duration_seconds_count":                       "70",
		prefix + `block_read_duration_seconds_bucket{le="+Inf"}`:           "70",
		prefix + `request_duration_seconds_count{operation="get"}`:         "1",
		prefix + `request_duration_seconds_count{operation="put"}`:         "2",
		prefix + `request_duration_seconds_count{operation="match"}`:       "1",
		prefix + `store_capacity_bytes{store="` + store + `"}`:             "6.7108864e+07",
		prefix + `store_written_bytes_total{store="` + store + `"}`:        fmt.Sprint(70 * blockBytes),
		prefix + `store_health{state="ok",store="` + store + `"}`:          "1",
		prefix + `store_health{state="sick",store="` + store + `"}`:        "0",
		prefix + `store_torn_blocks_total{store="` + store + `"}`:          "0",
		prefix + `store_put_queue_limit_bytes{store="` + store + `"}`:      "2.68435456e+08",
		prefix + `limit{name="connections"}`:                               "256",
		prefix + "saved_tokens_total":                                      "1120",
		prefix + "saved_gpu_seconds_total":                                 "2.24",
		prefix + "budget_seconds":                                          "3600",
		prefix + `budget_verdict{verdict="cannot judge"}`:                  "1",
		prefix + `budget_verdict{verdict="pass"}`:                          "0",
		prefix + "recent_block_reads":                                      "70",
		prefix + `build_info{version="v1.2.3"}`:                            "1",
		prefix + `store_open{store="` + store + `"}`:                       "1",
		prefix + `store_queue_waiting{class="load",store="` + store + `"}`: "0",
	} {
		if first[name] != want {
			t.Errorf("%s is %q, want %s", name, first[name], want)
		}
	}
	if second := r.series(); !maps.Equal(first, second) {
		for name, v := range second {
			if first[name] != v {
				t.Errorf("%s was %s, is %s, and nothing happened", name, first[name], v)
			}
		}
	}
}

// TestVerdict: the verdict follows from the reads of the last minute.
func TestVerdict(t *testing.T) {
	r := newRig(t, node.Options{})
	c := r.dial()
	ns := r.open(c, "a")
	blocks := r.blocks(c, 0, 400)
	ns.Put(blocks, client.PutOptions{}).Wait()
	ns.Get(blocks, client.GetOptions{}).Wait()
	for budget, want := range map[time.Duration]string{0: noBudget, time.Nanosecond: "over budget", time.Hour: "pass"} {
		r.view.Configure(Gate{Budget: budget}, "")
		s := r.view.State()
		if s.Gate.Verdict != want || s.Gate.Reads != 400 {
			t.Errorf("budget %v: %+v, want %s", budget, s.Gate, want)
		}
		if all := r.series(); all[prefix+`budget_verdict{verdict="`+want+`"}`] != "1" {
			t.Errorf("budget %v: no metric says %s", budget, want)
		}
	}
	r.view.Configure(Gate{Budget: time.Hour}, "")
	r.view.now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	if s := r.view.State(); s.Gate.Verdict != "cannot judge" {
		t.Errorf("after two quiet minutes: %+v", s.Gate)
	}
}

// TestManyNamespaces: a client that makes up namespaces makes no series.
func TestManyNamespaces(t *testing.T) {
	r := newRig(t, node.Options{NamespacesMax: 1000})
	c := r.dial()
	blocks := r.blocks(c, 0, 1)
	const all = spacesShown + 10
	for i := range all {
		r.open(c, fmt.Sprintf("ns-%03d", all-i)).Get(blocks, client.GetOptions{}).Wait()
	}
	misses := map[string]string{}
	for name, v := range r.series() {
		if strings.HasPrefix(name, prefix+"get_blocks_total{") && strings.Contains(name, `result="miss"`) {
			misses[name] = v
		}
	}
	other := prefix + `get_blocks_total{namespace="other",namespace_id="",result="miss"}`
	if len(misses) != spacesShown+1 || misses[other] != "10" {
		t.Errorf("%d series, other %q", len(misses), misses[other])
	}
}

// TestOtherSums: whatever is counted of a namespace is in the sum of those without series.
func TestOtherSums(t *testing.T) {
	all := make([]node.SpaceStat, 2)
	for i := range all {
		all[i].Number = spacesShown + 1
		for f, v := range reflect.ValueOf(&all[i]).Elem().Fields() {
			if f.Type.Kind() == reflect.Uint64 {
				v.SetUint(3)
			}
		}
	}
	other := shownSpaces(all)
	for f, v := range reflect.ValueOf(other[0]).Fields() {
		if f.Type.Kind() == reflect.Uint64 && v.Uint() != 6 {
			t.Errorf("%s is left out of %q", f.Name, other[0].Name)
		}
	}
}

// TestConventions: names and help follow Prometheus' rules, and the collector says
// all that it sends.
func TestConventions(t *testing.T) {
	r := newRig(t, node.Options{})
	r.open(r.dial(), "a")
	r.view.SetPool(newFake())
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(newCollector(r.view)))
	families, err := registry.Gather()
	must(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	sent := map[string]bool{}
	for _, f := range families {
		sent[f.GetName()] = true
		if m := byName(f.GetName()); m == nil || m.kind() != strings.ToLower(f.GetType().String()) {
			t.Errorf("%s is a %v, the page says %+v", f.GetName(), f.GetType(), m)
		}
	}
	for _, m := range described() {
		if !sent[m.name] {
			t.Errorf("%s is described and not sent", m.name)
		}
	}
	starting := prometheus.NewPedanticRegistry()
	must(t, starting.Register(newCollector(NewView("v"))))
	if families, err := starting.Gather(); err != nil || len(families) != 2 {
		t.Errorf("while starting: %v, %v", families, err)
	}
}

func described() []metric { return newCollector(NewView("")).metrics }

func byName(name string) *metric {
	all := described()
	if i := slices.IndexFunc(all, func(m metric) bool { return m.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

const metricsHead = `# Metrics

Made from the metrics themselves; ` + "`go generate ./cmd/spillway/admin`" + ` writes it anew, and a test fails
when it is stale. ` + "`/metrics`" + ` of the admin interface ([operations](operations.md#the-daemon)) serves these, and Go's and
the process's own (` + "`go_*`, `process_*`" + `). Counters count from the start of the daemon.

- *namespace*: the name of its descriptor, with the first 12 digits of its ID. The 64 namespaces that were opened first
  have series of their own, the rest is summed up as ` + "`other`" + `.
- *store*: the directory, as configured.
- *peer*: the other node's name; the first 128 members by name. Metrics of a pool and of peers are there only on a node of a pool.
- *Block reads* are measured in the daemon: from the arrival of a request until the drive had the block and its checksum
  was proven. Blocks that are read in one transfer (up to 16 MiB) count the time of the whole, so a large batch looks slower than
  its first block was. The verdict on the last minute is that of ` + "`spillway replay --budget`" + `.
- *Saved GPU seconds* are an estimate: tokens of prefix hits times ` + "`gate.compute_per_token`" + `, or, with ` + "`gate.model`" + `, times the
  mean of a token of a prompt of 4,096 by that model's roofline. With neither the budget stands in for it. A budget is the time of
  one decoding step, in which a GPU computes one token for each sequence of a batch; of a prompt it computes many at once, so the
  estimate is then far too high. Measure the time that a long prompt takes and divide by its tokens.

| metric | type | labels | meaning |
|---|---|---|---|
`

// TestMetricsPage fails when the page is stale; with -update it writes it anew.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(metricsHead)
	all := described()
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	for _, m := range all {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind(), strings.Join(m.labels, ", "), m.help)
	}
	const path = "../../../docs/metrics.md"
	if *update {
		must(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	if page, err := os.ReadFile(path); err != nil || string(page) != b.String() {
		t.Errorf("%s is stale (%v): go generate ./cmd/spillway/admin writes it anew", path, err)
	}
}

var metricName = regexp.MustCompile(`\b(?:spillway|process|go)_[a-z0-9_]+`)

// TestDashboard: every metric that the dashboard asks for is there, and every metric
// that documents name.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/grafana/spillway.json")
	must(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(text, &board))
	known := map[string]bool{"process_resident_memory_bytes": true}
	for _, m := range described() {
		known[m.name] = true
		if m.kind() == "histogram" {
			known[m.name+"_bucket"], known[m.name+"_sum"], known[m.name+"_count"] = true, true, true
		}
	}
	asked := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				asked++
				if !known[name] {
					t.Errorf("panel %q asks for %s, which nobody exports", p.Title, name)
				}
			}
		}
	}
	if asked < 40 {
		t.Errorf("only %d metrics found: the test does not see the dashboard", asked)
	}
	page, err := os.ReadFile("../../../docs/operations.md")
	must(t, err)
	for _, name := range metricName.FindAllString(string(page), -1) {
		if !known[name] {
			t.Errorf("docs/operations.md names %s, which nobody exports", name)
		}
	}
}

package admin

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine/histogram"
	"github.com/spillway-kv/spillway/fio"
)

const prefix = "spillway_"

// spacesShown is how many namespaces have series of their own, those opened first;
// the rest is summed up as "other". So a client that makes up namespaces makes no
// series.
const spacesShown = 64

//go:generate go test -run ^TestMetricsPage$ -update .

// collector makes metrics of one snapshot for each scrape.
type collector struct {
	view    *View
	descs   map[string]*prometheus.Desc
	metrics []metric // what descs describes, for the page
}

type metric struct {
	name, help string
	labels     []string
}

// kind is the metric's type in Prometheus' words.
func (m metric) kind() string {
	switch {
	case strings.HasSuffix(m.name, "_total"):
		return "counter"
	case strings.HasSuffix(m.name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}

func newCollector(v *View) *collector {
	c := &collector{view: v, descs: map[string]*prometheus.Desc{}}
	describe(c, nodeRows)
	describe(c, spaceRows, "namespace", "namespace_id")
	describe(c, storeRows, "store")
	describe(c, driveRows, "store")
	describe(c, memoryRows)
	describe(c, prefetchRows)
	describePool(c)
	c.describe("build_info", "1; the label is the version.", "version")
	c.describe("ready", "1 if clients are served.")
	c.describe("limit", "Bounds of the configuration, by name.", "name")
	c.describe("store_open", "1 if the store is open, 0 if it is optional and could not be opened.", "store")
	c.describe("request_duration_seconds", "Time from a request's arrival to its answer.", "operation")
	c.describe("block_read_duration_seconds", "Time from a request's arrival until a block of it was hit, verified; of blocks that are read in one transfer, that of the transfer.")
	c.describe("recent_block_read_seconds", "What block_read_duration_seconds has of the last minute, exact to 1 %, by percentile; 100 is the slowest.", "percentile")
	c.describe("recent_block_reads", "Blocks hit in the last minute.")
	c.describe("budget_seconds", "Time that the P99 of block reads must stay under; 0: none.")
	c.describe("budget_verdict", "1 for the verdict on the last minute: the 95 % interval of the P99 lies under the budget, over it, or it cannot be judged.", "verdict")
	c.describe("saved_gpu_seconds_total", "Estimate: saved tokens times the time of computing one. Jumps when that time is changed.")
	return c
}

func (c *collector) describe(name, help string, labels ...string) {
	if c.descs[name] != nil {
		return // rows that differ in the value of their label
	}
	c.descs[name] = prometheus.NewDesc(prefix+name, help, labels, nil)
	c.metrics = append(c.metrics, metric{prefix + name, help, labels})
}

func describe[T any](c *collector, rows []row[T], labels ...string) {
	for _, r := range rows {
		all := labels[:len(labels):len(labels)]
		if r.label != "" {
			all = append(all, r.label)
		}
		c.describe(r.name, r.help, all...)
	}
}

// Describe lists every metric there can be.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// emitter sends the metrics of one scrape.
type emitter struct {
	c  *collector
	to chan<- prometheus.Metric
}

func (e emitter) put(name string, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	e.to <- prometheus.MustNewConstMetric(e.c.descs[name], kind, value, labels...)
}

func emit[T any](e emitter, rows []row[T], of *T, labels ...string) {
	for _, r := range rows {
		all := labels[:len(labels):len(labels)]
		if r.label != "" {
			all = append(all, r.value)
		}
		e.put(r.name, r.of(of), all...)
	}
}

// Collect takes one snapshot and sends it.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	e := emitter{c, to}
	e.put("build_info", 1, c.view.version)
	e.put("ready", truth(c.view.ready.Load()))
	n := c.view.node.Load()
	if n == nil {
		return
	}
	st := c.view.State()
	emit(e, nodeRows, &st.Stat)
	if st.Memory != nil {
		emit(e, memoryRows, st.Memory)
	}
	if st.Prefetch != nil {
		emit(e, prefetchRows, st.Prefetch)
	}
	for _, s := range shownSpaces(st.Spaces) {
		emit(e, spaceRows, &s, s.Name, shortID(s.ID))
	}
	for i := range st.Stores {
		emit(e, storeRows, &st.Stores[i], st.Stores[i].Dir)
		emit(e, driveRows, &st.Drives[i], st.Stores[i].Dir)
		e.put("store_open", 1, st.Stores[i].Dir)
	}
	for _, dir := range st.Missing {
		e.put("store_open", 0, dir)
	}
	e.limits(n)
	for _, op := range n.Operations() {
		e.histogram("request_duration_seconds", op.Times, op.Name)
	}
	e.histogram("block_read_duration_seconds", n.BlockReads())
	e.gate(&st)
	if p := c.view.pool.Load(); p != nil {
		e.pool(*p)
	}
}

func (e emitter) limits(n *node.Node) {
	o := n.Options()
	for name, bound := range map[string]float64{"connections": float64(o.ConnectionsMax), "namespaces": float64(o.NamespacesMax),
		"requests": float64(o.RequestsMax), "keys": float64(o.KeysMax), "regions": float64(o.RegionsMax),
		"region_bytes": float64(o.RegionBytesMax), "leases": float64(o.LeasesMax)} {
		e.put("limit", bound, name)
	}
}

func (e emitter) gate(st *State) {
	g := st.Gate
	e.put("recent_block_reads", float64(st.Recent.Reads))
	for percentile, ns := range map[string]int64{"50": st.Recent.P50NS, "99": st.Recent.P99NS, "100": st.Recent.MaxNS} {
		e.put("recent_block_read_seconds", float64(ns)/1e9, percentile)
	}
	e.put("budget_seconds", float64(g.BudgetNS)/1e9)
	for _, verdict := range []string{fio.Pass.String(), fio.Over.String(), fio.CannotJudge.String(), noBudget} {
		e.put("budget_verdict", truth(g.Verdict == verdict), verdict)
	}
	e.put("saved_gpu_seconds_total", g.SavedSeconds)
}

// Buckets of the exported histograms end at powers of two of nanoseconds, where
// fio's buckets end, so that no count is guessed: 4 us to 34 s.
const (
	bucketFirst = 12
	bucketLast  = 35
)

func (e emitter) histogram(name string, s histogram.Snapshot, labels ...string) {
	buckets := make(map[float64]uint64, bucketLast-bucketFirst+1)
	bins, below := s.Bins(), uint64(0)
	for power := bucketFirst; power <= bucketLast; power++ {
		bound := int64(1) << power
		for len(bins) > 0 && bins[0].MidpointNS < bound {
			below += bins[0].Count
			bins = bins[1:]
		}
		buckets[float64(bound)/1e9] = below
	}
	e.to <- prometheus.MustNewConstHistogram(e.c.descs[name], s.Count, s.MeanNS*float64(s.Count)/1e9, buckets, labels...)
}

func shortID(id string) string { return id[:min(12, len(id))] }

// shownSpaces sums up those that have no series of their own.
func shownSpaces(all []node.SpaceStat) []node.SpaceStat {
	var shown []node.SpaceStat
	other := node.SpaceStat{Name: "other"}
	for i := range all {
		s := &all[i]
		if s.Number <= spacesShown {
			shown = append(shown, *s)
			continue
		}
		other.Blocks += s.Blocks
		other.Hits += s.Hits
		other.PrefixHits += s.PrefixHits
		other.MemoryHits += s.MemoryHits
		other.RemoteHits += s.RemoteHits
		other.Misses += s.Misses
		other.Late += s.Late
		other.Busy += s.Busy
		other.Stored += s.Stored
		other.RemoteStored += s.RemoteStored
		other.Present += s.Present
		other.Dropped += s.Dropped
		other.Declined += s.Declined
		other.NotFull += s.NotFull
		other.FirstSight += s.FirstSight
		other.OverBudget += s.OverBudget
		other.QueueFull += s.QueueFull
		other.LatePuts += s.LatePuts
		other.ReadBytes += s.ReadBytes
		other.WrittenBytes += s.WrittenBytes
	}
	if len(shown) < len(all) {
		shown = append(shown, other)
	}
	return shown
}

package plan

import (
	"io"
	"testing"

	"github.com/spillway-kv/spillway/tiering/trace"
)

// questions are requests that each name a whole document of many blocks, from its
// beginning, and a question of their own behind it.
type questions struct {
	documentBlocks, left int
	next                 uint64
	nowMS                int64
}

func (q *questions) Next() (trace.Request, error) {
	if q.left == 0 {
		return trace.Request{}, io.EOF
	}
	q.left--
	q.nowMS += 5000
	ids := make([]uint64, q.documentBlocks+1)
	for i := range q.documentBlocks {
		ids[i] = uint64(i)
	}
	q.next++
	ids[q.documentBlocks] = 1<<32 + q.next
	return trace.Request{TimestampMS: q.nowMS, InputLength: len(ids) * trace.TokensPerBlock, OutputLength: 100, HashIDs: ids}, nil
}

// TestLongDocument: a document of 128K tokens is asked about again and again in a cache
// of three quarters of it. An LRU that is touched from the root on has nothing of it
// when it comes again; the default keeps most of what can be kept.
func TestLongDocument(t *testing.T) {
	const documentBlocks, requests = 128 << 10 / trace.TokensPerBlock, 60
	tr := load(t, &questions{documentBlocks: documentBlocks, left: requests})
	capacity := documentBlocks * 3 / 4
	strict := simulate(t, tr, Config{Policy: "lru", Capacity: capacity, HeadFirst: true})
	if strict.PrefixHits != 0 {
		t.Errorf("an LRU that is touched head first has %d prefix hits", strict.PrefixHits)
	}
	for _, policy := range []string{"hazard", "lru", "s3fifo"} {
		row := simulate(t, tr, Config{Policy: policy, Capacity: capacity})
		perRequest := float64(row.PrefixHits) / float64(requests-1)
		t.Logf("%s: %.1f of %d blocks a request are prefix hits, the cache has %d", policy, perRequest, documentBlocks, capacity)
		if policy == "hazard" && perRequest < 0.9*float64(capacity) {
			t.Errorf("the default has %.1f prefix hits a request, the cache %d blocks", perRequest, capacity)
		}
	}
	head := simulate(t, tr, Config{Policy: "hazard", Capacity: capacity, HeadFirst: true})
	if head.PrefixHits == 0 {
		t.Error("the default touched head first has no prefix hits")
	}
	t.Logf("hazard, head first: %.1f", float64(head.PrefixHits)/float64(requests-1))
}

// TestPlacement: on a generated trace runs keep more of the hits when a node is lost than
// single blocks do, and no request meets more nodes.
func TestPlacement(t *testing.T) {
	tr := load(t, trace.NewGenerator(trace.Config{Seed: 6, Requests: 2000}))
	all, err := Compare(t.Context(), tr, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	block, run, local := all[PerBlock], all[PerRun], all[Local]
	if block.Kept >= run.Kept || run.Kept > 1 || block.NodesPerRequest <= run.NodesPerRequest || local.NodesPerRequest > run.NodesPerRequest {
		t.Errorf("%+v", all)
	}
	if block.Balance < 1 || block.Balance > 1.2 || run.Balance > 1.6 {
		t.Errorf("balance: %+v", all)
	}
}

// TestPlacementOnConversation: at least 80 % of the prefix hits are kept in the first
// minute where runs are placed.
func TestPlacementOnConversation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	all, err := Compare(t.Context(), open(t, "mooncake_conversation_trace.jsonl.zst"), 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", all)
	if all[PerRun].Kept < .8 || all[PerBlock].Kept > .5 {
		t.Errorf("%+v", all)
	}
}

// TestRestart: with the engine's policies a restart in mid-trace costs the default few of
// the hits of the next minutes.
func TestRestart(t *testing.T) {
	tr := load(t, trace.NewGenerator(trace.Config{Seed: 8, Requests: 3000}))
	c := Config{Policy: "hazard", Capacity: tr.CapacityOf(.05)}
	whole := simulate(t, tr, c)
	c.RestartMS = 30 * minuteMS
	restarted := simulate(t, tr, c)
	cost := CostOf(whole, restarted, 5)
	t.Logf("prefix hits in %d minutes: %d, after a restart %d", cost.Minutes, cost.Whole, cost.Restarted)
	if cost.Minutes != 5 || cost.Whole == 0 || float64(cost.Restarted) < 0.9*float64(cost.Whole) {
		t.Errorf("%+v", cost)
	}
}

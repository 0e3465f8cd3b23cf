package pool_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/tiering/place"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// What a Match costs in pools of some sizes, and what it would cost in pools cut into
// cells: a simulation. docs/pool.md has its tables, and these tests hold them to it.

const (
	cellNodes   = 32
	frameBytes  = 40 // of the tcp transport, before each message
	matchBlocks = 16 // of a Match: a prompt of 8,192 tokens in blocks of 512
)

// matchCost is what one Match puts on the network.
type matchCost struct{ messages, bytes int }

// costOf is the cost of asking n others, when every node of the pool has deleted blocks:
// then scopes are largest.
func costOf(asked, nodes, ids int, deletions bool) matchCost {
	s := peer.Scope{}
	for i := range nodes {
		if deletions {
			s.Clock = append(s.Clock, peer.Mark{Origin: nodeID(i), Seq: 1})
		}
	}
	request := len(peer.AppendMatch(peer.AppendScope(nil, &s), 0, make([]peer.ID, ids)))
	a := peer.Matched{IDs: ids, Bitmap: make([]byte, (ids+7)/8)}
	return matchCost{2 * asked, asked * (request + len(a.Append(nil)) + 2*frameBytes)}
}

// TestMatchCost: the table of docs/pool.md that says what a Match costs.
func TestMatchCost(t *testing.T) {
	var rows []string
	for _, nodes := range []int{8, 32, 128, 1024} {
		whole := costOf(nodes-1, nodes, matchBlocks, false)
		deleted := costOf(nodes-1, nodes, matchBlocks, true)
		rows = append(rows, fmt.Sprintf("| %d | all others | %d | %s | %s | %.0f %% |",
			nodes, whole.messages, kib(whole.bytes), kib(deleted.bytes), 100*(1-math.Pow(.99, float64(nodes-1)))))
		if nodes > cellNodes {
			cell, cellDeleted := costOf(cellNodes, nodes, matchBlocks, false), costOf(cellNodes, cellNodes, matchBlocks, true)
			rows = append(rows, fmt.Sprintf("| %d | one cell of %d | %d | %s | %s | %.0f %% |",
				nodes, cellNodes, cell.messages, kib(cell.bytes), kib(cellDeleted.bytes), 100*(1-math.Pow(.99, cellNodes))))
		}
	}
	inPage(t, rows)
}

func kib(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }

// cells are cells in which the chains of a trace live.
type cells struct {
	set   *place.Set
	depth int               // of the block that a chain's cell is chosen by
	known map[uint64]bool   // blocks of one pool
	in    []map[uint64]bool // blocks of each cell
	hits  int               // prefix hits of one pool
	kept  int               // prefix hits of cells
}

func newCells(n, depth int) *cells {
	nodes := make([]place.Node, n)
	for i := range nodes {
		nodes[i] = place.Node{ID: nodeID(i), Weight: 1}
	}
	c := &cells{set: place.NewSet(nodes), depth: depth, known: map[uint64]bool{}, in: make([]map[uint64]bool, n)}
	for i := range c.in {
		c.in[i] = map[uint64]bool{}
	}
	return c
}

// request is one request of a trace: what of its prefix is found, then all of it is stored.
func (c *cells) request(chain []uint64) {
	cell := c.in[c.set.Home(scatter(chain[min(c.depth, len(chain)-1)]))]
	c.hits += prefixIn(c.known, chain)
	c.kept += prefixIn(cell, chain)
	for _, b := range chain {
		c.known[b], cell[b] = true, true
	}
}

// prefixIn is how many blocks of a chain are known from the first on.
func prefixIn(known map[uint64]bool, chain []uint64) (n int) {
	for n < len(chain) && known[chain[n]] {
		n++
	}
	return n
}

// scatter makes an ID of a trace's number.
func scatter(n uint64) (id place.ID) {
	binary.LittleEndian.PutUint64(id[:8], (n+1)*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(id[8:], (n+1)*0xbf58476d1ce4e5b9)
	return id
}

// figures are the part of prefix hits that cells keep, the blocks that they store over
// those of one pool, and the fullest cell over the mean.
func (c *cells) figures() (kept, stored, fullest float64) {
	total, most := 0, 0
	for _, cell := range c.in {
		total += len(cell)
		most = max(most, len(cell))
	}
	return float64(c.kept) / float64(c.hits), float64(total) / float64(len(c.known)), float64(most*len(c.in)) / float64(total)
}

// run goes through a trace.
func (c *cells) run(t *testing.T, src trace.Source) {
	t.Helper()
	for {
		q, err := src.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(q.HashIDs) > 0 {
			c.request(q.HashIDs)
		}
	}
}

// TestCells: the table of docs/pool.md that says what cells lose: prefix hits, room, and
// balance, by the depth of the block that chooses a chain's cell.
func TestCells(t *testing.T) {
	sources := map[string]func() (trace.Source, func()){
		"generated, seed 7": func() (trace.Source, func()) {
			return trace.NewGenerator(trace.Config{Seed: 7, Requests: trace.ConversationRequests}), func() {}
		},
		"conversation": func() (trace.Source, func()) {
			r, err := trace.Open("../../../shared/reference/traces/mooncake_conversation_trace.jsonl.zst")
			if os.IsNotExist(err) {
				return nil, nil
			}
			if err != nil {
				t.Fatal(err)
			}
			return r, func() { r.Close() }
		},
	}
	var rows []string
	for _, name := range []string{"conversation", "generated, seed 7"} {
		for _, nodes := range []int{128, 1024} {
			for _, depth := range []int{0, 1, 4} {
				src, done := sources[name]()
				if src == nil {
					t.Log("the public traces are not here")
					continue
				}
				c := newCells(nodes/cellNodes, depth)
				c.run(t, src)
				done()
				kept, stored, fullest := c.figures()
				rows = append(rows, fmt.Sprintf("| %s | %d | %d | %.1f %% | %.2f | %.2f |", name, nodes/cellNodes, depth, 100*kept, stored, fullest))
			}
		}
	}
	inPage(t, rows)
}

// inPage wants rows in docs/pool.md.
func inPage(t *testing.T, rows []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/pool.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Log(row)
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/pool.md lacks the row\n%s", row)
		}
	}
}

package pool

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/tiering/trace"
)

const traceBlock = 4096 // bytes that stand for a block of the trace

// requests are those of the conversation trace laid beside the repository, or of a
// generated one of its shape.
func requests(t *testing.T) func() (trace.Request, error) {
	r, err := trace.Open("../../../shared/reference/traces/mooncake_conversation_trace.jsonl.zst")
	if err == nil {
		t.Cleanup(func() { _ = r.Close() })
		return r.Next
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	t.Log("no trace at hand: the requests are a generated one's")
	return trace.NewGenerator(trace.Config{Seed: 9, Requests: trace.ConversationRequests}).Next
}

// asker is a client that replays requests of a trace.
type asker struct {
	c    *client.Client
	ns   *client.Namespace
	rows *client.Region
}

const askerRows = 256

func (n *node) asker(t *testing.T) *asker {
	t.Helper()
	a := &asker{c: n.dial()}
	var err error
	if a.ns, err = a.c.Namespace(t.Context(), map[string]any{"name": "trace", "block_bytes": traceBlock}, ""); err == nil {
		a.rows, err = a.c.Allocate(askerRows * traceBlock)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ask is one request: the prefix that is there is loaded and proven, the rest is put. It
// returns how many blocks were loaded, root first.
func (a *asker) ask(t *testing.T, ids []uint64) (loaded int) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = binary.BigEndian.AppendUint64(nil, id)
	}
	m := a.ns.Match(keys, client.MatchOptions{})
	mem := a.rows.Bytes()
	for loaded < m.Prefix {
		batch := ids[loaded:min(m.Prefix, loaded+askerRows)]
		clear(mem)
		j := a.ns.Get(a.blocks(keys[loaded:loaded+len(batch)]), client.GetOptions{Timeout: 10 * time.Second})
		result := j.Wait()
		<-j.Released()
		good := 0
		for good < len(batch) && result.Statuses[good] == client.Hit {
			for at := 0; at < traceBlock; at += 8 {
				if binary.LittleEndian.Uint64(mem[good*traceBlock+at:]) != word(int(batch[good]), 0, at) {
					t.Fatalf("block %d is a hit with wrong bytes at %d", batch[good], at)
				}
			}
			good++
		}
		loaded += good
		if good < len(batch) {
			break
		}
	}
	for from := loaded; from < len(ids); from += askerRows {
		batch := ids[from:min(len(ids), from+askerRows)]
		for i, id := range batch {
			for at := 0; at < traceBlock; at += 8 {
				binary.LittleEndian.PutUint64(mem[i*traceBlock+at:], word(int(id), 0, at))
			}
		}
		o := client.PutOptions{Depth: uint32(from)}
		if from > 0 {
			o.After = keys[from-1]
		}
		j := a.ns.Put(a.blocks(keys[from:from+len(batch)]), o)
		j.Wait()
		<-j.Released()
	}
	return loaded
}

func (a *asker) blocks(keys [][]byte) []client.Block {
	all := make([]client.Block, len(keys))
	for i, key := range keys {
		all[i] = client.Block{Key: key, Places: []client.Place{a.rows.Row(i, traceBlock)}}
	}
	return all
}

// blocksOf are how many blocks a node stores.
func (n *node) blocksOf(t *testing.T, a *asker) (blocks int) {
	t.Helper()
	var st struct {
		Stores []struct {
			Blocks int `json:"blocks"`
		} `json:"stores"`
	}
	b, err := a.c.Stats(t.Context())
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range st.Stores {
		blocks += s.Blocks
	}
	return blocks
}

// TestLostNode kills one of three nodes in the middle of the conversation trace. With two
// copies of each block at least 80 % of the prefix hits of the next minute are kept, of
// those that there would be if nothing were lost; with one copy it says how many.
func TestLostNode(t *testing.T) {
	for _, copies := range []string{"copies = 1", "copies = 2"} {
		t.Run(copies, func(t *testing.T) {
			kept, of := loseOne(t, copies)
			t.Logf("%s: %d of %d prefix hits are kept in the first minute, %.0f %%", copies, kept, of, 100*float64(kept)/float64(of))
			if of == 0 || copies == "copies = 2" && kept*100 < of*80 {
				t.Errorf("%d of %d prefix hits are kept", kept, of)
			}
		})
	}
}

func loseOne(t *testing.T, configured string) (kept, of int) {
	r := newRig(t, 3, configured)
	r.start(r.nodes...)
	var askers []*asker
	for _, n := range r.nodes {
		a := n.asker(t)
		defer a.c.Close()
		askers = append(askers, a)
	}
	next := requests(t)
	warm := int64(5 * 60_000) // ms of the trace
	if long {
		warm *= 4
	}
	seen := map[uint64]bool{}
	lost, total, loadedBefore, idealBefore := false, 0, 0, 0
	for {
		q, err := next()
		if errors.Is(err, io.EOF) || err == nil && q.TimestampMS > warm+60_000 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !lost && q.TimestampMS > warm {
			lost = true
			for i, n := range r.nodes {
				t.Logf("%s stores %d blocks", n.name, n.blocksOf(t, askers[i]))
			}
			r.nodes[2].kill()
			askers = askers[:2]
		}
		ideal := 0
		for ideal < len(q.HashIDs) && seen[q.HashIDs[ideal]] {
			ideal++
		}
		loaded := askers[total%len(askers)].ask(t, q.HashIDs)
		if lost {
			kept, of = kept+min(loaded, ideal), of+ideal
		} else {
			loadedBefore, idealBefore = loadedBefore+loaded, idealBefore+ideal
		}
		for _, id := range q.HashIDs {
			seen[id] = true
		}
		total++
	}
	t.Logf("%d requests; before the loss %d of %d prefix hits", total, loadedBefore, idealBefore)
	return kept, of
}

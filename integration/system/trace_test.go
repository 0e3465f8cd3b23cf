package system

import (
	"container/list"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/spillway-kv/spillway/tiering/trace"
)

// conversation is the Mooncake conversation trace, laid beside the repository.
const conversation = "../../../shared/reference/traces/mooncake_conversation_trace.jsonl.zst"

// traceRun is one replay by the real binary.
type traceRun struct {
	requests int // 0: all
	args     []string
}

// TestTraceIsExact: the replay of the conversation trace (of a generated one of
// its shape, where it is not at hand) reads no wrong byte, and hits, prefix hits
// and writes are those of a tail-first LRU of as many slots as it reports.
func TestTraceIsExact(t *testing.T) {
	runs := map[string]traceRun{
		"small":     {1500, []string{"--capacity", "192MiB", "--block-bytes", "64KiB"}},
		"unaligned": {400, []string{"--capacity", "128MiB", "--block-bytes", "65001"}},
		"timed":     {300, []string{"--capacity", "64MiB", "--block-bytes", "16KiB", "--speed", "600"}},
	}
	if long {
		runs["whole"] = traceRun{0, []string{"--capacity", "2GiB", "--block-bytes", "64KiB"}}
		runs["whole, depth 1"] = traceRun{0, []string{"--capacity", "1GiB", "--block-bytes", "16KiB", "--depth", "1"}}
	}
	for name, r := range runs {
		t.Run(name, func(t *testing.T) { r.check(t) })
	}
}

func (r traceRun) check(t *testing.T) {
	requests, source := r.load(t)
	dir := filepath.Join(t.TempDir(), "store")
	args := append(r.args, "--json", "--quiet")
	args = append(args, source...)
	v := run(t, nil, onDir(dir, "replay", append(args, "--policy", "lru")...)...).want(t, exitPass).object(t)
	slots := int(v["slots"].(float64))
	want := simulate(requests, slots)
	t.Logf("%d requests, %d slots, hits %d, writes %d, evicted %v", len(requests), slots, want.hits, want.writes, v["evicted"])
	wantNumbers(t, v, "requests", len(requests), "block_refs", want.refs, "hits", want.hits, "prefix_hits", want.prefixHits,
		"reads", want.hits, "writes", want.writes, "evicted", want.writes-slots, "wrong_bytes", 0, "corrupt", 0, "lost", 0,
		"dropped", 0, "missed_after_match", 0, "busy_reads", 0, "read_errors", 0, "write_errors", 0)
	if want.writes <= slots {
		t.Errorf("%d writes into %d slots: nothing was evicted", want.writes, slots)
	}
}

// load returns the requests and the arguments that make the binary replay them.
func (r traceRun) load(t *testing.T) (requests []trace.Request, args []string) {
	t.Helper()
	var src trace.Source
	if reader, err := trace.Open(conversation); err == nil {
		defer reader.Close()
		src, args = reader, []string{conversation}
	} else if errors.Is(err, os.ErrNotExist) {
		t.Logf("no %s: a generated trace takes its place", conversation)
		count := r.requests
		if count == 0 {
			count = trace.ConversationRequests
		}
		src, args = trace.NewGenerator(trace.Config{Seed: 5, Requests: count}), []string{"--generate", "--seed", "5"}
	} else {
		t.Fatal(err)
	}
	for r.requests == 0 || len(requests) < r.requests {
		q, err := src.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, q)
	}
	return requests, append([]string{"--requests", strconv.Itoa(len(requests))}, args...)
}

// counts of one simulation.
type counts struct{ refs, hits, prefixHits, writes int }

// simulate is a tail-first LRU of unit blocks: the whole chain is looked up,
// then each block, from the last to the first, is touched or inserted.
func simulate(requests []trace.Request, slots int) (c counts) {
	young := list.New() // front: youngest
	at := map[uint64]*list.Element{}
	for _, q := range requests {
		prefix := true
		for _, id := range q.HashIDs {
			c.refs++
			if at[id] == nil {
				prefix = false
				continue
			}
			c.hits++
			if prefix {
				c.prefixHits++
			}
		}
		for i := len(q.HashIDs) - 1; i >= 0; i-- {
			id := q.HashIDs[i]
			if e := at[id]; e != nil {
				young.MoveToFront(e)
				continue
			}
			c.writes++
			if young.Len() == slots {
				delete(at, young.Remove(young.Back()).(uint64))
			}
			at[id] = young.PushFront(id)
		}
	}
	return c
}

package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/memory"
	"github.com/spillway-kv/spillway/tiering/prefetch"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// A chat in virtual time: sessions that think between their turns load what they have
// stored from a drive of limited bandwidth, through the node's own parts: share queue,
// store, memory tier, prefetcher and predictor. Only the drive and the copy out of
// memory take time.

// chatConfig is one run. A block of the run stands for one of chatBlockBytes.
type chatConfig struct {
	seed      uint64
	predictor string
	sessions  float64 // that begin in a second
	warm, run time.Duration
	blocks    int // that fit the memory tier
}

const (
	chatFrame        = 4096                                     // bytes that a block really has here
	chatBlockBytes   = 32 << 20                                 // that it stands for: 512 tokens of 64 KiB
	chatRead         = chatBlockBytes * 2 / 3 * time.Nanosecond // ns: 1.5 GB/s
	chatWrite        = chatBlockBytes * time.Nanosecond         // ns: 1 GB/s
	chatCopy         = chatBlockBytes / 12 * time.Nanosecond    // ns: 12 GB/s
	chatBase         = 100 * time.Microsecond                   // of any transfer
	chatBatch        = 16                                       // blocks that a client asks for at once
	chatComputeToken = 100 * time.Microsecond                   // of a prompt
	chatDecodeToken  = 20 * time.Millisecond                    // of an answer
	chatTokens       = 512                                      // of a block
)

// slowDrive gives a device the time of a drive that moves one block after the other.
type slowDrive struct {
	device.Device
	queue chan *device.Op
	ended chan struct{}
	busy  time.Duration // serving blocks; guarded by the one goroutine
}

func newSlowDrive(d device.Device) *slowDrive {
	s := &slowDrive{Device: d, queue: make(chan *device.Op, 1<<16), ended: make(chan struct{})}
	go s.serve()
	return s
}

func (s *slowDrive) Submit(ops []*device.Op) {
	for _, op := range ops {
		s.queue <- op
	}
}

func (s *slowDrive) serve() {
	defer close(s.ended)
	for op := range s.queue {
		// Blocks alone take time: the store's own files, and zeros written ahead into
		// segments, are thousands of times larger here than what they stand for.
		n := 0
		for _, b := range op.Bufs {
			n += len(b)
		}
		if strings.HasPrefix(op.File.Name(), "seg-") && n == chatFrame {
			each := chatRead
			if op.Kind == device.Write {
				each = chatWrite
			}
			took := chatBase + each
			s.busy += took
			time.Sleep(took)
		}
		s.Device.Submit([]*device.Op{op})
	}
}

func (s *slowDrive) Close() error {
	close(s.queue)
	<-s.ended
	return s.Device.Close()
}

// chatResult is what came of a run, after the warm-up.
type chatResult struct {
	turns, blocks       int
	load, read          []time.Duration // of turns that load something; of blocks
	fromMemory          int
	precision, coverage float64
	busy                float64 // part of the time that the drive served
}

type chatRun struct {
	t     *testing.T
	c     chatConfig
	node  *Node
	space *space
	gaps  []float64 // seconds from one turn to the next
	until time.Time
	warm  time.Time
	tail  sync.WaitGroup

	mu     sync.Mutex
	result chatResult
}

// runChat runs one chat in a bubble of its own.
func runChat(t *testing.T, c chatConfig, gaps []float64) (result chatResult) {
	synctest.Test(t, func(t *testing.T) {
		disk := sim.NewDisk(sim.Config{Seed: c.seed, QueueDepth: 64, QueueOps: 1 << 16})
		dev, err := disk.Open()
		chatMust(t, err)
		drive := newSlowDrive(dev)
		store, err := engine.Open(engine.Options{CapacityBytes: 2 << 30, SegmentBytes: 64 << 20, SyncInterval: time.Hour, StuckAfter: time.Hour,
			QueueOps: 1 << 15, Device: drive, IndexFS: vfs.NewMem()})
		chatMust(t, err)
		tier, err := memory.New(memory.Options{Bytes: int64(c.blocks) * chatFrame, Pages: arena.PagesSmall})
		chatMust(t, err)
		n, err := New(Options{Stores: []*engine.Store{store}, Memory: tier, Prefetch: c.predictor, PutQueueTime: time.Hour})
		chatMust(t, err)
		s, err := n.openSpace(engine.Descriptor{Name: "chat", BlockBytes: chatFrame, TokensPerBlock: chatTokens}, "")
		chatMust(t, err)
		for _, d := range n.drives {
			const scale = chatBlockBytes / chatFrame
			d.windows = windows{loadWindow / scale, storeWindow / scale, storeWindowLoaded / scale, prefetchWindow / scale, chunkBytes / scale}
		}
		r := &chatRun{t: t, c: c, node: n, space: s, gaps: gaps, warm: time.Now().Add(c.warm), until: time.Now().Add(c.warm + c.run)}
		began, busy := time.Now(), time.Duration(0)
		go func() { time.Sleep(c.warm); busy = drive.busy }()
		r.arrive()
		r.tail.Wait()
		r.result.busy = (drive.busy - busy).Seconds() / (time.Since(began) - c.warm).Seconds()
		st := tier.Stat()
		r.result.precision, r.result.coverage = st.Precision, st.Coverage
		chatMust(t, n.Close(t.Context()))
		chatMust(t, store.Close())
		chatMust(t, tier.Close())
		result = r.result
	})
	return result
}

func chatMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// arrive begins sessions at random until the end.
func (r *chatRun) arrive() {
	rng := rand.New(rand.NewPCG(r.c.seed, 1))
	for i := uint64(1); ; i++ {
		time.Sleep(time.Duration(rng.ExpFloat64() / r.c.sessions * float64(time.Second)))
		if time.Now().After(r.until) {
			return
		}
		r.tail.Go(func() { r.session(i) })
	}
}

// session is one conversation.
func (r *chatRun) session(number uint64) {
	rng := rand.New(rand.NewPCG(r.c.seed, number<<8))
	chats := trace.NewChats(trace.Config{Seed: r.c.seed<<32 | number, TokensPerBlock: chatTokens})
	var s trace.Session
	s.Begin()
	for {
		began := time.Now()
		chats.Turn(&s)
		r.turn(number, &s.Request)
		if _, more := chats.Pause(&s); !more {
			return
		}
		gap := time.Duration(r.gaps[rng.IntN(len(r.gaps))] * float64(time.Second))
		time.Sleep(max(gap-time.Since(began), time.Second))
		if time.Now().After(r.until) {
			return
		}
	}
}

// turn loads what is stored of a chain, computes the rest, and stores that.
func (r *chatRun) turn(number uint64, q *trace.Request) {
	keys := make([]engine.Key, q.InputLength/chatTokens) // full blocks
	for i := range keys {
		keys[i].Bytes = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, number), q.HashIDs[i])
	}
	conn := &conn{node: r.node, number: 1 + number%4, options: r.node.options.Load()} // four clients
	r.node.predicting.see(prefetch.Asked, r.space, conn.number, keys, 0)
	here, _, _, err := r.space.present(keys, engine.MatchOptions{})
	chatMust(r.t, err)
	loaded := prefixOf(here)
	r.load(conn, keys[:loaded])
	time.Sleep(time.Duration(q.InputLength-loaded*chatTokens)*chatComputeToken + time.Duration(q.OutputLength)*chatDecodeToken)
	if loaded < len(keys) {
		r.store(conn, keys[loaded:], loaded)
	}
}

// transfer is one of the node's, of a client without a socket.
func (r *chatRun) transfer(conn *conn, class class, keys []engine.Key) *transfer {
	t := &transfer{q: &request{c: conn, came: time.Now(), over: make(chan struct{})}}
	t.batch = batch{node: conn.node, space: r.space, class: class, keys: keys, pieces: make([][][]byte, len(keys)), statuses: make([]byte, len(keys)),
		over: t.q.over, freed: t.released, note: conn.note}
	for i := range keys {
		t.pieces[i] = [][]byte{make([]byte, chatFrame)}
	}
	return t
}

// content is what a block holds.
func content(key engine.Key) []byte { return bytes.Repeat(key.Bytes, chatFrame/len(key.Bytes)) }

func (r *chatRun) load(conn *conn, keys []engine.Key) {
	began := time.Now()
	for from := 0; from < len(keys); from += chatBatch {
		batch := keys[from:min(from+chatBatch, len(keys))]
		asked := time.Now()
		t := r.transfer(conn, loads, batch)
		t.read(0, time.Time{})
		time.Sleep(time.Duration(t.fromMemory) * chatCopy)
		for i, s := range t.statuses {
			if wire.Status(s) != wire.Hit {
				r.t.Errorf("a block that is here is %v", wire.Status(s))
			} else if !bytes.Equal(t.pieces[i][0], content(batch[i])) {
				r.t.Error("wrong bytes")
			}
		}
		r.note(func(c *chatResult) {
			c.fromMemory += t.fromMemory
			for range batch {
				c.read = append(c.read, time.Since(asked))
			}
		})
	}
	r.note(func(c *chatResult) {
		c.turns++
		if c.blocks += len(keys); len(keys) > 0 {
			c.load = append(c.load, time.Since(began))
		}
	})
}

func (r *chatRun) note(f func(*chatResult)) {
	if time.Now().Before(r.warm) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.result)
}

func (r *chatRun) store(conn *conn, keys []engine.Key, depth int) {
	t := r.transfer(conn, stores, keys)
	for i := range keys {
		copy(t.pieces[i][0], content(keys[i]))
	}
	chunks := t.chunks()
	for i := len(chunks) - 1; i >= 0; i-- {
		t.store(&chunks[i], t.putting(&wire.Put{Depth: uint32(depth)}, time.Time{}))
	}
	r.node.predicting.see(prefetch.Stored, r.space, conn.number, keys, depth)
}

// percentile of sorted durations.
func chatPercentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(math.Ceil(p/100*float64(len(sorted)))), len(sorted))-1]
}

var chatFirst = flag.Uint64("chat.first", 101, "first seed of TestChat")

var chatSeeds = flag.Int("chat.seeds", 1, "seeds of TestChat")

// TestChat compares what is fetched ahead. The model's constants were chosen on seed 1;
// these are others. The short form, of 20 minutes, looks at medians, which so few loads can
// tell; SPILLWAY_LONG=1 takes 80 minutes, the window as well, and P99.
func TestChat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	gaps := turnGaps(t)
	for seed := *chatFirst; seed < *chatFirst+uint64(*chatSeeds); seed++ {
		chatTable(t, seed, gaps)
	}
}

var chatBlocks = flag.Int("chat.blocks", 4096, "blocks of memory in TestChat")

func chatTable(t *testing.T, seed uint64, gaps []float64) {
	c := chatConfig{seed: seed, sessions: 0.4, warm: 15 * time.Minute, run: 20 * time.Minute, blocks: *chatBlocks}
	predictors, percent, most := []string{PrefetchNone, PrefetchModel}, 50.0, 0.5
	if os.Getenv("SPILLWAY_LONG") != "" {
		c.warm, c.run = 40*time.Minute, 80*time.Minute
		predictors = []string{PrefetchNone, PrefetchWindow, PrefetchModel}
		percent, most = 99, 0.7
	}
	var none, model chatResult
	for _, c.predictor = range predictors {
		began := time.Now()
		r := runChat(t, c, gaps)
		slices.Sort(r.load)
		slices.Sort(r.read)
		t.Logf("seed %d %-6s turns %d loads %d blocks %d memory %2.0f%% | load P50 %v P99 %v | block P50 %v P99 %v | drive busy %.0f%% precision %.2f coverage %.2f (%v)",
			seed, c.predictor, r.turns, len(r.load), r.blocks, 100*float64(r.fromMemory)/float64(max(r.blocks, 1)),
			chatPercentile(r.load, 50).Round(time.Millisecond), chatPercentile(r.load, 99).Round(time.Millisecond),
			chatPercentile(r.read, 50).Round(time.Millisecond), chatPercentile(r.read, 99).Round(time.Millisecond),
			100*r.busy, r.precision, r.coverage, time.Since(began).Round(time.Second))
		switch c.predictor {
		case PrefetchNone:
			none = r
		case PrefetchModel:
			model = r
		}
	}
	for what, both := range map[string][2][]time.Duration{"a request's load": {none.load, model.load}, "block reads": {none.read, model.read}} {
		before, after := chatPercentile(both[0], percent), chatPercentile(both[1], percent)
		if float64(after) > most*float64(before) {
			t.Errorf("seed %d: P%.0f of %s is %v with the model and %v without, want %.0f %% of that at most", seed, percent, what, after, before, 100*most)
		}
	}
}

// turnGaps are the times from a turn of a conversation to its next in the trace laid beside
// the repository; without it those of a generated trace of its shape.
func turnGaps(t *testing.T) (gaps []float64) {
	next := trace.NewGenerator(trace.Config{Seed: 9, Requests: trace.ConversationRequests}).Next
	if r, err := trace.Open("../../../shared/reference/traces/mooncake_conversation_trace.jsonl.zst"); err == nil {
		defer r.Close()
		next = r.Next
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	} else {
		t.Log("no trace at hand: the gaps are a generated one's")
	}
	last := map[uint64]int64{}
	for {
		q, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		chatMust(t, err)
		for i := len(q.HashIDs) - 1; i > 0; i-- { // the first block is everybody's
			if at, seen := last[q.HashIDs[i]]; seen {
				gaps = append(gaps, float64(q.TimestampMS-at)/1000)
				break
			}
		}
		for _, id := range q.HashIDs {
			last[id] = q.TimestampMS
		}
	}
	slices.Sort(gaps)
	t.Logf("%d gaps, P50 %.0f s, P90 %.0f s, P99 %.0f s", len(gaps), gaps[len(gaps)/2], gaps[len(gaps)*9/10], gaps[len(gaps)*99/100])
	return gaps
}

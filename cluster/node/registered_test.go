package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// knower is a transport that wants to know memory.
type knower struct {
	transport.Transport
	t      *testing.T
	refuse error

	mu    sync.Mutex
	known map[*byte]transport.Use
	bytes map[transport.Use]int
}

func newKnower(t *testing.T, over transport.Transport) *knower {
	return &knower{Transport: over, t: t, known: map[*byte]transport.Use{}, bytes: map[transport.Use]int{}}
}

// RegisterMemory touches the memory now and at its end: it must be mapped.
func (k *knower) RegisterMemory(mem []byte, use transport.Use) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != nil {
		return nil, fmt.Errorf("register %d bytes: %w", len(mem), k.refuse)
	}
	if len(mem) > transport.RegisterBytesMax {
		k.t.Errorf("a piece of %d bytes", len(mem))
	}
	if _, again := k.known[&mem[0]]; again {
		k.t.Error("memory was registered twice")
	}
	k.known[&mem[0]] = use
	k.bytes[use] += len(mem)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		mem[len(mem)-1]++
		if k.known[&mem[0]] != use {
			k.t.Error("memory was let go twice")
		}
		delete(k.known, &mem[0])
		k.bytes[use] -= len(mem)
	}, nil
}

func (k *knower) of(use transport.Use) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes[use]
}

const knownTier = 4 << 20

// inKnowing runs f in a mesh of two nodes, of which the first has a memory tier.
func inKnowing(t *testing.T, refuse error, change func(o *Options), f func(m *mesh, of []*knower)) {
	t.Helper()
	var of []*knower
	wrap := func(_ *mesh, over transport.Transport) transport.Transport {
		k := newKnower(t, over)
		k.refuse = refuse
		of = append(of, k)
		return k
	}
	inMeshOver(t, 2, wrap, pool.MoveOptions{}, func(i int, o *Options) {
		o.PeerFrameBytes = 2 << 20
		if i == 0 {
			tier, err := memory.New(memory.Options{Bytes: knownTier})
			meshMust(t, err)
			o.Memory = tier
		}
		if change != nil {
			change(o)
		}
	}, func(m *mesh) { f(m, of) })
	for i, k := range of {
		if len(k.known) > 0 {
			t.Errorf("node %d has left memory registered", i)
		}
	}
}

// region makes a region of the first node's client.
func (m *mesh) region(pinned bool) (number uint32, r *region) {
	m.t.Helper()
	c := m.nodes[0].conn
	if c.regions == nil {
		c.regions = map[uint32]*region{}
		m.nodes[0].mu.Lock()
		m.nodes[0].conns[c] = struct{}{}
		m.nodes[0].mu.Unlock()
	}
	number, err := c.addRegion(arena.SharedUnitBytes, pinned, func() (*arena.Region, error) {
		shared, err := arena.NewShared("test", arena.SharedUnitBytes)
		if err != nil {
			return nil, err
		}
		return shared.Region, nil
	})
	meshMust(m.t, err)
	return number, c.regions[number]
}

// gone ends the client without a socket, as the node waits for those that have one.
func (m *mesh) gone() { m.nodes[0].gone(m.nodes[0].conn) }

// TestRegistered: the transport knows the memory that blocks leave from and come into, each
// piece once, from the start of its use to the end.
func TestRegistered(t *testing.T) {
	inKnowing(t, nil, nil, func(m *mesh, of []*knower) {
		if n := of[0].of(sources); n != knownTier+2<<20 || of[1].of(sources) != 2<<20 {
			t.Errorf("%d and %d bytes to send from", n, of[1].of(sources))
		}
		number, r := m.region(true)
		if n := of[0].of(destinations); n != arena.SharedUnitBytes || r.copied {
			t.Errorf("%d bytes to receive into, copied %v", n, r.copied)
		}
		if st := m.nodes[0].Stat().Registered; st != (RegisteredStat{Bytes: knownTier + 2<<20 + arena.SharedUnitBytes}) {
			t.Errorf("%+v", st)
		}
		// Blocks of the region are on their way, and the client drops it.
		meshMust(t, r.memory.Acquire())
		dropped := make(chan error, 1)
		go func() { dropped <- m.nodes[0].conn.dropRegion(number) }()
		synctest.Wait()
		if of[0].of(destinations) == 0 || len(dropped) > 0 {
			t.Error("memory in use was let go")
		}
		r.memory.Release()
		meshMust(t, <-dropped)
		if of[0].of(destinations) != 0 || m.nodes[0].Stat().Registered.Bytes != knownTier+2<<20 {
			t.Errorf("a dropped region stays: %+v", m.nodes[0].Stat().Registered)
		}
		m.nodes[1].put(t, 0, 20)
		if tr, _ := m.nodes[0].read(t, 0, time.Second, 0, 20); tr.fromAway != 20 {
			t.Errorf("%d blocks came", tr.fromAway)
		}
		m.gone()
	})
}

// TestUnpinned: memory of clients that must stay unpinned, or is not there yet, is not
// registered with anything.
func TestUnpinned(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		inKnowing(t, nil, func(o *Options) { o.KeepRegionsUnpinned = pinned }, func(m *mesh, of []*knower) {
			number, r := m.region(pinned)
			st := m.nodes[0].Stat()
			if of[0].of(destinations) != 0 || !r.copied || st.Registered.Missing != 1 || st.Clients[0].Copied != 1 {
				t.Errorf("%d bytes known, %+v", of[0].of(destinations), st.Registered)
			}
			meshMust(t, m.nodes[0].conn.dropRegion(number))
			m.gone()
		})
	}
}

// TestUnregistered: where memory cannot be registered everything works, and the log says so
// once for each cause.
func TestUnregistered(t *testing.T) {
	var log warnings
	inKnowing(t, errors.New("no more memory may be locked"), func(o *Options) { o.Logger = slog.New(&log) }, func(m *mesh, of []*knower) {
		if _, mapped := m.nodes[0].frames.(mappedFrames); !mapped {
			t.Errorf("frames of %T", m.nodes[0].frames)
		}
		var numbers []uint32
		for range 3 {
			number, _ := m.region(true)
			numbers = append(numbers, number)
		}
		of[0].mu.Lock()
		of[0].refuse = errors.New("the device is gone")
		of[0].mu.Unlock()
		number, _ := m.region(true)
		if st := m.nodes[0].Stat().Registered; st.Bytes != 0 || st.Missing != 2+4 || !strings.HasSuffix(st.Cause, "the device is gone") {
			t.Errorf("%+v", st)
		}
		for _, number := range append(numbers, number) {
			meshMust(t, m.nodes[0].conn.dropRegion(number))
		}
		m.nodes[1].put(t, 0, 20)
		if tr, _ := m.nodes[0].read(t, 0, time.Second, 0, 20); tr.fromAway != 20 {
			t.Errorf("%d blocks came", tr.fromAway)
		}
		m.gone()
	})
	// The first cause at each of two nodes, the second at one.
	if len(log.lines) != 3 || !strings.Contains(log.lines[0], "memory=the memory tier bytes=4194304 registered_bytes=0 cause=register 4194304 bytes: no more memory may be locked") {
		t.Errorf("%d warnings: %q", len(log.lines), log.lines)
	}
}

// warnings keeps what is worse than a note.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (w *warnings) Handle(_ context.Context, rec slog.Record) error {
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
	return nil
}

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *warnings) WithGroup(string) slog.Handler      { return w }

// TestPeerFrames: whoever waits for a frame gets one, of whatever size, and no more memory
// is lent than there is; of both kinds.
func TestPeerFrames(t *testing.T) {
	for name, make := range peerFrameKinds(t) {
		t.Run(name, func(t *testing.T) {
			const total = 4 << 20
			frames := make(total)
			defer frames.Free()
			var mu sync.Mutex
			lent := 0
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 1))
					for range 500 {
						nBytes := []int{4096, 5000, 64 << 10, 1 << 20, total}[min(rng.IntN(40)/8, 4)]
						if nBytes == total && rng.IntN(20) > 0 {
							nBytes = 12345
						}
						f := waitForFrame(frames, nBytes)
						b := f.Bytes()
						mu.Lock()
						if lent += nBytes; lent > total {
							t.Errorf("%d bytes are lent of %d", lent, total)
						}
						mu.Unlock()
						b[0], b[nBytes-1] = byte(w), byte(w)
						mu.Lock()
						lent -= nBytes
						mu.Unlock()
						if len(b) != nBytes || b[0] != byte(w) || b[nBytes-1] != byte(w) {
							t.Errorf("a frame of %d bytes is another's, or of %d", nBytes, len(b))
						}
						f.Release()
					}
				})
			}
			wg.Wait()
			if frames.InUse() != 0 || frames.mostBytes() != total {
				t.Errorf("%d in use, at most %d", frames.InUse(), frames.mostBytes())
			}
		})
	}
}

func waitForFrame(frames peerFrames, nBytes int) peerFrame {
	for {
		returned := frames.Notify()
		if f := frames.tryGet(nBytes); f != nil {
			return f
		}
		<-returned
	}
}

func peerFrameKinds(t testing.TB) map[string]func(nBytes int64) peerFrames {
	kind := func(with transport.Registrar) func(nBytes int64) peerFrames {
		return func(nBytes int64) peerFrames {
			n := &Node{log: slog.New(slog.DiscardHandler), registered: &registered{log: slog.New(slog.DiscardHandler), with: with, warned: map[string]bool{}}}
			frames, err := n.newPeerFrames(nBytes)
			if err != nil {
				t.Fatal(err)
			}
			return frames
		}
	}
	return map[string]func(nBytes int64) peerFrames{"mapped": kind(nil), "known": kind(everything{})}
}

// everything knows all memory.
type everything struct{}

func (everything) RegisterMemory([]byte, transport.Use) (func(), error) { return func() {}, nil }

func BenchmarkPeerFrames(b *testing.B) {
	for name, make := range peerFrameKinds(b) {
		for _, nBytes := range []int{64 << 10, 1 << 20, 4<<20 + 4096} {
			b.Run(fmt.Sprint(name, "/", nBytes>>10, "KiB"), func(b *testing.B) {
				frames := make(128 << 20)
				defer frames.Free()
				b.ReportAllocs()
				for b.Loop() {
					var of [16]peerFrame
					for i := range of {
						of[i] = frames.tryGet(nBytes)
					}
					for i := range of {
						of[i].Release()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/frame")
			})
		}
	}
}

// BenchmarkPeerRead reads 32 blocks of 1 MiB for a peer that takes them at once, from a real
// drive.
func BenchmarkPeerRead(b *testing.B) {
	const blocks, blockBytes = 32, 1 << 20
	store, err := engine.Open(engine.Options{Dir: b.TempDir(), CapacityBytes: 256 << 20})
	if err != nil {
		b.Skip(err)
	}
	defer store.Close()
	for name, with := range map[string]transport.Registrar{"mapped": nil, "known": everything{}} {
		b.Run(name, func(b *testing.B) {
			n, err := New(Options{Stores: []*engine.Store{store}})
			if err != nil {
				b.Fatal(err)
			}
			defer n.Close(context.Background())
			n.registered.with = with
			if n.frames, err = n.newPeerFrames(128 << 20); err != nil {
				b.Fatal(err)
			}
			defer n.frames.Free()
			space, err := local{n}.OpenSpace(engine.Descriptor{Name: "n", BlockBytes: blockBytes})
			if err != nil {
				b.Fatal(err)
			}
			a := &pool.Arrival{}
			for i, k := range localKeys(0, blocks) {
				a.Items = append(a.Items, pool.ArrivalItem{Key: k, Src: [][]byte{make([]byte, blockBytes)}, Depth: uint32(i)})
			}
			space.Write(b.Context(), a)
			ids, _ := space.IDs(localKeys(0, blocks))
			before := processNS()
			b.SetBytes(blocks * blockBytes)
			for b.Loop() {
				came := atomic.Int64{}
				space.Read(b.Context(), ids, func(_ int, _ [][]byte, _ uint64, done func()) { came.Add(1); done() })
				if came.Load() != blocks {
					b.Fatalf("%d of %d blocks", came.Load(), blocks)
				}
			}
			b.ReportMetric(float64(processNS()-before)/float64(b.N)/blocks/1000, "cpu-us/block")
		})
	}
}

// TestLockNeed: each drive and each port counts memory anew.
func TestLockNeed(t *testing.T) {
	l := LockNeed{Drives: 2, Ports: 1, TierBytes: 1 << 30, FrameBytes: 128 << 20, RegionBytes: 4 << 30, TransportBytes: 64 << 20}
	if want := int64(3*(1<<30+128<<20+4<<30) + 64<<20); l.Bytes() != want {
		t.Errorf("%d, want %d", l.Bytes(), want)
	}
}

package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	fsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/transport/sim"
)

// rig is a Transport that serves, and what a caller by hand needs.
type rig struct {
	*testing.T
	calls  *sim.Network
	net    *fsim.Network
	t      *Transport
	h      *handler
	memory []byte // registered with t
	loose  []byte // not registered
	served chan error
	nodes  atomic.Int32
}

// handler is a transport.Handler whose Fetch is set by tests.
type handler struct {
	mu      sync.Mutex
	fetch   func(ctx context.Context, body []byte, n int, r transport.Reply) ([]byte, error)
	running atomic.Int32
}

func (h *handler) Hello(transport.Hello) error { return nil }
func (h *handler) Call(_ context.Context, _ transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	return append([]byte{byte(kind)}, body...), nil
}

func (h *handler) Push(context.Context, transport.Hello, transport.Kind, []byte, transport.Incoming) ([]byte, error) {
	return nil, errors.New("no")
}

func (h *handler) Fetch(ctx context.Context, _ transport.Hello, _ transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	h.running.Add(1)
	defer h.running.Add(-1)
	h.mu.Lock()
	fetch := h.fetch
	h.mu.Unlock()
	return fetch(ctx, body, n, r)
}

const rigMemory = 9 << 20

// serve runs a test with a Transport of some ports, in a bubble.
func serve(t *testing.T, ports int, o Options, test func(r *rig)) {
	t.Helper()
	serveOver(t, ports, o, fsim.Config{Seed: 1, DelayMin: 10 * time.Microsecond, DelayMax: 50 * time.Microsecond, BytesPerSecond: 1 << 30}, test)
}

// serveOver is serve with a network of its own.
func serveOver(t *testing.T, ports int, o Options, c fsim.Config, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ports, o, c)
		defer r.close()
		test(r)
	})
}

func newRig(t *testing.T, ports int, o Options, c fsim.Config) *rig {
	t.Helper()
	r := &rig{T: t, calls: sim.New(sim.Config{Seed: 1, BytesInFlightMax: 1 << 30}), net: fsim.New(c), h: &handler{}, served: make(chan error, 1)}
	node, err := r.calls.Node("server")
	if err != nil {
		t.Fatal(err)
	}
	o.Control = node
	if o.Fabric, err = r.net.Machine("server", fsim.MachineConfig{Ports: fsim.RoCE(1, ports)}); err != nil {
		t.Fatal(err)
	}
	if r.t, err = New(o); err != nil {
		t.Fatal(err)
	}
	go func() { r.served <- r.t.Serve(helloOf(0), r.h) }()
	r.memory, r.loose = make([]byte, rigMemory), make([]byte, rigMemory)
	if _, err := r.t.RegisterMemory(r.memory, transport.Source); err != nil {
		t.Fatal(err)
	}
	return r
}

func helloOf(i int) transport.Hello {
	return transport.Hello{PoolID: "pool", Node: member.ID{byte(i), 9}, Name: fmt.Sprint("node-", i), ProtocolLow: 1, ProtocolHigh: 1}
}

// close proves that no handler runs behind Close.
func (r *rig) close() {
	if err := r.t.Close(); err != nil {
		r.Error(err)
	}
	if err := <-r.served; err != nil {
		r.Error(err)
	}
	if n := r.h.running.Load(); n != 0 {
		r.Errorf("%d handlers run behind Close", n)
	}
	r.calls.Close()
	r.net.Close()
}

// settle lets all happen that happens by itself, timeouts of devices included.
func (r *rig) settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// on sets what Fetch does.
func (r *rig) on(fetch func(ctx context.Context, body []byte, n int, reply transport.Reply) ([]byte, error)) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	r.h.fetch = fetch
}

// caller is the other end, by hand: it does what it is told, sensible or not.
type caller struct {
	*rig
	id      int
	machine string
	node    *sim.Node
	link    transport.Link
	rails   []*callerEnd
	session uint64
	last    uint64
	mark    uint16
	base    uint64      // where ask begins
	over    chan string // the answer to the hold
	release context.CancelFunc
}

// callerEnd is a rail of a caller.
type callerEnd struct {
	device fabric.Device
	pair   fabric.QueuePair
	table  []byte
	lines  fabric.Region
	mem    []byte
	region fabric.Region
}

const callerLines = 64

// caller makes a caller that has its queue pairs, and no session.
func (r *rig) caller(ports int) *caller {
	r.Helper()
	id := int(r.nodes.Add(1))
	c := &caller{rig: r, id: id, machine: fmt.Sprint("caller", id), over: make(chan string, 1)}
	var err error
	c.node, err = r.calls.Node(c.machine)
	r.must(err)
	c.link, err = c.node.Dial(r.Context(), "server", helloOf(id))
	r.must(err)
	m, err := r.net.Machine(c.machine, fsim.MachineConfig{Ports: fsim.RoCE(uint8(1+id), ports)})
	r.must(err)
	found, err := m.Ports()
	r.must(err)
	for _, p := range found {
		e := &callerEnd{mem: make([]byte, rigMemory), table: make([]byte, callerLines*recordBytes)}
		e.device, err = m.Open(p, p.GIDs[1])
		r.must(err)
		e.lines, err = e.device.Register(e.table, fabric.RemoteWrite)
		r.must(err)
		e.region, err = e.device.Register(e.mem, fabric.RemoteWrite)
		r.must(err)
		c.rails = append(c.rails, e)
		e.connectable(r)
	}
	return c
}

// connectable makes the queue pair.
func (e *callerEnd) connectable(r *rig) {
	var err error
	e.pair, err = e.device.NewQueuePair(fabric.QueueOptions{Sends: 1, Receives: callerLines + 1, RemoteWrite: true})
	r.must(err)
	r.must(e.pair.PostReceives(callerLines + 1))
}

func (c *caller) request() openRequest {
	m := openRequest{lines: callerLines}
	for _, e := range c.rails {
		p := e.device.Port()
		m.rails = append(m.rails, callerRail{
			end:   endpoint{e.pair.Local(), prefixOf(p.GIDs[1])},
			table: e.lines.Address(), tableKey: e.lines.RemoteKey(),
		})
	}
	return m
}

// open asks for a session, and connects.
func (c *caller) open() openAnswer {
	c.Helper()
	m := c.request()
	answer, err := c.link.Call(c.Context(), kindOpen, m.append(nil))
	c.must(err)
	opened, err := parseOpened(answer, len(c.rails))
	c.must(err)
	c.session = opened.session
	for i, e := range c.rails {
		if opened.rails[i].Number != 0 {
			c.must(e.pair.Connect(opened.rails[i].Endpoint, fabric.Path{Timeout: 14, Retries: 5, HopLimit: 64}))
		}
	}
	return opened
}

// hold holds the session.
func (c *caller) hold() {
	ctx, cancel := context.WithCancel(c.Context())
	c.release = cancel
	go func() {
		reason, err := c.link.Call(ctx, kindHold, appendHold(nil, c.session))
		if err != nil {
			c.over <- "error: " + err.Error()
			return
		}
		c.over <- string(reason)
	}()
}

// up opens and holds a session, and takes the probes.
func (c *caller) up() *caller {
	c.Helper()
	c.open()
	c.hold()
	for i, e := range c.rails {
		if got := e.receive(c.T); got != probeImmediate {
			c.Fatalf("rail %d has immediate %#x, want a probe", i, got)
		}
	}
	return c
}

// receive waits for one immediate.
func (e *callerEnd) receive(t *testing.T) uint32 {
	t.Helper()
	var one [1]fabric.Completion
	if _, err := e.pair.Receives().Wait(one[:]); err != nil {
		t.Fatal(err)
	}
	if one[0].Result != fabric.OK {
		t.Fatalf("a receive ended with %v", one[0].Result)
	}
	if err := e.pair.PostReceives(1); err != nil {
		t.Fatal(err)
	}
	return one[0].Immediate
}

// end closes the caller's side.
func (c *caller) end() {
	c.Helper()
	if c.release != nil {
		c.release()
	}
	c.must(c.link.Close())
	c.must(c.node.Close())
	for _, e := range c.rails {
		c.must(errors.Join(e.pair.Destroy(), e.lines.Deregister(), e.region.Deregister(), e.device.Close()))
	}
}

// ask makes a fetch of blocks of these sizes, all on one rail, from line first on, whose
// places lie behind each other in pieces of at most some bytes, with a gap before each.
func (c *caller) ask(rail, first int, pieceBytes int, sizes ...int) *fetchRequest {
	c.last++
	m := &fetchRequest{session: c.session, request: c.last, oldest: 1, kind: 3, body: []byte("what")}
	e, at := c.rails[rail], c.base
	for i, n := range sizes {
		w := wantedBlock{size: uint32(n), generation: uint32(7 + i), line: uint16(first + i), rail: uint8(rail)}
		for n > 0 {
			k := min(n, pieceBytes)
			at += gapBytes
			w.pieces = append(w.pieces, target{address: e.region.Address() + at, key: e.region.RemoteKey(), bytes: uint32(k)})
			at += uint64(k)
			n -= k
		}
		m.blocks = append(m.blocks, w)
	}
	return m
}

const gapBytes = 64

// fetch makes the call.
func (c *caller) fetch(m *fetchRequest) (fetchAnswer, error) {
	answer, err := c.link.Call(c.Context(), kindFetch, m.append(nil))
	if err != nil {
		return fetchAnswer{}, err
	}
	return parseFetched(answer)
}

// fence asks for the server's word, and waits for the marks.
func (c *caller) fence(requests ...uint64) error {
	c.mark++
	m := fenceRequest{session: c.session, oldest: 1, mark: c.mark, rails: 1<<len(c.rails) - 1, requests: requests}
	answer, err := c.link.Call(c.Context(), kindFence, m.append(nil))
	if err != nil {
		return err
	}
	if len(answer) > 0 {
		return fmt.Errorf("the word has %d bytes", len(answer))
	}
	for _, e := range c.rails {
		for { // batches may be before it
			if got := e.receive(c.T); got == markImmediate(c.mark) {
				break
			} else if _, generation := lineOf(got); generation == generationEnd {
				return fmt.Errorf("mark %#x, want %#x", got, markImmediate(c.mark))
			}
		}
	}
	return nil
}

// line reads a line of a result table.
func (e *callerEnd) line(t *testing.T, n uint16) record {
	t.Helper()
	m, err := parseRecord((*[recordBytes]byte)(e.table[int(n)*recordBytes:]))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// records waits until so many blocks of a rail are answered, and gives their records by
// block. It proves what batches are.
func (c *caller) records(rail, n int) map[uint32]record {
	c.Helper()
	e, all := c.rails[rail], map[uint32]record{}
	for len(all) < n {
		line, generation := lineOf(e.receive(c.T))
		m := e.line(c.T, line)
		if m.generation != generation {
			c.Fatalf("the immediate has generation %d, line %d has %d", generation, line, m.generation)
		}
		for {
			if _, twice := all[m.block]; twice {
				c.Fatalf("block %d is answered twice", m.block)
			}
			all[m.block] = m
			if m.before == noLine {
				break
			}
			request := m.request
			if m = e.line(c.T, m.before); m.request != request {
				c.Fatalf("a batch has records of requests %d and %d", request, m.request)
			}
		}
	}
	return all
}

// content is what the bytes of a block are.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	_, _ = rng.Read(b)
	return b
}

// arrived proves the bytes of a block.
func (c *caller) arrived(m *fetchRequest, i int, want []byte) {
	c.Helper()
	e, w := c.rails[m.blocks[i].rail], m.blocks[i]
	for _, p := range w.pieces {
		at := p.address - e.region.Address()
		if !bytes.Equal(e.mem[at:at+uint64(p.bytes)], want[:p.bytes]) {
			c.Errorf("block %d of request %d: %d bytes at %d are others", i, m.request, p.bytes, at)
		}
		if !bytes.Equal(e.mem[at-gapBytes:at], make([]byte, gapBytes)) {
			c.Errorf("block %d of request %d: bytes before %d have changed", i, m.request, at)
		}
		want = want[p.bytes:]
	}
}

// lender gives memory to blocks, and takes it back spoiled.
type lender struct {
	*testing.T
	out  atomic.Int32 // blocks whose done is to come
	mu   sync.Mutex
	lent int
}

// lend puts content into memory, in pieces of some bytes with gaps.
func (l *lender) lend(memory []byte, want []byte, pieceBytes int) (pieces [][]byte, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := 0; at < len(want); at += pieceBytes {
		k := min(pieceBytes, len(want)-at)
		p := memory[l.lent : l.lent+k : l.lent+k]
		copy(p, want[at:])
		pieces = append(pieces, p)
		l.lent += k + 3
	}
	l.out.Add(1)
	var once atomic.Bool
	return pieces, func() {
		if once.Swap(true) {
			l.Error("done was called twice")
		}
		for _, p := range pieces {
			fill(p, 0xee)
		}
		l.out.Add(-1)
	}
}

// fill fills b with one value, without a loop that a race detector watches.
func fill(b []byte, value byte) {
	if len(b) == 0 {
		return
	}
	b[0] = value
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// back proves that all memory was let go.
func (l *lender) back() {
	l.Helper()
	if n := l.out.Load(); n != 0 {
		l.Errorf("%d blocks were never done with", n)
	}
}

// codeOf wants err to be the peer's, with a code.
func codeOf(t *testing.T, what string, err error, code transport.Code) {
	t.Helper()
	if remote, ok := errors.AsType[*transport.RemoteError](err); !ok || remote.Code != code {
		t.Errorf("%s: error %v, want one with code %d", what, err, code)
	}
}

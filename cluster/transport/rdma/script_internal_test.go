package rdma

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/engine/offheap"
)

// scripted is a peer whose every step the test takes: it speaks the protocol, and does with
// its queue pairs what it is told.
type scripted struct {
	transport.Handler // nil: what is not scripted must not come
	t                 *testing.T
	devices           []fabric.Device
	mem               []byte // its sources

	mute    map[int]bool // rails without a probe
	opened  chan *scriptedSession
	open    func(m *openRequest) error // may refuse
	fetched chan *scriptedCall
	fenced  chan *scriptedCall
	plain   chan string // bodies of fetches that came by the control
}

// scriptedSession is what an open has made.
type scriptedSession struct {
	p     *scripted
	ask   openRequest
	pairs []fabric.QueuePair
	from  []fabric.Region
	end   chan string // answers the hold
	over  chan error  // how the hold's context ended
	lists uint64
}

// word answers a fence, with its marks.
func (s *scriptedSession) word(c *scriptedCall) {
	s.p.t.Helper()
	s.want(s.marks(c))
	c.answer <- scriptedAnswer{}
}

// marks writes the marks of a fence.
func (s *scriptedSession) marks(c *scriptedCall) (result fabric.Result) {
	for i, q := range s.pairs {
		if c.fence.rails>>i&1 == 1 {
			result = max(result, s.post(q, fabric.Write{Notify: true, Immediate: markImmediate(c.fence.mark)}))
		}
	}
	return result
}

// scriptedCall is a fetch or a fence that waits for its answer.
type scriptedCall struct {
	fetch  fetchRequest
	fence  fenceRequest
	answer chan scriptedAnswer
	given  chan struct{} // closed when the caller has given it up
}

type scriptedAnswer struct {
	body []byte
	err  error
}

func (p *scripted) Hello(transport.Hello) error { return nil }

func (p *scripted) Call(ctx context.Context, _ transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	switch kind {
	case kindOpen:
		return p.serveOpen(ctx, body)
	case kindHold:
		return p.serveHold(ctx, body)
	case kindFetch:
		m, err := parseFetch(body)
		if err != nil {
			p.t.Errorf("a fetch: %v", err)
		}
		return wait(ctx, p.fetched, &scriptedCall{fetch: m})
	case kindFence:
		m, err := parseFence(body)
		if err != nil {
			p.t.Errorf("a fence: %v", err)
		}
		return wait(ctx, p.fenced, &scriptedCall{fence: m})
	}
	return body, nil
}

func wait(ctx context.Context, to chan *scriptedCall, c *scriptedCall) ([]byte, error) {
	c.answer, c.given = make(chan scriptedAnswer, 1), make(chan struct{})
	to <- c
	select {
	case a := <-c.answer:
		return a.body, a.err
	case <-ctx.Done():
		close(c.given)
		return nil, ctx.Err()
	}
}

// Fetch implements transport.Handler: what comes by the control.
func (p *scripted) Fetch(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	p.plain <- string(body)
	for i := range n {
		r.None(i, transport.Miss)
	}
	return []byte("plain"), nil
}

var sessionNumber uint64

// current is the session that a hold belongs to.
var current *scriptedSession

func (p *scripted) serveOpen(_ context.Context, body []byte) ([]byte, error) {
	m, err := parseOpen(body)
	if err != nil {
		p.t.Errorf("an open: %v", err)
		return nil, err
	}
	if p.open != nil {
		if err := p.open(&m); err != nil {
			return nil, err
		}
	}
	s := &scriptedSession{p: p, ask: m, end: make(chan string, 1), over: make(chan error, 1)}
	sessionNumber++
	answer := openAnswer{session: sessionNumber, inFlight: 1 << 30}
	for i := range m.rails {
		q, err := p.devices[i].NewQueuePair(fabric.QueueOptions{Sends: 256, Receives: 1})
		if err == nil {
			err = q.Connect(m.rails[i].end.Endpoint, fabric.Path{Timeout: 14, Retries: 5, HopLimit: 64})
		}
		var region fabric.Region
		if err == nil {
			region, err = p.devices[i].Register(p.mem, 0)
		}
		if err != nil {
			p.t.Logf("rail %d: %v", i, err)
			_ = q.Destroy()
			q = nil
		}
		s.pairs, s.from = append(s.pairs, q), append(s.from, region)
		end := endpoint{}
		if q != nil {
			end.Endpoint = q.Local()
		}
		answer.rails = append(answer.rails, end)
	}
	current = s
	return answer.append(nil), nil
}

func (p *scripted) serveHold(ctx context.Context, body []byte) ([]byte, error) {
	number, err := parseHold(body)
	if err != nil || number != sessionNumber {
		p.t.Errorf("a hold of session %d, of %d: %v", number, sessionNumber, err)
	}
	s := current
	for i, q := range s.pairs {
		if q != nil && !p.mute[i] {
			s.post(q, fabric.Write{Immediate: probeImmediate, Notify: true})
		}
	}
	p.opened <- s
	select {
	case text := <-s.end:
		s.over <- nil
		return []byte(text), nil
	case <-ctx.Done():
		s.over <- ctx.Err()
		return nil, ctx.Err()
	}
}

// destroy ends the session's queue pairs.
func (s *scriptedSession) destroy() {
	for i, q := range s.pairs {
		if q != nil {
			_ = q.Destroy()
			_ = s.from[i].Deregister()
		}
	}
	s.pairs = nil
}

// post posts writes, and waits until they have completed or failed.
func (s *scriptedSession) post(q fabric.QueuePair, list ...fabric.Write) fabric.Result {
	s.lists++
	if err := q.PostWrites(s.lists, list); err != nil {
		s.p.t.Errorf("post: %v", err)
		return fabric.OtherFault
	}
	var c [1]fabric.Completion
	if _, err := q.Sends().Wait(c[:]); err != nil {
		return fabric.Flushed
	}
	return c[0].Result
}

// sum stands for the checksum of a block.
func sum(request uint64, block int) uint64 { return request<<32 | uint64(block) }

// fillOf is the byte that a block is full of.
func fillOf(request uint64, block int) byte { return byte(request*31 + uint64(block)*7 + 1) }

// bytes of a block, as a write of each piece.
func (s *scriptedSession) data(c *scriptedCall, block int) (writes []fabric.Write) {
	w := &c.fetch.blocks[block]
	content := s.p.mem[:w.size]
	for i := range content {
		content[i] = fillOf(c.fetch.request, block)
	}
	for _, p := range w.pieces {
		writes = append(writes, fabric.Write{Source: s.from[w.rail].Address(), SourceKey: s.from[w.rail].LocalKey(), Bytes: p.bytes, Target: p.address, TargetKey: p.key})
	}
	return writes
}

// records of blocks, the last of which has the immediate.
func (s *scriptedSession) records(c *scriptedCall, status transport.Status, blocks ...int) (writes []fabric.Write) {
	before := uint16(noLine)
	for _, i := range blocks {
		w := &c.fetch.blocks[i]
		m := record{request: c.fetch.request, sum: sum(c.fetch.request, i), block: uint32(i), generation: w.generation, status: status, before: before, bytes: w.size}
		writes = append(writes, s.record(w, &m))
		before = w.line
	}
	last := &writes[len(writes)-1]
	w := &c.fetch.blocks[blocks[len(blocks)-1]]
	last.Immediate, last.Notify = immediateOf(w.line, w.generation), true
	return writes
}

func (s *scriptedSession) record(w *wantedBlock, m *record) fabric.Write {
	rail := &s.ask.rails[w.rail]
	return fabric.Write{Inline: m.append(nil), Bytes: recordBytes, Target: rail.table + uint64(w.line)*recordBytes, TargetKey: rail.tableKey}
}

// send writes whole blocks of one rail as one batch.
func (s *scriptedSession) send(c *scriptedCall, blocks ...int) {
	s.p.t.Helper()
	q := s.pairs[c.fetch.blocks[blocks[0]].rail]
	for _, i := range blocks {
		if writes := s.data(c, i); len(writes) > 0 {
			s.want(s.post(q, writes...))
		}
	}
	s.want(s.post(q, s.records(c, transport.Done, blocks...)...))
}

func (s *scriptedSession) want(r fabric.Result) {
	s.p.t.Helper()
	if r != fabric.OK {
		s.p.t.Errorf("a write has ended with %q", r)
	}
}

func (c *scriptedCall) done(answer string) {
	m := fetchAnswer{answer: []byte(answer)}
	c.answer <- scriptedAnswer{body: m.append(nil)}
}

func (c *scriptedCall) fail(code transport.Code) {
	m := fetchAnswer{failed: &transport.RemoteError{Code: code, Text: "no"}}
	c.answer <- scriptedAnswer{body: m.append(nil)}
}

// duo is a caller and a scripted peer, in a bubble.
type duo struct {
	*testing.T
	fabric  *fabricsim.Network
	control *sim.Network
	caller  *Transport
	peer    *scripted
	l       *Link
	log     bytes.Buffer
	logMu   sync.Mutex
	memory  []*offheap.Array[byte]
	rng     *rand.Rand
}

func (d *duo) Write(b []byte) (int, error) {
	d.logMu.Lock()
	defer d.logMu.Unlock()
	return d.log.Write(b)
}

func (d *duo) said() string {
	d.logMu.Lock()
	defer d.logMu.Unlock()
	return d.log.String()
}

// script runs a test with so many ports at each side. edit may change the caller's options, and
// the peer before it is dialled.
func script(t *testing.T, ports int, edit func(o *Options, p *scripted), test func(d *duo)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &duo{T: t, fabric: fabricsim.New(fabricsim.Config{Seed: 1}), control: sim.New(sim.Config{Seed: 1}), rng: rand.New(rand.NewPCG(1, 2))}
		defer d.control.Close()
		defer d.fabric.Close()
		defer func() {
			for _, m := range d.memory {
				m.Free()
			}
		}()
		d.begin(ports, edit)
		defer d.end()
		test(d)
	})
}

func (d *duo) begin(ports int, edit func(o *Options, p *scripted)) {
	a, err := d.fabric.Machine("a", fabricsim.MachineConfig{Ports: fabricsim.RoCE(1, ports)})
	must(d, err)
	b, err := d.fabric.Machine("b", fabricsim.MachineConfig{Ports: fabricsim.RoCE(2, ports)})
	must(d, err)
	p := &scripted{t: d.T, mem: make([]byte, 8<<20), opened: make(chan *scriptedSession, 100), fetched: make(chan *scriptedCall, 100),
		fenced: make(chan *scriptedCall, 100), plain: make(chan string, 100)}
	d.peer = p
	list, err := b.Ports()
	must(d, err)
	for _, info := range list {
		device, err := b.Open(info, info.GIDs[1])
		must(d, err)
		p.devices = append(p.devices, device)
	}
	controlA, err := d.control.Node("a")
	must(d, err)
	controlB, err := d.control.Node("b")
	must(d, err)
	o := Options{Control: controlA, Fabric: a, LandingBytes: 4 << 20, Logger: slog.New(slog.NewTextHandler(d, nil))}
	if edit != nil {
		edit(&o, p)
	}
	go func() { _ = controlB.Serve(helloOf(2), p) }()
	d.caller, err = New(o)
	must(d, err)
	l, err := d.caller.Dial(d.Context(), "b", helloOf(1))
	must(d, err)
	d.l = l.(*Link)
	d.Cleanup(func() { _ = controlB.Close() })
}

func (d *duo) end() {
	must(d, d.l.Close())
	must(d, d.caller.Close())
	if d.caller.ports[0].broken.Load() {
		return
	}
	for _, r := range d.caller.regions.list() {
		d.Errorf("memory at %#x is still registered", r.base)
	}
	if free, all := len(d.caller.landing.free), len(d.caller.landing.mem)/landingUnitBytes; free != all {
		d.Errorf("%d of %d pieces of landing memory are free", free, all)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// up waits for the session.
func (d *duo) up() *scriptedSession {
	d.Helper()
	s := <-d.peer.opened
	synctest.Wait()
	if now := d.l.session.Load(); now == nil || now == noSession {
		d.Fatalf("there is no session: %s", d.said())
	}
	return s
}

// mapped is memory outside the heap, registered as a destination.
func (d *duo) mapped(nBytes int) []byte {
	d.Helper()
	a, err := offheap.Make[byte](nBytes)
	must(d, err)
	d.memory = append(d.memory, a)
	_, err = d.caller.RegisterMemory(a.Slice(), transport.Destination)
	must(d, err)
	return a.Slice()
}

// fetching is a Fetch in a goroutine of its own.
type fetching struct {
	d        *duo
	f        *transport.Fetching
	cancel   context.CancelFunc
	onArrive func(i int)
	mu       sync.Mutex
	arrived  []int
	released []int
	ended    chan struct{}
	answer   []byte
	err      error
}

func (d *duo) fetch(dst ...[][]byte) *fetching {
	ctx, cancel := context.WithCancel(d.Context())
	t := &fetching{d: d, f: &transport.Fetching{}, cancel: cancel, ended: make(chan struct{})}
	for _, p := range dst {
		t.f.Blocks = append(t.f.Blocks, transport.Block{Dst: p})
	}
	t.f.Arrived = func(i int) {
		if t.onArrive != nil {
			t.onArrive(i)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.arrived = append(t.arrived, i)
	}
	t.f.Released = func(i int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.f.Blocks[i].Status != transport.Late {
			d.Errorf("block %d is released with status %d", i, t.f.Blocks[i].Status)
		}
		t.released = append(t.released, i)
	}
	go func() {
		defer close(t.ended)
		t.answer, t.err = d.l.Fetch(ctx, 0x21, []byte("which"), t.f)
	}()
	return t
}

// over wants the fetch to have ended, with these statuses.
func (t *fetching) over(want ...transport.Status) {
	t.d.Helper()
	synctest.Wait()
	select {
	case <-t.ended:
	default:
		t.d.Fatal("the fetch has not ended")
	}
	for i := range t.f.Blocks {
		if got := t.f.Blocks[i].Status; got != want[min(i, len(want)-1)] {
			t.d.Errorf("block %d has status %d, want %d", i, got, want[min(i, len(want)-1)])
		}
	}
}

func (t *fetching) running() {
	t.d.Helper()
	synctest.Wait()
	select {
	case <-t.ended:
		t.d.Fatalf("the fetch has ended: %v", t.err)
	default:
	}
}

func (t *fetching) releases() int {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.released)
}

// isFull wants a block to be there, whole.
func (t *fetching) isFull(c *scriptedCall, block int) {
	t.d.Helper()
	b := &t.f.Blocks[block]
	for _, p := range b.Dst {
		for _, c1 := range p {
			if c1 != fillOf(c.fetch.request, block) {
				t.d.Fatalf("block %d has other bytes", block)
			}
		}
	}
	if b.Checksum != sum(c.fetch.request, block) {
		t.d.Errorf("block %d has checksum %#x", block, b.Checksum)
	}
}

package mount

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/wire"
)

const goodBlocks = 200

// witness is a good client that reads all the time: it must always hit.
type witness struct {
	t    *testing.T
	c    *client.Client
	stop chan struct{}
	done sync.WaitGroup
	read atomic.Int64
}

func (r *rig) witness(t *testing.T) *witness {
	c := r.dial()
	ns, rows := open(t, c, "good"), newPool(t, c, goodBlocks)
	rows.put(ns, 0, goodBlocks, client.Stored)
	w := &witness{t: t, c: c, stop: make(chan struct{})}
	w.done.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-w.stop:
				return
			default:
			}
			n := 1 + rng.IntN(16)
			from := rng.IntN(goodBlocks - n)
			result := ns.Get(rows.blocks(from, n), client.GetOptions{}).Wait()
			for i, s := range result.Statuses {
				if s != client.Hit || !rows.holds(i, from+i) {
					t.Errorf("the good client's block %d: %v", from+i, s)
				}
			}
			w.read.Add(int64(n))
		}
	})
	return w
}

// end wants the witness to have read meanwhile, and ends it.
func (w *witness) end() {
	before := w.read.Load()
	eventually(w.t, "the good client goes on", func() bool { return w.read.Load() > before })
	close(w.stop)
	w.done.Wait()
	w.c.Close()
}

// mappings counts memory of hostile clients that this process maps: the tests' own
// mappings, and the node's.
func mappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	return strings.Count(string(b), "memfd:hostile")
}

// clean wants nothing left of clients that are gone.
func (r *rig) clean(t *testing.T, others int) {
	t.Helper()
	eventually(t, "everything of the client comes back", func() bool {
		st := r.node.Stat()
		leases, frames, quarantined := 0, 0, uint64(0)
		for _, s := range st.Stores {
			leases, frames, quarantined = leases+s.LeasedBlocks, frames+s.FramesInUse, quarantined+s.Counters.QuarantinedSlots
		}
		var running int64
		for _, d := range st.Drives {
			running += d.StoreBytes + d.AdmittedBytes
		}
		if quarantined != 0 {
			t.Fatalf("%d slots are lost", quarantined)
		}
		return st.Connections == others && leases == 0 && frames == 0 && running == 0
	})
}

// misdeeds are what a client may do to its memory while requests are under way.
var misdeeds = map[string]func(t testing.TB, m memory){
	"cuts its file":          func(t testing.TB, m memory) { m.cut(t, 0) },
	"cuts its file in two":   func(t testing.TB, m memory) { m.cut(t, len(m.mem)/2) },
	"punches its file":       func(t testing.TB, m memory) { m.punch(t) },
	"writes into its memory": func(t testing.TB, m memory) { scribble(m.mem) },
	"cuts and grows its file": func(t testing.TB, m memory) {
		m.cut(t, 0)
		m.cut(t, len(m.mem))
	},
}

func scribble(b []byte) {
	for i := 0; i < len(b); i += 512 {
		b[i] = byte(rand.Int())
	}
}

// TestMisdeeds: whatever a client does to its own memory during gets and puts costs
// that client's blocks at most.
func TestMisdeeds(t *testing.T) {
	r := newRig(t, 1).start()
	w := r.witness(t)
	for what, do := range misdeeds {
		t.Run(what, func(t *testing.T) {
			const rows = 64
			before := mappings(t)
			for round := range 8 {
				bad, region, m := r.rawMount("bad", rows)
				bad.send(wire.TypePut, bad.put(region, 1000*round, rows), nil)
				do(t, m)
				bad.results(wire.TypePut)
				m.cut(t, len(m.mem))
				bad.ask(wire.TypePut, bad.put(region, 1000*round+500, rows), nil)
				bad.send(wire.TypeGet, bad.get(region, 1000*round+500, rows), nil)
				do(t, m)
				bad.results(wire.TypeGet)
				bad.send(wire.TypeGet, bad.get(region, 1000*round+500, rows), nil)
				do(t, m)
				_ = bad.socket.Close() // in the midst of it
			}
			r.clean(t, 1)
			if n := mappings(t) - before; n != 8 { // this test's own
				t.Errorf("%d mappings of the client's memory, the node's among them", n)
			}
		})
	}
	w.end()
	r.stop()
}

// TestHitsAreRight: a client that punches its memory while blocks arrive is told Hit
// only for what is there.
func TestHitsAreRight(t *testing.T) {
	r := newRig(t, 1).start()
	good := r.dial()
	ns, filled := open(t, good, "a"), newPool(t, good, 64)
	filled.put(ns, 0, 64, client.Stored)
	bad, region, m := r.rawMount("a", 64)
	for range 50 {
		bad.send(wire.TypeGet, bad.get(region, 0, 64), nil)
		m.punch(t)
		statuses := bad.results(wire.TypeGet).Statuses
		_ = statuses // what a punch took after the answer is the client's own doing
		bad.send(wire.TypeGet, bad.get(region, 0, 64), nil)
		for i, s := range bad.results(wire.TypeGet).Statuses {
			if wire.Status(s) != wire.Hit || !bytes.Equal(m.mem[i*blockBytes:][:blockBytes], filled.row(i)) {
				t.Fatalf("block %d: %v, or wrong bytes", i, wire.Status(s))
			}
		}
	}
	good.Close()
	_ = bad.socket.Close()
	r.clean(t, 0)
	r.stop()
}

// TestGarbage: noise, at every stage of a connection, ends that connection and no other.
func TestGarbage(t *testing.T) {
	r := newRig(t, 1).start()
	w := r.witness(t)
	rng := rand.New(rand.NewPCG(7, 7))
	noise := func() []byte {
		b := make([]byte, rng.IntN(64<<10))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	for i := range 200 {
		c := r.rawDial()
		if i%3 > 0 {
			c.hello()
		}
		if i%3 > 1 {
			c.open("bad")
		}
		switch i % 4 {
		case 0:
			_, _ = c.socket.Write(noise())
		case 1:
			_, _ = c.socket.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		case 2: // a right header before a wrong body
			_, _ = c.socket.Write(wire.AppendFrame(nil, wire.Type(rng.IntN(0x20)), 77, wire.Raw(noise())))
		case 3: // a body that never ends
			_, _ = c.socket.Write(wire.AppendFrame(nil, wire.TypeGet, 77, wire.Raw(noise()))[:20])
		}
		_ = c.socket.CloseWrite()
		for {
			if _, _, err := c.next(); err != nil {
				break
			}
		}
	}
	r.clean(t, 1)
	w.end()
	r.stop()
}

// TestDescriptors: descriptors that nobody asked for, or that are no memory, go away.
func TestDescriptors(t *testing.T) {
	r := newRig(t, 1).start()
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(entries)
	}
	before := open()
	for i := range 100 {
		c := r.rawDial()
		c.hello()
		null, err := os.Open("/dev/null")
		must(t, err)
		fd := int(null.Fd())
		switch i % 4 {
		case 0:
			c.send(wire.TypePing, wire.Raw("x"), unix.UnixRights(fd, fd))
			c.want(wire.TypePing | wire.Answer)
		case 1:
			c.send(wire.TypePing, wire.Raw("x"), unix.UnixRights(fd, fd, fd, fd, fd, fd, fd, fd))
		case 2:
			c.send(wire.TypeRegisterRegion, &wire.RegisterRegion{LengthBytes: 4096}, unix.UnixRights(fd))
			c.want(wire.TypeError)
		case 3:
			c.send(wire.TypeRegisterRegion, &wire.RegisterRegion{LengthBytes: 4096}, nil)
			c.want(wire.TypeError)
		}
		_ = null.Close()
		_ = c.socket.Close()
	}
	r.clean(t, 0)
	if after := open(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	r.stop()
}

// TestManyConnections: clients beyond the bound are refused with a word, and the ones
// within are served.
func TestManyConnections(t *testing.T) {
	r := newRig(t, 1)
	r.options.ConnectionsMax = 100
	r.start()
	w := r.witness(t)
	var all []*raw
	refused := 0
	for range 1000 {
		c := r.rawDial()
		all = append(all, c)
		if len(all) <= 99 {
			c.hello()
			continue
		}
		h, body, err := c.next()
		if m, parseErr := wire.ParseError(body); err != nil || h.Type != wire.TypeError || parseErr != nil || m.Code != wire.CodeLimit {
			t.Fatalf("connection %d: %+v, %v, %+v", len(all), h, err, m)
		}
		refused++
	}
	if refused != 901 || r.node.Stat().Refused != 901 {
		t.Errorf("%d refused, the node says %d", refused, r.node.Stat().Refused)
	}
	for _, c := range all {
		_ = c.socket.Close()
	}
	r.clean(t, 1)
	w.end()
	r.stop()
}

// TestStalledClient: a client that reads no answers loses its connection, and nobody
// waits for it.
func TestStalledClient(t *testing.T) {
	r := newRig(t, 1)
	r.options.StallTime = 50 * time.Millisecond
	r.start()
	w := r.witness(t)
	c := r.rawDial()
	c.hello()
	for i := range 100_000 {
		c.last++
		if _, err := c.socket.Write(wire.AppendFrame(nil, wire.TypePing, c.last, wire.Raw(make([]byte, 32<<10)))); err != nil {
			break // refused at last
		}
		if i == 99_999 {
			t.Error("3 GB of answers were kept")
		}
	}
	r.clean(t, 1)
	w.end()
	r.stop()
}

// TestLimits: what is beyond a bound is refused with the bound, and the connection
// goes on.
func TestLimits(t *testing.T) {
	r := newRig(t, 1)
	r.options = node.Options{NamespacesMax: 2, RegionsMax: 2, RegionBytesMax: 1 << 20, KeysMax: 10, LeasesMax: 3, RequestsMax: 4}
	r.start()
	c, region, m := r.rawMount("a", 4)
	c.ask(wire.TypePut, c.put(region, 0, 4), nil)
	wantError := func(what string, code wire.Code, text string) {
		t.Helper()
		e, err := wire.ParseError(c.want(wire.TypeError))
		if err != nil || e.Code != code || !strings.Contains(e.Text+e.Remedy, text) {
			t.Errorf("%s: %v, %v", what, &e, err)
		}
	}
	c.open("b")
	c.send(wire.TypeOpenNamespace, &wire.OpenNamespace{Descriptor: []byte(`{"name":"c","block_bytes":16384}`)}, nil)
	wantError("a third namespace", wire.CodeLimit, "limits.namespaces")
	c.open("a")
	c.send(wire.TypeRegisterRegion, &wire.RegisterRegion{LengthBytes: 2 << 20}, unix.UnixRights(m.fd))
	wantError("too many bytes", wire.CodeLimit, "limits.region_bytes")
	second, _ := c.region(4096)
	c.send(wire.TypeRegisterRegion, &wire.RegisterRegion{LengthBytes: 4096}, unix.UnixRights(m.fd))
	wantError("a third region", wire.CodeLimit, "limits.regions")
	c.ask(wire.TypeDropRegion, wire.Number(second), nil)
	c.region(4096)
	c.send(wire.TypeMatch, &wire.Match{Namespace: c.ns, Keys: wire.MakeKeys(keys(0, 11))}, nil)
	wantError("11 keys", wire.CodeLimit, "10 is the limit")
	c.send(wire.TypeMatch, &wire.Match{Namespace: 99, Keys: wire.MakeKeys(keys(0, 1))}, nil)
	wantError("an unknown namespace", wire.CodeUnknown, "99")
	for i := range 5 {
		m, err := wire.ParseMatchAnswer(c.ask(wire.TypeMatch, &wire.Match{Namespace: c.ns, LeaseMS: 60_000, Keys: wire.MakeKeys(keys(0, 4))}, nil))
		if err != nil || m.Prefix != 4 || (m.Lease != 0) != (i < 3) {
			t.Errorf("lease %d: %+v, %v", i, m, err)
		}
	}
	c.send(wire.TypeOpenNamespace, &wire.OpenNamespace{Descriptor: []byte(`{"name":"a","block_bytes":16384,"colour":"red"}`)}, nil)
	wantError("a descriptor with an unknown field", wire.CodeArgument, "colour")
	c.send(wire.TypeOpenNamespace, &wire.OpenNamespace{Descriptor: []byte(`{"name":"a","block_bytes":100}`)}, nil)
	wantError("blocks of 100 bytes", wire.CodeArgument, "100")
	_ = c.socket.Close()
	r.clean(t, 0)
	r.stop()
}

// TestPlacesOutside: a place outside its region is that item's miss or drop, and
// counted.
func TestPlacesOutside(t *testing.T) {
	r := newRig(t, 1).start()
	c, region, _ := r.rawMount("a", 4)
	c.ask(wire.TypePut, c.put(region, 0, 4), nil)
	outside := wire.MakePlaces(1, []wire.Piece{{Region: region, LengthBytes: blockBytes, Offset: 0}, {Region: region, LengthBytes: blockBytes, Offset: 4 * blockBytes},
		{Region: region, LengthBytes: blockBytes, Offset: 1<<64 - blockBytes}, {Region: region, LengthBytes: blockBytes, Offset: 3*blockBytes + 1}})
	c.send(wire.TypeGet, &wire.Get{Namespace: c.ns, Keys: wire.MakeKeys(keys(0, 4)), Places: outside}, nil)
	if got := c.results(wire.TypeGet).Statuses; !bytes.Equal(got, []byte{byte(wire.Hit), byte(wire.Miss), byte(wire.Miss), byte(wire.Miss)}) {
		t.Errorf("gets: %v", got)
	}
	c.send(wire.TypePut, &wire.Put{Namespace: c.ns, Keys: wire.MakeKeys(keys(10, 4)), Places: outside}, nil)
	if got := c.results(wire.TypePut).Statuses; !bytes.Equal(got, []byte{byte(wire.Stored), byte(wire.Dropped), byte(wire.Dropped), byte(wire.Dropped)}) {
		t.Errorf("puts: %v", got)
	}
	if n := r.node.Stat().Faults; n != 6 {
		t.Errorf("%d faults counted", n)
	}
	_ = c.socket.Close()
	r.clean(t, 0)
	r.stop()
}

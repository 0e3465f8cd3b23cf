package mount

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// TestLateItemsOfAStalledClient: a client that reads nothing while many of its items are
// late holds up nobody: their releases are told by no goroutine that ends transfers.
func TestLateItemsOfAStalledClient(t *testing.T) {
	r := newSimRig(t)
	r.options.StallTime = time.Minute
	r.start()
	good := r.dial()
	ns, rows := open(t, good, "a"), newPool(t, good, 64)
	rows.put(ns, 0, 64, client.Stored)
	bad, region, _ := r.rawMount("a", 64)
	must(t, bad.socket.SetReadBuffer(4096))
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 50 * time.Millisecond})
	for range 4 {
		for range 10 { // answers and releases that nobody reads
			g := bad.get(region, 0, 64)
			g.DeadlineUS = 1000
			bad.last++
			_ = bad.socket.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := bad.socket.Write(wire.AppendFrame(nil, wire.TypeGet, bad.last, g)); err != nil {
				break
			}
		}
		rows.get(ns, 0, 8, client.Hit)
	}
	r.disk.SetFaults(sim.Plan{})
	_ = bad.socket.Close()
	good.Close()
	r.clean(t, 0)
	r.stop()
}

// TestCreateAndDropAtOnce: memory that is dropped while it is being made reaches the
// client as memory, or not at all.
func TestCreateAndDropAtOnce(t *testing.T) {
	r := newRig(t, 1).start()
	c, _, _ := r.rawMount("a", 1)
	for round := range uint32(200) {
		c.last += 2
		both := wire.AppendFrame(nil, wire.TypeCreateRegion, c.last-1, &wire.CreateRegion{Number: c.ns, LengthBytes: 4096})
		both = wire.AppendFrame(both, wire.TypeDropRegion, c.last, wire.Number(round+3)) // numbers are easy to guess
		_, err := c.socket.Write(both)
		must(t, err)
		for answers := 0; answers < 2; answers++ {
			header, fds := c.exactly(wire.HeaderBytes)
			h, err := wire.ParseHeader(header, wire.FrameBytesMax)
			must(t, err)
			c.exactly(int(h.BodyBytes))
			for _, fd := range fds {
				name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
				must(t, err)
				if !strings.Contains(name, "memfd:") {
					t.Errorf("round %d: the client was sent %s", round, name)
				}
				_ = unix.Close(fd)
			}
		}
	}
	_ = c.socket.Close()
	r.clean(t, 0)
	r.stop()
}

// exactly reads n bytes and the descriptors that come with them.
func (w *raw) exactly(n int) (b []byte, fds []int) {
	w.t.Helper()
	b = make([]byte, n)
	oob := make([]byte, 256)
	for at := 0; at < n; {
		got, oobn, _, _, err := w.socket.ReadMsgUnix(b[at:], oob)
		must(w.t, err)
		at += got
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		must(w.t, err)
		for i := range messages {
			more, err := unix.ParseUnixRights(&messages[i])
			must(w.t, err)
			fds = append(fds, more...)
		}
	}
	return b, fds
}

// TestSparseMemoryStaysSparse: a region whose pages are not there is used as it is; the
// daemon does not fill it.
func TestSparseMemoryStaysSparse(t *testing.T) {
	r := newRig(t, 1).start()
	c := r.rawDial()
	c.hello()
	c.open("a")
	region, m := c.region(1 << 30)
	var stat unix.Stat_t
	must(t, unix.Fstat(m.fd, &stat))
	if stat.Blocks != 0 {
		t.Errorf("%d KiB of a sparse region were filled", stat.Blocks/2)
	}
	c.ask(wire.TypePut, c.put(region, 0, 2), nil)
	c.send(wire.TypeGet, c.get(region, 0, 2), nil)
	if got := c.results(wire.TypeGet); wire.Status(got.Statuses[0]) != wire.Hit || wire.Status(got.Statuses[1]) != wire.Hit {
		t.Errorf("%v", got.Statuses)
	}
	_ = c.socket.Close()
	r.clean(t, 0)
	r.stop()
}

// TestRefusedNamespacesAreNotMade: what is beyond a bound leaves no trace in a store.
func TestRefusedNamespacesAreNotMade(t *testing.T) {
	r := newRig(t, 1)
	r.options = node.Options{NamespacesMax: 3}
	r.start()
	c := r.rawDial()
	c.hello()
	for i := range 3 {
		c.open(fmt.Sprint("a", i))
	}
	for i := range 20 {
		c.send(wire.TypeOpenNamespace, &wire.OpenNamespace{Descriptor: fmt.Appendf(nil, `{"name":"b%d","block_bytes":16384}`, i)}, nil)
		c.want(wire.TypeError)
	}
	c.open("a1") // open already
	if n := len(r.node.Stat().Stores[0].Namespaces); n != 3 {
		t.Errorf("the store has %d namespaces", n)
	}
	_ = c.socket.Close()
	r.stop()
}

// TestDrainAfterALoss: Drain says that memory is the client's only when it is, also
// when the connection was lost in between.
func TestDrainAfterALoss(t *testing.T) {
	r := newSimRig(t).start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 4)
	rows.put(ns, 0, 4, client.Stored)
	r.disk.SetFaults(sim.Plan{Filter: isSegment, Delay: 1, DelayBy: 600 * time.Millisecond})
	job := ns.Get(rows.blocks(0, 4), client.GetOptions{})
	r.reading()
	for _, s := range r.node.Stat().Clients {
		r.node.Disconnect(s.Number)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, c.Drain(ctx))
	select {
	case <-job.Released():
	default:
		t.Error("drained, and a job is not released")
	}
	clear(rows.r.Bytes())
	time.Sleep(20 * time.Millisecond)
	for i, b := range rows.r.Bytes() {
		if b != 0 {
			t.Fatalf("byte %d was written after Drain", i)
		}
	}
	r.disk.SetFaults(sim.Plan{})
	c.Close()
	r.stop()
}

// TestCancelWhileLost: ending a subscription and losing the connection at the same time
// is one end.
func TestCancelWhileLost(t *testing.T) {
	r := newRig(t, 1).start()
	for range 50 {
		c := r.dial()
		ns := open(t, c, "a")
		s, err := ns.Subscribe(context.Background(), 0)
		must(t, err)
		var both sync.WaitGroup
		both.Go(s.Cancel)
		both.Go(c.Close)
		both.Wait()
		for range s.Events() {
		}
	}
	r.stop()
}

// TestTooLargeARequest: a request beyond the daemon's frame is answered here, and the
// connection goes on.
func TestTooLargeARequest(t *testing.T) {
	r := newRig(t, 1).start()
	c := r.dial()
	ns := open(t, c, "a")
	long := make([][]byte, 8000)
	for i := range long {
		long[i] = fmt.Appendf(make([]byte, 1000), "%d", i)
	}
	if m := ns.Match(long, client.MatchOptions{}); m.Prefix != 0 {
		t.Errorf("%+v", m)
	}
	if !c.Connected() || r.node.Stat().Malformed != 0 {
		t.Error("the connection is lost")
	}
	c.Close()
	r.stop()
}

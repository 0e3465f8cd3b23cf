package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	fsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
)

// TestGarbage sends bytes that are no messages, and messages that lie.
func TestGarbage(t *testing.T) {
	serve(t, 2, Options{InFlight: 4 << 20}, func(r *rig) {
		c := r.caller(2).up()
		defer c.end()
		r.on(r.lending(&lender{T: r.T}, 10))
		rng := rand.New(rand.NewPCG(5, 5))
		for _, kind := range []transport.Kind{kindOpen, kindHold, kindFetch, kindFence} {
			for n := range 60 {
				b := make([]byte, n)
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
				_, err := c.link.Call(r.Context(), kind, b)
				if remote, ok := errors.AsType[*transport.RemoteError](err); !ok || remote.Code != transport.CodeMalformed && remote.Code != transport.CodeUnknown {
					r.Errorf("kind %#x took %x: %v", kind, b, err)
				}
			}
		}
		for _, wrong := range []struct {
			name   string
			code   transport.Code
			change func(m *fetchRequest)
		}{
			{"a line beyond the table", transport.CodeMalformed, func(m *fetchRequest) { m.blocks[0].line = callerLines }},
			{"a rail that there is not", transport.CodeMalformed, func(m *fetchRequest) { m.blocks[0].rail = 2 }},
			{"another session", transport.CodeUnknown, func(m *fetchRequest) { m.session++ }},
			{"too many bytes", transport.CodeBusy, func(m *fetchRequest) { *m = *c.ask(0, 0, 1<<20, 3<<20, 1) }},
			{"too many blocks", transport.CodeBusy, func(m *fetchRequest) {
				*m = *c.ask(0, 0, 1<<20, make([]int, 4*callerLines+1)...)
				for i := range m.blocks {
					m.blocks[i].line %= callerLines
				}
			}},
		} {
			if wrong.name == "too many bytes" {
				block := make(chan struct{})
				r.on(func(context.Context, []byte, int, transport.Reply) ([]byte, error) { <-block; return nil, nil })
				for range 2 {
					m := c.ask(0, 40, 1<<20, 4<<20)
					go func() { _, _ = c.fetch(m) }()
				}
				r.settle()
				defer close(block)
			}
			m := c.ask(0, 0, 10, 10)
			wrong.change(m)
			_, err := c.fetch(m)
			codeOf(r.T, wrong.name, err, wrong.code)
		}
		for _, wrong := range []fenceRequest{{session: c.session, rails: 4}, {session: c.session + 1, rails: 1}} {
			if _, err := c.link.Call(r.Context(), kindFence, wrong.append(nil)); err == nil {
				r.Errorf("%+v was taken", wrong)
			}
		}
		if isOver(c) {
			r.Error("the session has ended")
		}
	})
}

func isOver(c *caller) bool { return len(c.over) > 0 }

// TestRequestTwice asks under a number that is in use.
func TestRequestTwice(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		c := r.caller(1).up()
		defer c.end()
		block := make(chan struct{})
		r.on(func(context.Context, []byte, int, transport.Reply) ([]byte, error) { <-block; return nil, nil })
		m := c.ask(0, 0, 10, 10)
		first := make(chan error)
		go func() {
			_, err := c.fetch(m)
			first <- err
		}()
		r.settle()
		_, err := c.fetch(m)
		codeOf(r.T, "a request under a number in use", err, transport.CodeMalformed)
		close(block)
		r.must(<-first)
	})
}

// TestSessions has sessions that are not held, held twice, of somebody else, and too many.
func TestSessions(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		r.on(r.lending(&lender{T: r.T}, 10))
		c, d := r.caller(1), r.caller(1)
		defer c.end()
		defer d.end()
		if opened := c.open(); opened.inFlight != uint64(r.t.o.InFlight) {
			r.Errorf("%+v", opened)
		}
		_, err := c.fetch(c.ask(0, 0, 10, 10))
		codeOf(r.T, "a fetch of a session that is not held", err, transport.CodeMalformed)
		codeOf(r.T, "a fence of a session that is not held", c.fence(1), transport.CodeMalformed)
		_, err = d.link.Call(r.Context(), kindHold, appendHold(nil, c.session))
		codeOf(r.T, "a hold of somebody else's session", err, transport.CodeUnknown)
		c.hold()
		c.rails[0].receive(r.T)
		_, err = c.link.Call(r.Context(), kindHold, appendHold(nil, c.session))
		codeOf(r.T, "a second hold", err, transport.CodeMalformed)
		m := d.ask(0, 0, 10, 10)
		m.session = c.session
		_, err = d.fetch(m)
		codeOf(r.T, "a fetch of somebody else's session", err, transport.CodeUnknown)

		for range peerGuestsMax {
			request := d.request()
			_, err = d.link.Call(r.Context(), kindOpen, request.append(nil))
			r.must(err)
		}
		request := d.request()
		_, err = d.link.Call(r.Context(), kindOpen, request.append(nil))
		codeOf(r.T, "too many sessions", err, transport.CodeBusy)
		time.Sleep(holdTime + time.Second)
		r.settle()
		if n := len(r.t.serving.guests); n != 1 {
			r.Errorf("%d sessions are left, want the one that is held", n)
		}
		if n := r.t.ports[0].rails.Load(); n != 1 {
			r.Errorf("%d rails are left", n)
		}
		d.up()
		if isOver(c) || isOver(d) {
			r.Error("a session that is held has ended")
		}
	})
}

// TestManyOpen has peers without number open sessions that they never hold: one that holds
// its own finds room all the same, and those that are held stay.
func TestManyOpen(t *testing.T) {
	serve(t, 1, Options{}, func(r *rig) {
		r.on(r.lending(&lender{T: r.T}, 10))
		held := r.caller(1)
		defer held.end()
		held.up()
		ask := r.caller(1)
		defer ask.end()
		m := ask.request()
		for i := range guestsMax + waitingMax {
			from := helloOf(i)
			from.Node = member.ID{byte(i), byte(i >> 8), 1}
			_, err := r.t.serving.open(r.Context(), from, m.append(nil))
			r.must(err)
			synctest.Wait()
		}
		if n := len(r.t.serving.guests); n != 1+waitingMax {
			r.Errorf("%d sessions, want one that is held and %d that are not", n, waitingMax)
		}
		c := r.caller(1)
		defer c.end()
		c.up()
		if isOver(c) || isOver(held) {
			r.Error("a session that is held has ended")
		}
		time.Sleep(holdTime + time.Second)
		r.settle()
		s := r.t.serving
		if len(s.guests) != 2 || r.t.ports[0].rails.Load() != 2 {
			r.Errorf("%d sessions, %d rails are left", len(s.guests), r.t.ports[0].rails.Load())
		}
	})
}

// TestGivenUp ends sessions by the end of the hold, and by that of the link.
func TestGivenUp(t *testing.T) {
	for _, how := range []string{"hold", "link", "killed"} {
		t.Run(how, func(t *testing.T) {
			serveOver(t, 1, Options{}, slow, func(r *rig) {
				c := r.caller(1).up()
				l := &lender{T: r.T}
				r.on(r.lending(l, 1<<20, 1<<20, 1<<20))
				_, err := c.fetch(c.ask(0, 0, 1<<20, 1<<20, 1<<20, 1<<20))
				r.must(err)
				switch how {
				case "hold":
					c.release()
				case "link":
					r.must(c.link.Close())
				case "killed":
					r.calls.Kill(c.machine)
				}
				r.settle()
				l.back()
				if n := len(r.t.serving.guests); n != 0 || r.t.ports[0].rails.Load() != 0 {
					r.Errorf("%d sessions, %d rails are left", n, r.t.ports[0].rails.Load())
				}
				c.end()
			})
		})
	}
}

// TestFaults has writes that fail: the session ends as a whole, says so, and lets go of all
// memory; the next one works.
func TestFaults(t *testing.T) {
	for _, fault := range []struct {
		name string
		says fabric.Result
		make func(c *caller, m *fetchRequest)
	}{
		{"wrong key", fabric.RemoteDenied, func(_ *caller, m *fetchRequest) { m.blocks[1].pieces[0].key++ }},
		{"outside the region", fabric.RemoteDenied, func(_ *caller, m *fetchRequest) { m.blocks[1].pieces[0].address += 1 << 40 }},
		{"deregistered early", fabric.RemoteDenied, func(c *caller, _ *fetchRequest) { c.must(c.rails[0].lines.Deregister()) }},
		{"caller's queue pair destroyed", fabric.NoAnswer, func(c *caller, _ *fetchRequest) { c.must(c.rails[0].pair.Destroy()) }},
		{"machine killed", fabric.NoAnswer, func(c *caller, _ *fetchRequest) { c.net.Kill(c.machine) }},
		{"machine frozen", fabric.NoAnswer, func(c *caller, _ *fetchRequest) { c.net.Freeze(c.machine) }},
		{"link down", fabric.LocalFault, func(c *caller, _ *fetchRequest) { c.net.SetPort("server", "sim0:1", false) }},
		{"no receive", fabric.NoReceive, nil},
	} {
		t.Run(strings.ReplaceAll(fault.name, " ", "-"), func(t *testing.T) {
			serveOver(t, 1, Options{PostedBytes: 1 << 20}, slow, func(r *rig) {
				c := r.caller(1)
				if fault.make == nil { // one receive, for the probe
					c.must(c.rails[0].pair.Destroy())
					var err error
					c.rails[0].pair, err = c.rails[0].device.NewQueuePair(fabric.QueueOptions{Sends: 1, Receives: 2, RemoteWrite: true})
					r.must(err)
					r.must(c.rails[0].pair.PostReceives(1))
					c.open()
					c.hold()
					var one [1]fabric.Completion
					_, err = c.rails[0].pair.Receives().Wait(one[:])
					r.must(err)
				} else {
					c.up()
				}
				l := &lender{T: r.T}
				sizes := []int{1 << 20, 2 << 20, 1 << 20}
				lending := r.lending(l, sizes...)
				var gone atomic.Bool
				r.on(func(ctx context.Context, body []byte, n int, reply transport.Reply) ([]byte, error) {
					_, _ = lending(ctx, body, n, reply)
					<-ctx.Done() // it ends with the session
					gone.Store(true)
					return nil, ctx.Err()
				})
				m := c.ask(0, 0, 1<<20, sizes...)
				if fault.make != nil {
					fault.make(c, m)
				}
				_, err := c.fetch(m)
				codeOf(r.T, "a fetch of a session that fails", err, transport.CodeUnknown)
				if !gone.Load() {
					r.Error("the handler did not hear of it")
				}
				if why := <-c.over; !strings.Contains(why, fault.says.String()) {
					r.Errorf("the hold says %q, want %q", why, fault.says)
				}
				l.back()
				codeOf(r.T, "a fence of a session that is over", c.fence(m.request), transport.CodeUnknown)
				if n := r.t.Way(helloOf(c.id).Node).Destroyed; n != 1 {
					r.Errorf("%d queue pairs are counted", n)
				}
				r.net.SetPort("server", "sim0:1", true)
				next := r.caller(1).up()
				defer next.end()
				r.on(lending)
				_, err = next.fetch(next.ask(0, 0, 1<<20, sizes...))
				r.must(err)
				next.records(0, 3)
				r.settle()
				l.back()
			})
		})
	}
}

// TestFenceThatFails has fences under way when a session fails.
func TestFenceThatFails(t *testing.T) {
	serveOver(t, 1, Options{PostedBytes: 1 << 20}, slow, func(r *rig) {
		c := r.caller(1).up()
		l := &lender{T: r.T}
		r.on(r.lending(l, 1<<20, 2<<20))
		m := c.ask(0, 0, 1<<20, 1<<20, 2<<20)
		_, err := c.fetch(m)
		r.must(err)
		r.net.Freeze(c.machine)
		r.settle()
		codeOf(r.T, "a fence", c.fence(m.request), transport.CodeUnknown)
		<-c.over
		l.back()
	})
}

// TestServingDestroyFails: of a queue pair that cannot be destroyed memory is not let go, and its
// port is not used again.
func TestServingDestroyFails(t *testing.T) {
	serveOver(t, 2, Options{}, slow, func(r *rig) {
		c := r.caller(1).up()
		l := &lender{T: r.T}
		r.on(r.lending(l, 1<<20, 1<<20))
		_, err := c.fetch(c.ask(0, 0, 1<<20, 1<<20, 1<<20))
		r.must(err)
		r.net.Freeze(c.machine)
		r.net.SetDestroyFails("server", true)
		<-c.over
		if n := l.out.Load(); n != 2 {
			r.Errorf("%d blocks are not done with, want 2", n)
		}
		if !r.t.ports[0].broken.Load() || r.t.ports[1].broken.Load() {
			r.Error("the wrong port is broken")
		}
		r.net.SetDestroyFails("server", false)
		next := r.caller(1)
		defer next.end()
		next.open()
		if n := r.t.ports[1].rails.Load(); n != 1 {
			r.Errorf("%d rails on the port that is left", n)
		}
		r.net.Thaw(c.machine) // the rest of it goes on, and ends
		r.must(r.t.serving.onlyGuest(c.session))
	})
}

// TestStagingLost: when all staging memory stays with a queue pair that cannot be destroyed,
// blocks that want some are refused at once, those that wait for it too.
func TestStagingLost(t *testing.T) {
	serveOver(t, 2, Options{LandingBytes: 256 << 10}, slow, func(r *rig) {
		c, d := r.caller(1).up(), r.caller(2).up()
		defer d.end()
		l := &lender{T: r.T}
		registered := r.memory
		r.memory = r.loose
		r.on(r.lending(l, 1<<20))
		r.net.Freeze(c.machine)
		r.net.SetDestroyFails("server", true)
		_, err := c.fetch(c.ask(0, 0, 1<<20, 1<<20))
		r.must(err)
		time.Sleep(time.Millisecond) // it has all of it
		waiting := d.ask(1, 0, 1<<20, 1<<20)
		_, err = d.fetch(waiting)
		r.must(err)
		<-c.over
		if got := d.records(1, 1)[0]; got.status != transport.Refused {
			r.Errorf("a block that waited: %+v", got)
		}
		_, err = d.fetch(d.ask(1, 1, 1<<20, 1<<20))
		r.must(err)
		if got := d.records(1, 1)[0]; got.status != transport.Refused {
			r.Errorf("another block: %+v", got)
		}
		r.memory = registered
		m := d.ask(1, 2, 1<<20, 1<<20)
		_, err = d.fetch(m)
		r.must(err)
		if got := d.records(1, 1)[0]; got.status != transport.Done {
			r.Errorf("a block of registered memory: %+v", got)
		}
		d.arrived(m, 0, content(0, 1<<20))
		r.net.SetDestroyFails("server", false)
		r.net.Thaw(c.machine)
	})
}

// onlyGuest is for a session that is over: it must not be found.
func (s *serving) onlyGuest(number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guests[number] != nil {
		return fmt.Errorf("session %#x is still there", number)
	}
	return nil
}

// TestRails chooses ports for rails, and leaves one out that cannot be reached.
func TestRails(t *testing.T) {
	serve(t, 3, Options{}, func(r *rig) {
		c := r.caller(3)
		defer c.end()
		request := c.request()
		request.rails[0], request.rails[2] = request.rails[2], request.rails[0]
		infiniBand := request.rails[1]
		infiniBand.end.Ethernet = false
		request.rails = append(request.rails, infiniBand, request.rails[1])
		answer, err := c.link.Call(r.Context(), kindOpen, request.append(nil))
		r.must(err)
		opened, err := parseOpened(answer, 5)
		r.must(err)
		for i, want := range []int{2, 1, 0, -1, 1} {
			if got := opened.rails[i]; want < 0 && got.Number != 0 || want >= 0 && got.GID != r.t.ports[want].gid.Address {
				r.Errorf("rail %d goes to %v, want port %d", i, got.GID, want)
			}
		}
		for i := range request.rails { // of nobody's network: the port with the fewest
			request.rails[i].end.prefixBits = 0
			request.rails[i].end.Ethernet = true
		}
		answer, err = c.link.Call(r.Context(), kindOpen, request.append(nil))
		r.must(err)
		_, err = parseOpened(answer, 5)
		r.must(err)
		for i, p := range r.t.ports {
			if n := p.rails.Load(); n != 3 {
				r.Errorf("port %d has %d rails", i, n)
			}
		}
		request.rails = []callerRail{infiniBand}
		_, err = c.link.Call(r.Context(), kindOpen, request.append(nil))
		codeOf(r.T, "no rail", err, transport.CodeInternal)
	})
}

// TestRailLost has one of two rails without a way: the other is used; who uses it all the
// same ends the session.
func TestRailLost(t *testing.T) {
	serveOver(t, 2, Options{}, fsim.Config{Seed: 1}, func(r *rig) {
		c := r.caller(2)
		r.on(r.lending(&lender{T: r.T}, 100))
		c.open()
		r.net.SetPort(c.machine, "sim1:1", false)
		c.hold()
		c.rails[0].receive(r.T)
		r.settle()
		_, err := c.fetch(c.ask(0, 0, 100, 100))
		r.must(err)
		c.records(0, 1)
		if isOver(c) {
			r.Fatal("the session has ended")
		}
		if _, err := c.fetch(c.ask(1, 0, 100, 100)); err != nil {
			codeOf(r.T, "a fetch over the lost rail", err, transport.CodeUnknown)
		}
		if why := <-c.over; why != errNoRail.Error() {
			r.Errorf("the hold says %q", why)
		}
		d := r.caller(2)
		d.open()
		r.net.SetPort(d.machine, "sim0:1", false)
		r.net.SetPort(d.machine, "sim1:1", false)
		d.hold()
		if why := <-d.over; why != errNoRail.Error() {
			r.Errorf("the hold says %q", why)
		}
	})
}

// TestClose closes a Transport under load: no source is in use behind it.
func TestClose(t *testing.T) {
	for moment := range 6 {
		serveOver(t, 1, Options{}, slow, func(r *rig) {
			c := r.caller(1).up()
			l := &lender{T: r.T}
			r.on(r.lending(l, 1<<20, 1<<20, 1<<20))
			_, err := c.fetch(c.ask(0, 0, 1<<20, 1<<20, 1<<20, 1<<20))
			r.must(err)
			time.Sleep(time.Duration(moment) * 15 * time.Millisecond)
			r.must(r.t.Close())
			l.back()
			c.link.Close()
		})
	}
}

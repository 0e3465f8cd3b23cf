package rdma

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

func one(b []byte) [][]byte { return [][]byte{b} }

// heap is a destination that is not registered.
func heap(nBytes int) [][]byte { return one(make([]byte, nBytes)) }

// TestArrives: blocks come straight and by way of landing memory, in batches, in any order.
func TestArrives(t *testing.T) {
	script(t, 2, nil, func(d *duo) {
		s := d.up()
		mem := d.mapped(1 << 20)
		f := d.fetch(one(mem[:300_000]), heap(600_000), [][]byte{mem[400_000:400_001], nil, mem[500_000:600_000]}, heap(0), heap(5))
		c := <-d.peer.fetched
		if string(c.fetch.body) != "which" || c.fetch.kind != 0x21 || c.fetch.request != 1 || c.fetch.oldest != 1 {
			d.Errorf("asked for %+v", c.fetch)
		}
		by := map[uint8][]int{}
		for i := range c.fetch.blocks {
			by[c.fetch.blocks[i].rail] = append(by[c.fetch.blocks[i].rail], i)
		}
		if len(by) != 2 {
			d.Errorf("blocks are spread as %v", by)
		}
		f.running()
		s.send(c, by[1]...)
		f.running()
		for i, j := 0, len(by[0])-1; i < j; i, j = i+1, j-1 {
			by[0][i], by[0][j] = by[0][j], by[0][i]
		}
		s.send(c, by[0]...)
		f.running() // the answer has not come
		c.done("fine")
		f.over(transport.Done)
		if f.err != nil || string(f.answer) != "fine" || len(f.arrived) != 5 {
			d.Errorf("%q, %v, arrived %v", f.answer, f.err, f.arrived)
		}
		for i := range f.f.Blocks {
			f.isFull(c, i)
		}
		if mem[399_999] != 0 || mem[400_001] != 0 {
			d.Error("memory around a block was written to")
		}
		w := d.caller.Way(helloOf(2).Node)
		if w.Name != "rdma" || w.Ports != 2 || w.Blocks != 5 || w.Bytes != 300_000+600_000+100_001+5 || w.Connects != 1 || w.Failures+w.Fallbacks+w.Destroyed != 0 {
			d.Errorf("%+v", w)
		}
	})
}

// TestAnswerFirst: the handler's answer may come before the blocks; misses are records.
func TestAnswerFirst(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		f := d.fetch(heap(1000), heap(1000), heap(1000))
		c := <-d.peer.fetched
		c.done("first")
		f.running()
		s.want(s.post(s.pairs[0], s.records(c, transport.Miss, 2)...))
		s.want(s.post(s.pairs[0], s.records(c, transport.Refused, 0)...))
		f.running()
		s.send(c, 1)
		f.over(transport.Refused, transport.Done, transport.Miss)
		if f.err != nil || string(f.answer) != "first" || len(f.arrived) != 3 {
			d.Errorf("%q, %v, arrived %v", f.answer, f.err, f.arrived)
		}
	})
}

// TestLateByWord: after its context a fetch is Late at once. What is registered is released
// by the peer's word, or by its record; what lands in our own memory at once.
func TestLateByWord(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		mem := d.mapped(1 << 20)
		f := d.fetch(one(mem[:1000]), heap(2000), one(mem[2000:3000]))
		c := <-d.peer.fetched
		f.cancel()
		f.over(transport.Late)
		if !errors.Is(f.err, context.Canceled) {
			d.Error(f.err)
		}
		<-c.given
		fence := <-d.peer.fenced
		if len(fence.fence.requests) != 1 || fence.fence.requests[0] != 1 || fence.fence.oldest != 1 {
			d.Errorf("fenced: %+v", fence.fence)
		}
		if n := f.releases(); n != 1 {
			d.Errorf("%d blocks are released before the word", n)
		}
		s.send(c, 2)
		if n := f.releases(); n != 2 || f.released[1] != 2 {
			d.Errorf("released %v when a record had come", f.released)
		}
		if free := len(d.caller.landing.free); free != 15 {
			d.Errorf("%d pieces of landing memory are free before the word", free)
		}
		s.want(s.marks(fence))
		if n := f.releases(); n != 2 {
			d.Errorf("%d blocks are released by the mark alone", n)
		}
		fence.answer <- scriptedAnswer{}
		if n := f.releases(); n != 3 || len(f.arrived) != 0 {
			d.Errorf("released %v, arrived %v", f.released, f.arrived)
		}
		// The same lines serve again, with other generations.
		again := d.fetch(one(mem[:1000]), heap(2000), one(mem[2000:3000]))
		c2 := <-d.peer.fetched
		if c2.fetch.oldest != 2 || c2.fetch.request != 2 {
			d.Errorf("request %d, oldest %d", c2.fetch.request, c2.fetch.oldest)
		}
		s.send(c2, 0, 1, 2)
		c2.done("")
		again.over(transport.Done)
		if w := d.caller.Way(helloOf(2).Node); w.Fences != 1 || w.Destroyed != 0 {
			d.Errorf("%+v", w)
		}
	})
}

// TestBusy: a fence is an urgent call, which no peer is too busy for: one that says so has
// said nothing, and the queue pairs are destroyed.
func TestBusy(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		d.up()
		f := d.fetch(one(d.mapped(1000)))
		<-d.peer.fetched
		f.cancel()
		c := <-d.peer.fenced
		if f.releases() != 0 {
			d.Error("released without a word")
		}
		c.answer <- scriptedAnswer{err: &transport.RemoteError{Code: transport.CodeBusy}}
		if n, w := f.releases(), d.caller.Way(helloOf(2).Node); n != 1 || w.Destroyed != 1 {
			d.Errorf("released %v, %+v", f.released, w)
		}
	})
}

// TestStale: immediates of blocks that a fence has taken back are known, and the receives
// they took are posted anew.
func TestStale(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		for range 3 * spareReceives {
			f := d.fetch(heap(10))
			c := <-d.peer.fetched
			f.cancel()
			fence := <-d.peer.fenced
			s.word(fence)
			synctest.Wait()
			s.send(c, 0) // this peer's word is worth nothing: here only the immediate matters
			f.over(transport.Late)
		}
		f := d.fetch(heap(1000))
		c := <-d.peer.fetched
		s.send(c, 0)
		c.done("")
		f.over(transport.Done)
		f.isFull(c, 0)
	})
}

// TestLateWithoutWord: no word in time, and the queue pairs are destroyed; then late blocks
// are released, and those of other fetches Lost. Another session follows.
func TestLateWithoutWord(t *testing.T) {
	script(t, 2, nil, func(d *duo) {
		s := d.up()
		mem := d.mapped(1 << 20)
		f, other := d.fetch(one(mem[:1000])), d.fetch(one(mem[2000:3000]), heap(10))
		<-d.peer.fetched
		<-d.peer.fetched
		f.cancel()
		f.over(transport.Late)
		fence := <-d.peer.fenced
		time.Sleep(d.caller.o.FenceTime - time.Millisecond)
		if f.releases() != 0 {
			d.Error("released without a fence")
		}
		other.running()
		time.Sleep(2 * time.Millisecond)
		if f.releases() != 1 {
			d.Error("not released after the fence")
		}
		other.over(transport.Lost)
		if !errors.Is(other.err, transport.ErrLost) || len(other.arrived)+len(other.released) != 0 {
			d.Errorf("%v, arrived %v, released %v", other.err, other.arrived, other.released)
		}
		<-fence.given
		<-s.over // the hold
		w := d.caller.Way(helloOf(2).Node)
		if w.Name != "sim" || w.Why == "" || w.Destroyed != 2 || w.Failures != 1 {
			d.Errorf("%+v", w)
		}
		select {
		case <-d.l.Gone():
			d.Error("the link is gone")
		default:
		}
		plain := d.fetch(heap(10)) // meanwhile
		if got := <-d.peer.plain; got != "which" {
			d.Errorf("asked for %q", got)
		}
		plain.over(transport.Miss)
		s = d.up()
		f = d.fetch(one(mem[:1000]))
		c := <-d.peer.fetched
		s.send(c, 0)
		c.done("")
		f.over(transport.Done)
		if said := d.said(); strings.Count(said, "level=WARN") != 1 || strings.Count(said, "level=INFO") != 2 {
			d.Errorf("said: %s", said)
		}
		if w := d.caller.Way(helloOf(2).Node); w.Fallbacks != 1 || w.Connects != 2 {
			d.Errorf("%+v", w)
		}
	})
}

// failures are ways in which a session ends.
var failures = map[string]func(d *duo, s *scriptedSession){
	"hold answered": func(_ *duo, s *scriptedSession) { s.end <- "a send has failed" },
	"link lost":     func(d *duo, _ *scriptedSession) { d.control.Kill("b") },
	"link closed":   func(d *duo, _ *scriptedSession) { _ = d.l.Close() },
	"device fault":  func(d *duo, _ *scriptedSession) { d.fabric.FailDevice("a", "sim0") },
	"no word":       func(d *duo, _ *scriptedSession) { (<-d.peer.fenced).answer <- scriptedAnswer{err: errors.New("no")} },
	"another mark": func(d *duo, s *scriptedSession) {
		c := <-d.peer.fenced
		c.fence.mark++
		_ = s.marks(c) // the caller has destroyed its end, before it acknowledged or after
	},
	"a mark twice": func(d *duo, s *scriptedSession) {
		c := <-d.peer.fenced
		s.want(s.marks(c))
		_ = s.marks(c)
	},
	"no mark": func(d *duo, _ *scriptedSession) {
		(<-d.peer.fenced).answer <- scriptedAnswer{}
		synctest.Wait()
		time.Sleep(d.caller.o.FenceTime)
	},
}

// TestFails: whatever ends a session, blocks are Lost, and late ones released, behind the
// destruction of the queue pairs.
func TestFails(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			script(t, 2, nil, func(d *duo) {
				s := d.up()
				mem := d.mapped(1 << 20)
				late, f := d.fetch(one(mem[:1000]), heap(10)), d.fetch(one(mem[2000:3000]), heap(10), one(mem[4000:5000]))
				c := <-d.peer.fetched
				if c2 := <-d.peer.fetched; len(c2.fetch.blocks) == 3 {
					c = c2
				}
				s.send(c, 0)
				late.cancel()
				late.over(transport.Late)
				f.running()
				fail(d, s)
				f.over(transport.Done, transport.Lost)
				if !errors.Is(f.err, transport.ErrLost) {
					d.Error(f.err)
				}
				if late.releases() != 2 {
					d.Errorf("released: %v", late.released)
				}
				if n := d.fabric.Counts().Destroyed; n != 2 {
					d.Errorf("%d queue pairs are destroyed", n)
				}
				s.destroy()
			})
		})
	}
}

// TestRefused: after an error of the handler nothing more comes.
func TestRefused(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		mem := d.mapped(1 << 20)
		f := d.fetch(one(mem[:1000]), one(mem[2000:3000]), heap(100))
		c := <-d.peer.fetched
		s.send(c, 1)
		c.fail(transport.CodeFloor)
		f.running()
		s.word(<-d.peer.fenced)
		f.over(transport.Refused, transport.Done, transport.Refused)
		if remote, ok := errors.AsType[*transport.RemoteError](f.err); !ok || remote.Code != transport.CodeFloor || len(f.arrived) != 3 {
			d.Errorf("%v, arrived %v", f.err, f.arrived)
		}
		f = d.fetch(heap(1000))
		c = <-d.peer.fetched
		c.answer <- scriptedAnswer{err: &transport.RemoteError{Code: transport.CodeBusy}}
		s.word(<-d.peer.fenced)
		f.over(transport.Refused)
		if remote, ok := errors.AsType[*transport.RemoteError](f.err); !ok || remote.Code != transport.CodeBusy {
			d.Error(f.err)
		}
	})
}

// TestForgotten: a peer that does not know the session any more has not begun the fetch: it
// goes by the control.
func TestForgotten(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		d.up()
		f := d.fetch(heap(1000), one(d.mapped(1000)))
		c := <-d.peer.fetched
		c.answer <- scriptedAnswer{err: &transport.RemoteError{Code: transport.CodeUnknown}}
		<-d.peer.plain
		f.over(transport.Miss)
		if f.err != nil || string(f.answer) != "plain" || len(f.arrived) != 2 {
			d.Errorf("%q, %v, arrived %v", f.answer, f.err, f.arrived)
		}
	})
}

// TestFencedOnce: a fetch that is refused, and then late, is fenced and counted once.
func TestFencedOnce(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		mem := d.mapped(1 << 20)
		first := d.fetch(one(mem[:1000]))
		<-d.peer.fetched
		first.cancel()
		busy := <-d.peer.fenced // the fencer is
		f := d.fetch(one(mem[1000:2000]))
		c := <-d.peer.fetched
		c.fail(transport.CodeInternal)
		f.running()
		f.cancel()
		f.over(transport.Late)
		s.word(busy)
		next := <-d.peer.fenced
		if got := next.fence.requests; len(got) != 1 || got[0] != 2 {
			d.Errorf("%v are fenced", got)
		}
		s.word(next)
		if n := f.releases() + first.releases(); n != 2 {
			d.Errorf("%d blocks are released", n)
		}
		if w := d.caller.Way(helloOf(2).Node); w.Fences != 2 || w.Destroyed != 0 {
			d.Errorf("%+v", w)
		}
	})
}

// TestForgottenLate: a fetch that was to go by the control when its context ended is Late.
func TestForgottenLate(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		d.up()
		released := 0
		f := &transport.Fetching{Blocks: []transport.Block{{Dst: heap(10)}, {Dst: one(d.mapped(10))}}, Released: func(int) { released++ }}
		s := d.l.session.Load()
		r, err := d.l.place(d.Context(), s, nil, f)
		must(d, err)
		m := fetchRequest{blocks: make([]wantedBlock, len(r.blocks))}
		if !r.enter(&m) {
			d.Fatal("the session has failed")
		}
		s.running.Done()
		r.withdraw()
		s.fail(errClosed)
		synctest.Wait()
		if r.fate != withdrawn {
			d.Fatalf("its fate is %d", r.fate)
		}
		r.giveUp() // as when both come at once
		r.leave()
		for i := range f.Blocks {
			if f.Blocks[i].Status != transport.Late {
				d.Errorf("block %d has status %d", i, f.Blocks[i].Status)
			}
		}
		if released != len(f.Blocks) {
			d.Errorf("%d blocks are released", released)
		}
	})
}

// TestForgottenStuck: a fetch that the peer does not know, or not any more, does not go by the
// control while a device may still write to its memory.
func TestForgottenStuck(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		d.up()
		f := d.fetch(heap(1000), one(d.mapped(1000)))
		c := <-d.peer.fetched
		d.fabric.SetDestroyFails("a", true)
		c.answer <- scriptedAnswer{err: &transport.RemoteError{Code: transport.CodeUnknown}}
		f.over(transport.Lost, transport.Late)
		if !errors.Is(f.err, transport.ErrLost) || len(f.released) != 0 || len(d.peer.plain) != 0 {
			d.Errorf("%v, released %v, %d fetches by the control", f.err, f.released, len(d.peer.plain))
		}
		if free := len(d.caller.landing.free); free != 15 {
			d.Errorf("%d pieces of landing memory are free", free)
		}
		must(d, d.l.Close())
		must(d, d.caller.Close())
		d.fabric.Kill("a") // or its goroutines stay
	})
}

// TestFaulted: a destination that its owner takes away costs its own block.
func TestFaulted(t *testing.T) {
	fd, err := unix.MemfdCreate("gone", unix.MFD_CLOEXEC)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Ftruncate(fd, 1<<20))
	gone, err := unix.Mmap(fd, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	defer func() { must(t, unix.Munmap(gone)) }()
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		f := d.fetch(heap(1000), one(gone), heap(300_000))
		c := <-d.peer.fetched
		must(d, unix.Ftruncate(fd, 4096))
		s.send(c, 0, 1, 2)
		c.done("")
		f.over(transport.Done, transport.Faulted, transport.Done)
		if f.err != nil || len(f.arrived) != 3 {
			d.Errorf("%v, arrived %v", f.err, f.arrived)
		}
		f.isFull(c, 0)
		f.isFull(c, 2)
	})
}

// TestClosedBeforeCopied: Close lets nobody touch a destination any more, though its block
// has come.
func TestClosedBeforeCopied(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		f := d.fetch(heap(1000), heap(1000))
		f.onArrive = func(int) { _ = d.l.Close() }
		c := <-d.peer.fetched
		s.send(c, 1, 0) // a batch is told from its end
		c.done("")
		f.over(transport.Done, transport.Lost)
		if !errors.Is(f.err, transport.ErrLost) || len(f.arrived) != 1 || f.f.Blocks[1].Dst[0][0] != 0 {
			d.Errorf("%v, arrived %v", f.err, f.arrived)
		}
	})
}

// TestLostBeforeCopied: nor does the Close of a transport, of whose links one was lost before.
func TestLostBeforeCopied(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		f := d.fetch(heap(1000), heap(1000))
		f.onArrive = func(int) {
			d.control.Kill("b")
			<-d.l.Gone()
			<-d.l.done
			must(d, d.caller.Close())
			if d.caller.landing.array.Slice() == nil {
				d.Error("landing memory is unmapped while a fetch has some")
			}
		}
		c := <-d.peer.fetched
		s.send(c, 1, 0) // a batch is told from its end
		f.over(transport.Done, transport.Lost)
		if d.caller.landing.array.Slice() != nil || strings.Contains(d.said(), "ERROR") {
			d.Errorf("landing memory stays mapped, said: %s", d.said())
		}
		if !errors.Is(f.err, transport.ErrLost) || len(f.arrived) != 1 || f.f.Blocks[1].Dst[0][0] != 0 {
			d.Errorf("%v, arrived %v", f.err, f.arrived)
		}
	})
}

// TestHostile: records and immediates that break the protocol end the session, and nothing
// else.
func TestHostile(t *testing.T) {
	type spoil func(s *scriptedSession, c *scriptedCall) []fabric.Write
	records := func(edit func(m *record)) spoil {
		return func(s *scriptedSession, c *scriptedCall) []fabric.Write {
			list := s.records(c, transport.Done, 0)
			w := &c.fetch.blocks[0]
			m := record{request: c.fetch.request, block: 0, generation: w.generation, status: transport.Done, before: noLine, bytes: w.size}
			edit(&m)
			list[0].Inline = m.append(nil)
			return list
		}
	}
	raw := func(at int, to byte) spoil {
		return func(s *scriptedSession, c *scriptedCall) []fabric.Write {
			list := s.records(c, transport.Done, 0)
			list[0].Inline[at] = to
			return list
		}
	}
	for name, spoil := range map[string]spoil{
		"request":         records(func(m *record) { m.request++ }),
		"block":           records(func(m *record) { m.block = 1 }),
		"no block":        records(func(m *record) { m.block = 1 << 31 }),
		"generation":      records(func(m *record) { m.generation++ }),
		"size":            records(func(m *record) { m.bytes++ }),
		"status 0":        raw(24, 0),
		"status 9":        raw(24, 9),
		"zero":            raw(25, 1),
		"line":            records(func(m *record) { m.before = 4095 }),
		"end of lines":    records(func(m *record) { m.before = 4000 }),
		"circle":          func(s *scriptedSession, c *scriptedCall) []fabric.Write { return circle(s, c) },
		"free line":       records(func(m *record) { m.before = 7 }),
		"another request": records(func(m *record) { m.before = 1 }),
		"nothing there": func(s *scriptedSession, c *scriptedCall) []fabric.Write {
			w := &c.fetch.blocks[0]
			return []fabric.Write{{Notify: true, Immediate: immediateOf(w.line, w.generation)}}
		},
		"no such line": func(*scriptedSession, *scriptedCall) []fabric.Write {
			return []fabric.Write{{Notify: true, Immediate: immediateOf(4094, 1)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			few := func(o *Options, _ *scripted) { o.Fabric = fewReceives{o.Fabric} }
			script(t, 1, few, func(d *duo) {
				s := d.up()
				f := d.fetch(heap(1000), heap(1000))
				c := <-d.peer.fetched
				other := d.fetch(heap(1000))
				<-d.peer.fetched
				s.post(s.pairs[0], spoil(s, c)...)
				other.over(transport.Lost)
				synctest.Wait()
				f.cancel()
				synctest.Wait()
				if name != "circle" && (!errors.Is(f.err, transport.ErrLost) || f.f.Blocks[1].Status != transport.Lost) {
					d.Errorf("%v, status %d", f.err, f.f.Blocks[1].Status)
				}
				if w := d.caller.Way(helloOf(2).Node); w.Failures != 1 || !strings.Contains(w.Why, errMalformed.Error()) {
					d.Errorf("%+v", w)
				}
			})
		})
	}
}

// circle makes a batch that never ends.
func circle(s *scriptedSession, c *scriptedCall) []fabric.Write {
	list := s.records(c, transport.Done, 0, 1)
	for i := range 2 {
		w := &c.fetch.blocks[i]
		m := record{request: c.fetch.request, block: uint32(i), generation: w.generation, status: transport.Done, before: c.fetch.blocks[1-i].line, bytes: w.size}
		list[i].Inline = m.append(nil)
	}
	return list
}

// fewReceives is a fabric whose queue pairs take few, so that tables have few lines.
type fewReceives struct{ fabric.Fabric }

func (f fewReceives) Ports() ([]fabric.Port, error) {
	ports, err := f.Fabric.Ports()
	for i := range ports {
		ports[i].Limits.ReceivesMax = spareReceives + linesMin
	}
	return ports, err
}

// TestNever: a peer without RDMA is asked once.
func TestNever(t *testing.T) {
	asked := 0
	refuse := func(_ *Options, p *scripted) {
		p.open = func(*openRequest) error { asked++; return &transport.RemoteError{Code: transport.CodeUnknown} }
	}
	script(t, 1, refuse, func(d *duo) {
		synctest.Wait()
		time.Sleep(time.Hour)
		f := d.fetch(heap(10))
		<-d.peer.plain
		f.over(transport.Miss)
		w := d.caller.Way(helloOf(2).Node)
		if asked != 1 || w.Name != "sim" || w.Why == "" || w.Fallbacks != 0 || strings.Count(d.said(), "level=") != 1 || !strings.Contains(d.said(), "level=INFO") {
			d.Errorf("asked %d times, %+v, said: %s", asked, w, d.said())
		}
	})
}

// TestBackOff: a peer that refuses is asked again, ever more seldom, and that is said once.
func TestBackOff(t *testing.T) {
	asked := 0
	refuse := func(_ *Options, p *scripted) {
		p.open = func(*openRequest) error {
			if asked++; asked < 12 {
				return &transport.RemoteError{Code: transport.CodeBusy, Text: "full"}
			}
			return nil
		}
	}
	script(t, 1, refuse, func(d *duo) {
		time.Sleep(10 * time.Minute)
		if d.up(); asked != 12 || strings.Count(d.said(), "WARN") != 1 || strings.Count(d.said(), "INFO") != 1 {
			d.Errorf("asked %d times, said: %s", asked, d.said())
		}
	})
}

// TestComesAndGoes: sessions that end after they have brought a block are followed by another
// after the shortest pause, and the log is told once a minute; sessions that bring nothing are
// followed ever more seldom.
func TestComesAndGoes(t *testing.T) {
	for _, brings := range []bool{true, false} {
		script(t, 1, nil, func(d *duo) {
			began := time.Now()
			for range 20 {
				s := d.up()
				if brings {
					f := d.fetch(heap(10))
					c := <-d.peer.fetched
					s.send(c, 0)
					c.done("")
					f.over(transport.Done)
				}
				s.end <- "again"
			}
			s := d.up()
			took := time.Since(began)
			warned, minutes := strings.Count(d.said(), "WARN"), int(took/time.Minute)
			if brings && took > 20*d.caller.o.PauseMin || !brings && took < 5*time.Minute || warned > minutes+1 {
				d.Errorf("brings %v: 20 sessions took %v, warned %d times", brings, took, warned)
			}
			s.end <- "for good"
			d.fabric.Cut("b", "a")
			time.Sleep(5 * time.Minute)
			if said := d.said(); strings.LastIndex(said, "WARN") < strings.LastIndex(said, "INFO") {
				d.Errorf("the last word of a peer that is down is that it is up: %s", said)
			}
		})
	}
}

// TestSilentRail: a rail over which nothing comes is left out, and the session is without it.
func TestSilentRail(t *testing.T) {
	script(t, 2, nil, func(d *duo) {
		s := d.up()
		s.end <- "again"
		d.fabric.Cut("b", "a")
		synctest.Wait()
		time.Sleep(3 * time.Second) // no probe comes: no session
		if w := d.caller.Way(helloOf(2).Node); w.Name != "sim" || !strings.Contains(w.Why, "nothing comes") {
			d.Errorf("%+v", w)
		}
		d.fabric.Heal("b", "a")
		d.fabric.SetPort("b", "sim1:1", false)
		for range 1000 {
			if time.Sleep(time.Second); d.l.session.Load() != noSession {
				break
			}
		}
		if w := d.caller.Way(helloOf(2).Node); w.Name != "rdma" || w.Ports != 1 {
			d.Errorf("%+v", w)
		}
	})
}

// TestPlain: an operator's word, and what does not fit, go by the control.
func TestPlain(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		d.caller.PlainFor(time.Minute)
		f := d.fetch(heap(10))
		<-d.peer.plain
		f.over(transport.Miss)
		if w := d.caller.Way(helloOf(2).Node); w.Name != "sim" || w.Fallbacks != 0 || !strings.Contains(w.Why, "1m0s") {
			d.Errorf("%+v", w)
		}
		time.Sleep(time.Minute)
		f = d.fetch(heap(10))
		c := <-d.peer.fetched
		s.send(c, 0)
		c.done("")
		f.over(transport.Done)
		d.caller.PlainFor(math.MaxInt64)
		time.Sleep(365 * 24 * time.Hour)
		if w := d.caller.Way(helloOf(2).Node); w.Name != "sim" || w.Why != "an operator has asked for it" {
			d.Errorf("for good: %+v", w)
		}
		d.caller.PlainFor(0)
		for _, dst := range [][][][]byte{{heap(5 << 20)}, {heap(4<<20 - 100), heap(101)}, make([][][]byte, 5000)} {
			f = d.fetch(dst...)
			<-d.peer.plain
			f.over(transport.Miss)
		}
		full := d.fetch(heap(4 << 20))
		<-d.peer.fetched
		f = d.fetch(heap(1)) // no landing memory is free
		<-d.peer.plain
		f.over(transport.Miss)
		full.cancel()
		s.word(<-d.peer.fenced)
		full.over(transport.Late)
		if w := d.caller.Way(helloOf(2).Node); w.Fallbacks != 4 {
			d.Errorf("%+v", w)
		}
		if _, err := d.l.Fetch(d.Context(), 0x21, nil, &transport.Fetching{}); err != nil {
			d.Error(err)
		}
		<-d.peer.plain
	})
}

// TestLandingWaits: a fetch waits a moment for landing memory that others are about to give
// back, in the order in which they came; then it goes by the control.
func TestLandingWaits(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		way := func() transport.Way { return d.caller.Way(helloOf(2).Node) }
		full := d.fetch(heap(4 << 20))
		c := <-d.peer.fetched
		first := d.fetch(heap(3<<20), one(d.mapped(1000)))
		first.running()
		second := d.fetch(heap(2 << 20)) // there is no room for both
		second.running()
		time.Sleep(landingTime / 2)
		s.send(c, 0)
		c.done("")
		full.over(transport.Done)
		for _, f := range []*fetching{first, second} {
			c = <-d.peer.fetched
			if n := len(c.fetch.blocks); n != len(f.f.Blocks) {
				d.Fatalf("a fetch of %d blocks, want the one of %d", n, len(f.f.Blocks))
			}
			for i := range c.fetch.blocks {
				s.send(c, i)
			}
			c.done("")
			f.over(transport.Done)
			f.isFull(c, 0)
		}
		if w := way(); w.Fallbacks != 0 {
			d.Errorf("%+v", w)
		}

		full = d.fetch(heap(4 << 20)) // and does not end
		<-d.peer.fetched
		began := time.Now()
		waits := d.fetch(heap(1000), one(d.mapped(1000)))
		<-d.peer.plain
		if took := time.Since(began); took != landingTime || way().Fallbacks != 1 {
			d.Errorf("a fetch has waited for %v, %+v", took, way())
		}
		waits.over(transport.Miss)
		began = time.Now()
		ctx, cancel := context.WithTimeout(d.Context(), 8*time.Millisecond)
		defer cancel()
		_, err := d.l.Fetch(ctx, 0x21, nil, &transport.Fetching{Blocks: []transport.Block{{Dst: heap(1000)}}})
		<-d.peer.plain
		if took := time.Since(began); err != nil || took < time.Millisecond || took > 2*time.Millisecond {
			d.Errorf("a fetch with little time has taken %v, %v", took, err)
		}
		waits = d.fetch(heap(1000))
		waits.running()
		waits.cancel()
		waits.over(transport.Late)
		if waits.releases() != 1 {
			d.Errorf("released %v", waits.released)
		}
		full.cancel()
		s.word(<-d.peer.fenced)
		full.over(transport.Late)
	})
}

// TestBound: bytes in flight are bounded; who waits for them is Late at its end.
func TestBound(t *testing.T) {
	script(t, 1, func(o *Options, _ *scripted) { o.InFlight = 1000 }, func(d *duo) {
		s := d.up()
		f, waits, gives := d.fetch(heap(600)), (*fetching)(nil), (*fetching)(nil)
		c := <-d.peer.fetched
		gives = d.fetch(heap(500))
		synctest.Wait()
		waits = d.fetch(heap(1000))
		gives.running()
		gives.cancel()
		gives.over(transport.Late)
		if gives.releases() != 1 {
			d.Error("a block that was never asked for is not released")
		}
		waits.running()
		s.send(c, 0)
		c.done("")
		f.over(transport.Done)
		c = <-d.peer.fetched
		s.send(c, 0)
		c.done("")
		waits.over(transport.Done)
	})
}

// TestDestroyFails: what a device may still write to is never given back, and nobody hangs.
func TestDestroyFails(t *testing.T) {
	script(t, 1, nil, func(d *duo) {
		s := d.up()
		mem := d.mapped(1 << 20)
		late, f := d.fetch(one(mem[:1000]), heap(10)), d.fetch(one(mem[2000:3000]), heap(10))
		<-d.peer.fetched
		<-d.peer.fetched
		late.cancel()
		late.over(transport.Late)
		d.fabric.SetDestroyFails("a", true)
		s.end <- "broken"
		f.over(transport.Late, transport.Lost)
		if !errors.Is(f.err, transport.ErrLost) || len(f.released) != 0 {
			d.Errorf("%v, released %v", f.err, f.released)
		}
		if late.releases() != 1 {
			d.Errorf("released: %v", late.released)
		}
		if !strings.Contains(d.said(), "level=ERROR") || !d.caller.ports[0].broken.Load() {
			d.Errorf("said: %s", d.said())
		}
		time.Sleep(10 * time.Minute)
		if w := d.caller.Way(helloOf(2).Node); w.Name != "sim" {
			d.Errorf("%+v", w)
		}
		must(d, d.l.Close())
		must(d, d.caller.Close())
		d.fabric.Kill("a") // or its goroutines stay
	})
}

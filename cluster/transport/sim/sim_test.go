package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

const (
	kindEcho transport.Kind = 1 + iota
	kindWait                // until the context ends
	kindFail
)

// echo serves what tests ask for.
type echo struct {
	served  atomic.Int32
	ended   atomic.Int32 // contexts of kindWait
	got     atomic.Int32 // blocks of pushes that came whole
	content []byte
}

func (e *echo) Hello(h transport.Hello) error {
	if h.Name == "unwanted" {
		return errors.New("go away")
	}
	return nil
}

func (e *echo) Call(ctx context.Context, _ transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	e.served.Add(1)
	switch kind {
	case kindWait:
		<-ctx.Done()
		e.ended.Add(1)
		return nil, ctx.Err()
	case kindFail:
		return nil, fmt.Errorf("wrapped: %w", &transport.RemoteError{Code: transport.CodeBehind, Text: "behind"})
	}
	return append([]byte("re: "), body...), nil
}

func (e *echo) Fetch(_ context.Context, _ transport.Hello, _ transport.Kind, _ []byte, n int, r transport.Reply) ([]byte, error) {
	var sending sync.WaitGroup
	for i := range n - 1 {
		sending.Add(1)
		r.Block(i, [][]byte{e.content[:5], e.content[5:]}, uint64(i), sending.Done)
	}
	r.None(n-1, transport.Miss)
	sending.Wait()
	return []byte("fetched"), nil
}

func (e *echo) Push(_ context.Context, _ transport.Hello, _ transport.Kind, _ []byte, in transport.Incoming) ([]byte, error) {
	for i := range in.Blocks() {
		dst := make([]byte, in.BlockBytes(i))
		if err := in.Receive([][]byte{dst[:3], dst[3:]}); err != nil {
			return nil, err
		}
		if bytes.Equal(dst, e.content) {
			e.got.Add(1)
		}
	}
	return []byte("pushed"), nil
}

// rig is two nodes, of which b serves.
type rig struct {
	t    *testing.T
	net  *Network
	a, b *Node
	h    *echo
	done sync.WaitGroup
}

var config = Config{Seed: 1, Shape: Shape{DelayMin: time.Millisecond, DelayMax: 3 * time.Millisecond}, SilenceMax: 5 * time.Second}

func hello(name string) transport.Hello {
	return transport.Hello{PoolID: "p", Name: name, ProtocolLow: 1, ProtocolHigh: 3}
}

// inBubble runs a test with two nodes, and closes all behind it.
func inBubble(t *testing.T, test func(r *rig, l transport.Link)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, net: New(config), h: &echo{content: []byte("0123456789")}}
		r.a, _ = r.net.Node("a")
		r.b, _ = r.net.Node("b")
		r.serve(r.b)
		defer func() {
			r.net.HealAll()
			for _, d := range r.net.nodes {
				_ = d.Close()
			}
			r.net.Close()
			r.done.Wait()
		}()
		l, err := r.a.Dial(t.Context(), "b", hello("a"))
		if err != nil {
			t.Fatal(err)
		}
		test(r, l)
	})
}

func (r *rig) serve(d *Node) {
	h := hello(d.address)
	h.ProtocolHigh = 2
	r.done.Go(func() { _ = d.Serve(h, r.h) })
}

func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	r.t.Cleanup(cancel)
	return ctx
}

func TestCall(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		if l.Version() != 2 || l.Peer().Name != "b" {
			t.Errorf("version %d of %q", l.Version(), l.Peer().Name)
		}
		began := time.Now()
		out, err := l.Call(r.t.Context(), kindEcho, []byte("x"))
		if took := time.Since(began); string(out) != "re: x" || err != nil || took < 2*time.Millisecond || took > 6*time.Millisecond {
			t.Errorf("%q, %v, after %v", out, err, took)
		}
		_, err = l.Call(r.t.Context(), kindFail, nil)
		if re, ok := errors.AsType[*transport.RemoteError](err); !ok || re.Code != transport.CodeBehind {
			t.Errorf("error %v", err)
		}
		if _, err = l.Call(r.within(time.Second), kindWait, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call past its deadline: %v", err)
		}
		time.Sleep(3 * time.Millisecond)
		synctest.Wait()
		if r.h.ended.Load() != 1 {
			t.Error("the handler did not hear that its caller is gone")
		}
	})
}

func TestDial(t *testing.T) {
	inBubble(t, func(r *rig, _ transport.Link) {
		foreign, old, unwanted := hello("a"), hello("a"), hello("unwanted")
		foreign.PoolID, old.ProtocolLow = "q", 3
		for _, c := range []struct {
			h    transport.Hello
			to   string
			want error
		}{{foreign, "b", transport.ErrForeign}, {old, "b", transport.ErrVersion}, {hello("a"), "nowhere", transport.ErrLost}} {
			if _, err := r.a.Dial(r.t.Context(), c.to, c.h); !errors.Is(err, c.want) {
				t.Errorf("dial %s as %+v: %v", c.to, c.h, err)
			}
		}
		_, err := r.a.Dial(r.t.Context(), "b", unwanted)
		if re, ok := errors.AsType[*transport.RemoteError](err); !ok || re.Code != transport.CodeDenied || re.Text != "go away" {
			t.Errorf("an unwanted peer: %v", err)
		}
		if _, err := r.net.Node("b"); err == nil {
			t.Error("two nodes at one address")
		}
		r.net.Cut("b", "a")
		if _, err := r.a.Dial(r.within(time.Second), "b", hello("a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial over a cut: %v", err)
		}
	})
}

// fetch fetches n blocks, of which the last is missed, and returns their statuses.
func (r *rig) fetch(ctx context.Context, l transport.Link, n int) (f *transport.Fetching, released *sync.WaitGroup, err error) {
	released = &sync.WaitGroup{}
	arrived := make([]int, n)
	f = &transport.Fetching{Blocks: make([]transport.Block, n), Released: func(i int) { released.Done() }, Arrived: func(i int) { arrived[i]++ }}
	released.Add(n)
	for i := range f.Blocks {
		f.Blocks[i].Dst = [][]byte{make([]byte, 2), make([]byte, 8)}
	}
	_, err = l.Fetch(ctx, kindEcho, nil, f)
	for i, b := range f.Blocks {
		told := 1
		if b.Status == transport.Late || b.Status == transport.Lost {
			told = 0
		}
		if arrived[i] != told {
			r.t.Errorf("block %d of status %d was told %d times", i, b.Status, arrived[i])
		}
		if b.Status != transport.Late {
			released.Done()
		}
	}
	return f, released, err
}

func TestFetch(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		f, released, err := r.fetch(r.t.Context(), l, 3)
		released.Wait()
		for i, want := range []transport.Status{transport.Done, transport.Done, transport.Miss} {
			b := f.Blocks[i]
			if b.Status != want || want == transport.Done && (b.Checksum != uint64(i) || !bytes.Equal(slices.Concat(b.Dst...), r.h.content)) {
				t.Errorf("block %d: %+v", i, b)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// TestFetchLate: a deadline answers at once; what comes later comes before the release.
func TestFetchLate(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		whole := 0
		for range 40 {
			began := time.Now()
			f, released, err := r.fetch(r.within(4*time.Millisecond), l, 3)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 4*time.Millisecond {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			released.Wait()
			for i := range f.Blocks[:2] {
				b := &f.Blocks[i]
				got := slices.Concat(b.Dst...)
				if b.Status == transport.Late && bytes.Equal(got, r.h.content) {
					whole++
				}
				clear(b.Dst[0])
				clear(b.Dst[1])
			}
			time.Sleep(time.Second)
			for i := range f.Blocks[:2] {
				if got := slices.Concat(f.Blocks[i].Dst...); len(bytes.Trim(got, "\x00")) > 0 {
					t.Fatal("written after the answer or the release")
				}
			}
		}
		if whole == 0 || whole == 80 {
			t.Errorf("%d of 80 blocks came whole after the deadline", whole)
		}
	})
}

func TestPush(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		out, err := l.Push(r.t.Context(), kindEcho, nil, [][][]byte{{r.h.content}, {r.h.content[:1], r.h.content[1:]}})
		if string(out) != "pushed" || err != nil || r.h.got.Load() != 2 {
			t.Errorf("%q, %v, %d whole", out, err, r.h.got.Load())
		}
		for range 40 { // given up on the way: some arrive, none is torn
			src := slices.Clone(r.h.content)
			_, err = l.Push(r.within(5*time.Millisecond), kindEcho, nil, [][][]byte{{src}, {src}, {src}})
			clear(src)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n := r.h.got.Load(); n <= 2 || n == 122 {
			t.Errorf("%d blocks of 122 arrived", n)
		}
	})
}

// TestGates: what is held arrives when the way is free, and too long a silence ends a
// link on the side that has something to say.
func TestGates(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		for name, gate := range map[string][2]func(){
			"there": {func() { r.net.Cut("a", "b") }, func() { r.net.Heal("a", "b") }},
			"back":  {func() { r.net.Cut("b", "a") }, func() { r.net.Heal("b", "a") }},
			"ice":   {func() { r.net.Freeze("b") }, func() { r.net.Thaw("b") }},
		} {
			served := r.h.served.Load()
			gate[0]()
			if _, err := l.Call(r.within(time.Second), kindEcho, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if n := r.h.served.Load() - served; (n == 1) != (name == "back") {
				t.Errorf("%s: %d served meanwhile", name, n)
			}
			gate[1]()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if n := r.h.served.Load() - served; n != 1 {
				t.Errorf("%s: %d served in the end", name, n)
			}
			if _, err := l.Call(r.within(time.Second), kindEcho, nil); err != nil {
				t.Errorf("%s, healed: %v", name, err)
			}
		}
		r.net.Freeze("b")
		if _, err := l.Call(r.within(time.Minute), kindEcho, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stopped process: %v", err)
		}
		r.net.Thaw("b")
		r.net.Cut("a", "b")
		began := time.Now()
		if _, err := l.Call(r.t.Context(), kindEcho, nil); !errors.Is(err, transport.ErrLost) || time.Since(began) > 6*time.Second {
			t.Errorf("a long cut: %v after %v", err, time.Since(began))
		}
		<-l.Gone()
	})
}

func TestDeath(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		go func() { time.Sleep(time.Second); r.net.Kill("b") }()
		if _, err := l.Call(r.t.Context(), kindWait, nil); !errors.Is(err, transport.ErrLost) {
			t.Errorf("a killed process: %v", err)
		}
		if r.h.ended.Load() != 1 {
			t.Error("the dead node's handler goes on")
		}
		if _, err := r.a.Dial(r.t.Context(), "b", hello("a")); !errors.Is(err, transport.ErrLost) {
			t.Errorf("dial of the dead: %v", err)
		}
		_ = r.b.Close()
		b, err := r.net.Node("b")
		if err != nil {
			t.Fatal(err)
		}
		r.serve(b)
		l, err = r.a.Dial(r.t.Context(), "b", hello("a"))
		if err != nil {
			t.Fatal(err)
		}
		r.net.Vanish("b")
		if _, err := l.Call(r.within(time.Second), kindEcho, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a machine without power: %v", err)
		}
		_ = b.Close()
		if b, err = r.net.Node("b"); err != nil {
			t.Fatal(err)
		}
		r.serve(b)
		if _, err := l.Call(r.t.Context(), kindEcho, nil); !errors.Is(err, transport.ErrLost) {
			t.Errorf("an old link to a new process: %v", err)
		}
	})
}

func TestPayload(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		r.net.SetPayload(Payload{Damaged: 1})
		f, released, err := r.fetch(r.t.Context(), l, 2)
		released.Wait()
		if got := slices.Concat(f.Blocks[0].Dst...); err != nil || f.Blocks[0].Status != transport.Done || bytes.Equal(got, r.h.content) {
			t.Errorf("not damaged: %v, %q", err, got)
		}
		if _, err := l.Push(r.t.Context(), kindEcho, nil, [][][]byte{{r.h.content}}); err != nil || r.h.got.Load() != 0 {
			t.Errorf("a push is not damaged: %v", err)
		}
		r.net.SetPayload(Payload{Truncated: 1})
		f, released, err = r.fetch(r.t.Context(), l, 2)
		released.Wait()
		if !errors.Is(err, transport.ErrLost) || f.Blocks[0].Status != transport.Lost {
			t.Errorf("not truncated: %v, %+v", err, f.Blocks)
		}
		c := r.net.Counts()
		if c.Damaged != 2 || c.Truncated != 1 || c.Dials != 1 || c.Blocks != 2 || c.BlockBytes != 20 {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestBandwidth: bytes queue on their way, and a node's bytes in flight are bounded.
func TestBandwidth(t *testing.T) {
	inBubble(t, func(r *rig, l transport.Link) {
		r.net.SetShape("b", Shape{BytesPerSecond: 10})
		began := time.Now()
		_, released, err := r.fetch(r.t.Context(), l, 4)
		released.Wait()
		if took := time.Since(began); err != nil || took < 3*time.Second || took > 4*time.Second {
			t.Errorf("30 bytes at 10 a second took %v (%v)", took, err)
		}
		synctest.Wait()
		if !r.a.budget.TryAcquire(r.net.c.BytesInFlightMax) {
			t.Fatal("bytes in flight without a call")
		}
		f, released, err := r.fetch(r.within(time.Second), l, 2)
		released.Wait()
		if !errors.Is(err, context.DeadlineExceeded) || f.Blocks[0].Status != transport.Late {
			t.Errorf("beyond the bound: %v", err)
		}
		r.a.budget.Release(r.net.c.BytesInFlightMax)
	})
}

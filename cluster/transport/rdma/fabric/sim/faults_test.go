package sim

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// wantFailed wants list id told with a result, and later ones flushed or not told.
func (e *end) wantFailed(id uint64, want fabric.Result, within time.Duration) {
	e.t.Helper()
	if c := told(e.t, e.q.Sends(), within); c.ID != id || c.Result != want || c.Code == 0 {
		e.t.Errorf("%+v, want list %d to have %q", c, id, want)
	}
	rest := make([]fabric.Completion, 100)
	for _, c := range rest[:e.q.Sends().Poll(rest)] {
		if c.ID <= id || c.Result != fabric.Flushed {
			e.t.Errorf("behind the list that failed: %+v", c)
		}
	}
}

// TestRefused: what may not be written fails both ends, and changes nothing.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *fabric.Write, a, b *end)
		want  fabric.Result
	}{
		"key":     {func(w *fabric.Write, _, _ *end) { w.TargetKey++ }, fabric.RemoteDenied},
		"outside": {func(w *fabric.Write, _, _ *end) { w.Target += 1<<20 - 4095 }, fabric.RemoteDenied},
		"before":  {func(w *fabric.Write, _, _ *end) { w.Target-- }, fabric.RemoteDenied},
		"around":  {func(w *fabric.Write, _, _ *end) { w.Target -= 1 << 63 }, fabric.RemoteDenied},
		"rights": {func(w *fabric.Write, a, b *end) {
			r, err := b.d.Register(b.mem, 0)
			if err != nil {
				b.t.Fatal(err)
			}
			w.TargetKey = r.RemoteKey()
			b.r, r = r, b.r
			_ = r.Deregister()
		}, fabric.RemoteDenied},
	} {
		inBubble(t, func(n *Network, a, b *end) {
			b.receives(2)
			w := a.write(b, 0, 4096)
			c.spoil(&w, a, b)
			a.post(1, a.write(b, 0, 0))
			a.post(2, w)
			a.post(3, notify(a.write(b, 0, 0), 1))
			if c := told(t, a.q.Sends(), time.Second); c.ID != 1 || c.Result != fabric.OK {
				t.Errorf("%s: %+v", name, c)
			}
			a.wantFailed(2, c.want, time.Second)
			if c := told(t, b.q.Receives(), time.Second); c.Result == fabric.OK {
				t.Errorf("%s: the receiver has %+v", name, c)
			}
			if len(bytes.Trim(b.mem, "\x00")) > 0 {
				t.Errorf("%s: something landed", name)
			}
			a.post(4, a.write(b, 0, 10)) // is flushed, or not told
		})
	}
}

// TestNoReceive: the sender fails, and all but the last burst has landed.
func TestNoReceive(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		b.receives(1)
		a.post(1, notify(a.write(b, 0, 100), 1))
		a.post(2, a.write(b, 0, 500_000), notify(a.write(b, 600_000, 10), 2))
		if c := told(t, a.q.Sends(), time.Second); c.ID != 1 || c.Result != fabric.OK {
			t.Errorf("%+v", c)
		}
		a.wantFailed(2, fabric.NoReceive, time.Second)
		if !bytes.Equal(b.mem[:500_000], a.mem[:500_000]) || b.mem[600_000] != 0 {
			t.Error("what landed is other than all but the last write")
		}
		if c := told(t, b.q.Receives(), 0); c.Immediate != 1 || c.Result != fabric.OK {
			t.Errorf("%+v", c)
		}
	})
}

// TestOwnFaults: memory that is not registered here, and too long a write.
func TestOwnFaults(t *testing.T) {
	for _, spoil := range []func(w *fabric.Write){
		func(w *fabric.Write) { w.SourceKey++ }, func(w *fabric.Write) { w.Source += 1 << 20 }, func(w *fabric.Write) { w.Bytes = 9 << 20 },
	} {
		inBubble(t, func(n *Network, a, b *end) {
			w := a.write(b, 0, 4096)
			spoil(&w)
			a.post(1, w)
			a.wantFailed(1, fabric.LocalFault, time.Second)
		})
	}
}

// TestAway: whoever is not there any more is noticed by its silence alone, at the end of
// all retries; a shorter absence is not.
func TestAway(t *testing.T) {
	for name, away := range map[string]func(n *Network, b *end){
		"cut":       func(n *Network, _ *end) { n.Cut("a", "b") },
		"cut back":  func(n *Network, _ *end) { n.Cut("b", "a") },
		"destroyed": func(_ *Network, b *end) { _ = b.q.Destroy() },
		"killed":    func(n *Network, _ *end) { n.Kill("b") },
		"frozen":    func(n *Network, _ *end) { n.Freeze("b") },
		"port":      func(n *Network, _ *end) { n.SetPort("b", "sim0:1", false) },
	} {
		inBubble(t, func(n *Network, a, b *end) {
			away(n, b)
			began := time.Now()
			a.post(1, a.write(b, 0, 100_000))
			a.wantFailed(1, fabric.NoAnswer, patience)
			if took := time.Since(began); took < 5*67*time.Millisecond {
				t.Errorf("%s: gave up after %v", name, took)
			}
			n.HealAll()
			var none [1]fabric.Completion
			if b.q.Receives().Poll(none[:]) != 0 {
				t.Errorf("%s: the other side was told", name)
			}
		})
		if name == "destroyed" || name == "killed" {
			continue
		}
		inBubble(t, func(n *Network, a, b *end) {
			b.receives(1)
			away(n, b)
			a.post(1, notify(a.write(b, 0, 1<<20), 1))
			time.Sleep(200 * time.Millisecond)
			n.HealAll()
			if c := told(t, a.q.Sends(), time.Second); c.Result != fabric.OK || !bytes.Equal(a.mem, b.mem) {
				t.Errorf("%s, for a while: %+v", name, c)
			}
			if c := told(t, b.q.Receives(), time.Second); c.Result != fabric.OK || c.Immediate != 1 {
				t.Errorf("%s, for a while: %+v", name, c)
			}
		})
	}
}

// TestStopped: the device of a process that is stopped goes on, the process does not.
func TestStopped(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		b.receives(1)
		a.post(1, a.write(b, 0, 100_000))
		n.Stop("a")
		n.Stop("b")
		a.post(2, notify(a.write(b, 100_000, 100_000), 1))
		b.receives(1)
		time.Sleep(time.Second)
		n.mu.Lock()
		if !bytes.Equal(b.mem[:100_000], a.mem[:100_000]) || len(bytes.Trim(b.mem[100_000:], "\x00")) > 0 {
			t.Error("other than what was posted before has landed")
		}
		n.mu.Unlock()
		var one [1]fabric.Completion
		if a.q.Sends().Poll(one[:]) != 0 {
			t.Error("a stopped process took a completion")
		}
		n.Continue("a")
		if c := told(t, a.q.Sends(), 0); c.ID != 1 {
			t.Errorf("%+v", c)
		}
		if c := told(t, a.q.Sends(), time.Second); c.ID != 2 || c.Result != fabric.OK {
			t.Errorf("%+v", c)
		}
		if b.q.Receives().Poll(one[:]) != 0 {
			t.Error("a stopped process took a completion")
		}
		go func() { time.Sleep(time.Second); n.Continue("b") }()
		began := time.Now()
		if k, err := b.q.Receives().Wait(one[:]); k != 1 || err != nil || time.Since(began) != time.Second {
			t.Errorf("%d, %v after %v", k, err, time.Since(began))
		}
	})
}

// TestFrozen: what was on its way to a frozen machine lands when it thaws, though its sender
// has failed meanwhile; and nothing of a frozen sender moves.
func TestFrozen(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		a.post(1, a.write(b, 0, 1<<20))
		time.Sleep(5 * time.Millisecond)
		n.Freeze("b")
		time.Sleep(time.Second)
		a.wantFailed(1, fabric.NoAnswer, 0)
		n.mu.Lock()
		before := bytes.Clone(b.mem)
		n.mu.Unlock()
		n.Thaw("b")
		synctest.Wait()
		n.mu.Lock()
		if bytes.Equal(before, b.mem) || !bytes.HasPrefix(b.mem, before[:100_000]) {
			t.Error("nothing landed at the thaw")
		}
		n.mu.Unlock()
		if n.Counts().Orphans == 0 {
			t.Error("no orphans")
		}
	})
	inBubble(t, func(n *Network, a, b *end) {
		a.post(1, a.write(b, 0, 1<<20))
		time.Sleep(5 * time.Millisecond)
		n.Freeze("a")
		time.Sleep(10 * time.Millisecond)
		was := n.Counts().Bytes
		time.Sleep(time.Minute)
		if now := n.Counts().Bytes; was == 0 || now != was {
			t.Errorf("%d bytes landed, later %d", was, now)
		}
		n.Thaw("a")
		if c := told(t, a.q.Sends(), time.Second); c.Result != fabric.OK || !bytes.Equal(a.mem, b.mem) {
			t.Errorf("%+v", c)
		}
	})
}

// TestDestroyed: nothing is read of what a destroyed queue pair had posted, a Wait of it
// ends, and its own packets may still land.
func TestDestroyed(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		a.post(1, a.write(b, 0, 1<<20))
		waited := make(chan error)
		go func() {
			var one [1]fabric.Completion
			_, err := a.q.Sends().Wait(one[:])
			waited <- err
		}()
		time.Sleep(5 * time.Millisecond)
		if err := a.q.Destroy(); err != nil {
			t.Fatal(err)
		}
		at := n.Counts().Bytes
		clear(a.mem)
		if err := <-waited; !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("Wait: %v", err)
		}
		time.Sleep(time.Second)
		c := n.Counts()
		if c.Bytes == at || c.Bytes == 1<<20 || c.Orphans == 0 {
			t.Errorf("%d bytes at once, then %+v", at, c)
		}
		want := make([]byte, 1<<20)
		fill(want, 1)
		n.mu.Lock()
		if !bytes.Equal(b.mem[:c.Bytes], want[:c.Bytes]) {
			t.Error("memory was read after Destroy")
		}
		n.mu.Unlock()
		if err := a.q.PostWrites(2, []fabric.Write{a.write(b, 0, 1)}); !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("a post: %v", err)
		}
		if err := a.q.PostReceives(1); !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("a post: %v", err)
		}
	})
}

// TestOwnPortDown fails what is to be sent after a while.
func TestOwnPortDown(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		n.SetPort("a", "sim0:1", false)
		if p := a.d.Port(); p.Active || p.State != "down" {
			t.Errorf("%+v", p)
		}
		a.post(1, a.write(b, 0, 100))
		a.wantFailed(1, fabric.LocalFault, 200*time.Millisecond)
		if _, err := a.m.Open(a.d.Port(), a.d.GID()); err == nil {
			t.Error("a port that is down was opened")
		}
	})
}

// TestDeviceFault fails all queue pairs of a device.
func TestDeviceFault(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		a.receives(3)
		a.post(1, a.write(b, 0, 100))
		n.FailDevice("a", "sim1")
		if c := told(t, a.q.Sends(), time.Second); c.Result != fabric.OK {
			t.Errorf("%+v", c)
		}
		a.post(2, a.write(b, 0, 1<<20))
		n.FailDevice("a", "sim0")
		a.wantFailed(2, fabric.OtherFault, 0)
		if c := told(t, a.q.Receives(), 0); c.Result != fabric.Flushed {
			t.Errorf("%+v", c)
		}
	})
}

// TestBreaks: a queue pair may fail though nobody died, and what it had sent lands.
func TestBreaks(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		n.SetBreaks(0.1)
		a.post(1, a.write(b, 0, 1<<20))
		a.wantFailed(1, fabric.NoAnswer, time.Second)
		time.Sleep(time.Second)
		if c := n.Counts(); c.Bytes == 0 || c.Bytes == 1<<20 || c.Orphans == 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestDestroyFails: then it is no fence.
func TestDestroyFails(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		n.SetDestroyFails("b", true)
		a.post(1, a.write(b, 0, 1<<20))
		if err := b.q.Destroy(); err == nil {
			t.Error("Destroy does not fail")
		}
		if c := told(t, a.q.Sends(), time.Second); c.Result != fabric.OK || !bytes.Equal(a.mem, b.mem) {
			t.Errorf("%+v", c)
		}
		n.SetDestroyFails("b", false)
	})
}

// TestBounds: of queues, of locked memory, of what is there at all.
func TestBounds(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		ten := make([]fabric.Write, 10)
		for i := range 6 {
			a.post(uint64(i), ten...)
		}
		if err := a.q.PostWrites(9, ten); !errors.Is(err, fabric.ErrFull) {
			t.Errorf("70 writes of 64: %v", err)
		}
		a.receives(60)
		if err := a.q.PostReceives(5); !errors.Is(err, fabric.ErrFull) {
			t.Errorf("65 receives of 64: %v", err)
		}
		for i := range 6 {
			if c := told(t, a.q.Sends(), time.Second); c.ID != uint64(i) || c.Result != fabric.OK {
				t.Errorf("%+v", c)
			}
		}
		a.post(9, ten...)
		if err := a.q.PostWrites(9, []fabric.Write{{Inline: make([]byte, 237)}}); err == nil {
			t.Error("237 bytes inline")
		}
		if _, err := a.d.RegisterGPU(0, 0, 1, 0, 0); !errors.Is(err, fabric.ErrUnsupported) {
			t.Errorf("a GPU: %v", err)
		}
		if err := b.d.Close(); err == nil {
			t.Error("a device with a queue pair was closed")
		}
		none, err := n.Machine("none", MachineConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := none.Ports(); !errors.Is(err, fabric.ErrNone) {
			t.Errorf("ports of a machine without: %v", err)
		}
		poor, err := n.Machine("poor", MachineConfig{Ports: RoCE(3, 1), MemoryLockBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		ports, _ := poor.Ports()
		d, err := poor.Open(ports[0], ports[0].GIDs[0])
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Register(a.mem, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Register(b.mem[:1], 0); !errors.Is(err, fabric.ErrMemoryLock) {
			t.Errorf("one byte more than the limit: %v", err)
		}
		if err := errors.Join(r.Deregister(), d.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestSecondLife: a process that starts where one died knows nothing of its queue pairs.
func TestSecondLife(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		if _, err := n.Machine("b", MachineConfig{}); err == nil {
			t.Error("two processes of one name")
		}
		a.post(1, a.write(b, 0, 1<<20))
		time.Sleep(3 * time.Millisecond)
		n.Kill("b")
		m, err := n.Machine("b", MachineConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ports, err := m.Ports()
		if len(ports) != 2 || err != nil {
			t.Errorf("%d ports, %v", len(ports), err)
		}
		n.mu.Lock()
		was := bytes.Clone(b.mem)
		n.mu.Unlock()
		a.wantFailed(1, fabric.NoAnswer, patience)
		if !bytes.Equal(was, b.mem) {
			t.Error("memory of the dead was written to")
		}
	})
}

// TestSettle: a completed write may not be in memory yet; a receive that completes behind it
// proves that it is, and Destroy and Deregister prove that it will not be.
func TestSettle(t *testing.T) {
	settleMax := 50 * time.Millisecond
	for _, fence := range []string{"none", "receive", "destroy", "deregister"} {
		early, late := 0, 0
		inBubble(t, func(n *Network, a, b *end) {
			n.c.SettleMax = settleMax
			b.receives(20)
			for i := range 20 {
				clear(b.mem)
				a.post(uint64(i), a.write(b, 0, 1000))
				if c := told(t, a.q.Sends(), time.Second); c.Result != fabric.OK {
					t.Fatalf("%+v", c)
				}
				switch fence {
				case "receive":
					a.post(100, notify(fabric.Write{}, 1))
					told(t, b.q.Receives(), time.Second)
				case "destroy":
					_ = b.q.Destroy()
				case "deregister":
					_ = b.r.Deregister()
				}
				n.mu.Lock()
				at := b.mem[999]
				n.mu.Unlock()
				if at == 0 {
					early++
				}
				time.Sleep(settleMax)
				n.mu.Lock()
				if b.mem[999] != at {
					late++
				}
				n.mu.Unlock()
				switch fence {
				case "receive":
					told(t, a.q.Sends(), time.Second)
				case "deregister":
					b.r, _ = b.d.Register(b.mem, fabric.RemoteWrite)
				case "destroy":
					return
				}
			}
		})
		if fence == "none" && (early == 0 || late != early) || fence == "receive" && early != 0 || fence != "none" && late != 0 {
			t.Errorf("%s: %d times not there after the completion, %d times later than that", fence, early, late)
		}
	}
}

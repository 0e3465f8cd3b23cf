package sim

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

var config = Config{Seed: 1, DelayMin: time.Millisecond, DelayMax: 2 * time.Millisecond, BytesPerSecond: 100 << 20}

var path = fabric.Path{Timeout: 14, Retries: 5, HopLimit: 64}

// patience is when a sender gives up at the latest: one timeout for each try.
const patience = 6*68*time.Millisecond + 10*time.Millisecond

// end is a queue pair and a region of one side.
type end struct {
	t   *testing.T
	m   *Machine
	d   fabric.Device
	q   fabric.QueuePair
	mem []byte
	r   fabric.Region
}

func (n *Network) end(t *testing.T, name string, host uint8, rights fabric.Rights) *end {
	t.Helper()
	m, err := n.Machine(name, MachineConfig{Ports: RoCE(host, 2)})
	if err != nil {
		t.Fatal(err)
	}
	ports, err := m.Ports()
	if err != nil {
		t.Fatal(err)
	}
	e := &end{t: t, m: m, mem: make([]byte, 1<<20)}
	e.d, err = m.Open(ports[0], ports[0].GIDs[1])
	if err == nil {
		e.q, err = e.d.NewQueuePair(fabric.QueueOptions{Sends: 64, Receives: 64, RemoteWrite: true})
	}
	if err == nil {
		e.r, err = e.d.Register(e.mem, rights)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// inBubble runs a test with a connected pair: a writes into b.
func inBubble(t *testing.T, test func(n *Network, a, b *end)) {
	synctest.Test(t, func(t *testing.T) {
		n := New(config)
		defer n.Close()
		a, b := n.end(t, "a", 1, 0), n.end(t, "b", 2, fabric.RemoteWrite)
		for _, p := range [][2]*end{{a, b}, {b, a}} {
			if err := p[0].q.Connect(p[1].q.Local(), path); err != nil {
				t.Fatal(err)
			}
		}
		fill(a.mem, 1)
		test(n, a, b)
		for _, e := range []*end{a, b} {
			if err := errors.Join(e.q.Destroy(), e.r.Deregister(), e.d.Close()); err != nil && !e.m.dead {
				t.Error(err)
			}
		}
	})
}

func fill(b []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, seed))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// write describes the transfer of a part of a's memory to the same place of b's.
func (e *end) write(to *end, offset, n int) fabric.Write {
	return fabric.Write{Source: e.r.Address() + uint64(offset), SourceKey: e.r.LocalKey(), Bytes: uint32(n),
		Target: to.r.Address() + uint64(offset), TargetKey: to.r.RemoteKey()}
}

func (e *end) post(id uint64, list ...fabric.Write) {
	e.t.Helper()
	if err := e.q.PostWrites(id, list); err != nil {
		e.t.Fatal(err)
	}
}

func notify(w fabric.Write, immediate uint32) fabric.Write {
	w.Notify, w.Immediate = true, immediate
	return w
}

// told takes one completion, within a time.
func told(t *testing.T, c fabric.Queue, within time.Duration) (got fabric.Completion) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		var one [1]fabric.Completion
		if c.Poll(one[:]) == 1 {
			return one[0]
		}
		if time.Since(began) > within {
			t.Fatalf("no completion within %v", within)
		}
	}
}

func (e *end) receives(k int) {
	e.t.Helper()
	if err := e.q.PostReceives(k); err != nil {
		e.t.Fatal(err)
	}
}

func TestWrite(t *testing.T) {
	inBubble(t, func(n *Network, a, b *end) {
		b.receives(2)
		a.post(7, a.write(b, 100, 300_000), a.write(b, 400_000, 0), notify(a.write(b, 500_000, 70_000), 99))
		a.post(8, notify(fabric.Write{Inline: []byte("inline"), Target: b.r.Address(), TargetKey: b.r.RemoteKey()}, 5))
		got := make([]fabric.Completion, 1)
		if k, err := b.q.Receives().Wait(got); k != 1 || err != nil || got[0].Immediate != 99 || got[0].Result != fabric.OK {
			t.Fatalf("%+v, %v", got[:k], err)
		}
		if !bytes.Equal(b.mem[100:300_100], a.mem[100:300_100]) || !bytes.Equal(b.mem[500_000:570_000], a.mem[500_000:570_000]) {
			t.Error("other bytes")
		}
		if len(bytes.Trim(b.mem[300_100:500_000], "\x00")) > 0 || len(bytes.Trim(b.mem[570_000:], "\x00")) > 0 {
			t.Error("bytes beside the target")
		}
		if c := told(t, b.q.Receives(), time.Second); c.Immediate != 5 || string(b.mem[:7]) != "inline\x00" {
			t.Errorf("%+v, %q", c, b.mem[:7])
		}
		for _, id := range []uint64{7, 8} {
			if c := told(t, a.q.Sends(), time.Second); c.ID != id || c.Result != fabric.OK {
				t.Errorf("%+v", c)
			}
		}
	})
}

// TestLate: who gives a write up without a fence sees it land, and with Destroy or
// Deregister does not.
func TestLate(t *testing.T) {
	for _, fence := range []string{"none", "destroy", "deregister"} {
		inBubble(t, func(n *Network, a, b *end) {
			a.post(1, a.write(b, 0, 1<<20))
			time.Sleep(4 * time.Millisecond)
			switch fence {
			case "destroy":
				_ = b.q.Destroy()
			case "deregister":
				_ = b.r.Deregister()
			}
			n.mu.Lock() // without a fence this is a race, by design
			if b.mem[0] != a.mem[0] || b.mem[1<<20-1] == a.mem[1<<20-1] {
				t.Errorf("%s: not in the middle", fence)
			}
			fill(b.mem, 2)
			want := slices.Clone(b.mem)
			n.mu.Unlock()
			time.Sleep(time.Second)
			n.mu.Lock()
			if same := bytes.Equal(b.mem, want); same != (fence != "none") {
				t.Errorf("%s: the same %v", fence, same)
			}
			n.mu.Unlock()
			if fence != "none" {
				if c := told(t, a.q.Sends(), 0); c.Result != map[string]fabric.Result{"destroy": fabric.NoAnswer, "deregister": fabric.RemoteDenied}[fence] {
					t.Errorf("%s: %+v", fence, c)
				}
			}
			if fence == "deregister" {
				b.r, _ = b.d.Register(b.mem, 0)
			}
		})
	}
}

package tcp

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// partialPeer sends chunks of requests to a guest, by hand.
type partialPeer struct {
	*testing.T
	g    *guest
	sent map[uint64]*sentPart
	slow time.Duration // that a chunk takes to come
}

// served counts the calls that it answers.
type served struct {
	answering
	calls *int
}

func (s served) Call(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	*s.calls++
	return s.answering.Call(ctx, from, kind, body)
}

// slowly is a connection that takes its time.
type slowly struct {
	scripted
	by time.Duration
}

func (s *slowly) Read(b []byte) (int, error) {
	time.Sleep(s.by)
	return s.scripted.Read(b)
}

// sentPart is a request of which a part is sent.
type sentPart struct {
	h    header
	body []byte
}

func newPartialPeer(t *testing.T, inFlightBytes int64) *partialPeer {
	n := &Transport{sessions: map[*session]bool{}, guests: map[[tokenBytes]byte]*guest{}, handler: answering{}}
	n.o.InFlightBytes = inFlightBytes
	n.o.setDefaults()
	n.ctx, n.cancel = context.WithCancel(t.Context())
	return &partialPeer{T: t, g: newGuest(n, sampleHello, 1), sent: map[uint64]*sentPart{}}
}

// begin is a request of so many bytes.
func (p *partialPeer) begin(call uint64, kind frameType, nBytes int) {
	s := &sentPart{h: header{Type: kind, Code: 1, Call: call}}
	var sizes []uint32
	if kind != typeCall {
		s.h.Index, sizes = 1, []uint32{100}
	}
	s.body = seal(sizes, make([]byte, nBytes))
	s.h.Total = uint32(len(s.body))
	p.sent[call] = s
	p.more(call)
}

// more sends one chunk more.
func (p *partialPeer) more(call uint64) {
	p.Helper()
	s := p.sent[call]
	s.h.Length = min(s.h.Total-s.h.Offset, chunkBytes)
	socket := &slowly{scripted{frames: s.body[s.h.Offset : s.h.Offset+s.h.Length]}, p.slow}
	f := &conn{s: p.g.session, in: newInput(socket, nil, 0)}
	if err := p.g.hear(f, &s.h); err != nil {
		p.Fatalf("chunk at %d of %d: %v", s.h.Offset, s.h.Total, err)
	}
	if s.h.Offset += s.h.Length; s.h.Offset == s.h.Total {
		delete(p.sent, call)
	}
}

func (p *partialPeer) cancel(call uint64) {
	delete(p.sent, call)
	if err := p.g.hear(nil, &header{Type: typeCancel, Call: call}); err != nil {
		p.Fatal(err)
	}
}

// holds is the memory of what is not whole, as counted and as it is, and how many requests
// that is.
func (p *partialPeer) holds() (counted, is int64, requests int) {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	for _, r := range p.g.requests {
		if r.started || r.m.total <= chunkBytes {
			continue
		}
		requests++
		for _, c := range r.m.chunks {
			is += int64(cap(c))
		}
	}
	return p.g.partial, is, requests
}

// TestPartialRequests: whatever requests a peer begins and however it leaves them, what is
// kept of them is what has come, within the bytes in flight; a peer that keeps to these is
// not refused; and in time nothing is left.
func TestPartialRequests(t *testing.T) {
	const inFlightBytes, largest = 2 << 20, 3 << 20
	for seed := range uint64(10) {
		honest := seed%2 == 0
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			p := newPartialPeer(t, inFlightBytes)
			for call := uint64(1); call < 100; call++ {
				nBytes, under := rng.IntN(largest), 0
				if rng.IntN(2) == 0 {
					nBytes = rng.IntN(3 * chunkBytes)
				}
				for _, s := range p.sent {
					under += len(s.body)
				}
				if !honest || under == 0 || under+nBytes+100 <= inFlightBytes {
					p.begin(call, frameType(1+rng.IntN(3)), nBytes)
				}
				for _, other := range slices.Sorted(maps.Keys(p.sent)) {
					switch rng.IntN(8) {
					case 0:
						p.cancel(other)
					default:
						p.more(other)
					}
				}
				synctest.Wait() // handlers answer
				for answered := range call {
					p.g.calls.drop(answered + 1)
				}
				counted, is, _ := p.holds()
				if counted != is || counted > max(inFlightBytes, largest+chunkBytes) {
					t.Fatalf("seed %d: %d bytes are kept, %d counted, %d allowed", seed, is, counted, inFlightBytes)
				}
			}
			if busy := p.g.t.counters.busy.Load(); honest && busy > 0 || !honest && busy == 0 {
				t.Errorf("seed %d: %d were refused, honest %v", seed, busy, honest)
			}
			time.Sleep(p.g.t.o.RequestTime)
			synctest.Wait()
			if counted, is, n := p.holds(); counted+is != 0 || n != 0 || p.g.serving != 0 {
				t.Errorf("seed %d: %d requests with %d bytes are left, %d counted, %d slots", seed, n, is, counted, p.g.serving)
			}
			p.g.t.cancel()
		})
	}
}

// TestPartialInTime: a request that comes slowly is served up to its time, and what comes
// of it later is dropped, also if it had begun to come before.
func TestPartialInTime(t *testing.T) {
	for _, c := range []struct{ late, slow time.Duration }{{-2, 0}, {-2, 1}, {-1, 2}, {1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			p, late, calls := newPartialPeer(t, 0), c.late+c.slow, 0
			p.g.handler = served{calls: &calls}
			p.begin(1, typeCall, 2*chunkBytes)
			p.more(1)
			time.Sleep(p.g.t.o.RequestTime + c.late)
			p.slow = c.slow
			p.more(1)
			synctest.Wait()
			p.g.calls.mu.Lock()
			defer p.g.calls.mu.Unlock()
			items := p.g.calls.lanes[1].items
			if refused := items[0].h.Type == typeError; len(items) != 1 || refused != (late > 0) || refused && transport.Code(items[0].h.Code) != transport.CodeBusy {
				t.Errorf("%v behind its time: %d answers, the first of type %#x with code %d", late, len(items), items[0].h.Type, items[0].h.Code)
			}
			if (calls > 0) != (late < 0) {
				t.Errorf("%v behind its time it is served %d times", late, calls)
			}
			p.g.t.cancel()
		})
	}
}

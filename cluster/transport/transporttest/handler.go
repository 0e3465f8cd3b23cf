package transporttest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// Kinds of calls that the suite's handler serves.
const (
	kindEcho   transport.Kind = 0x21 // Call: the body, backwards
	kindFail   transport.Kind = 0x22 // an error without a code
	kindCode   transport.Kind = 0x23 // a *RemoteError with the code that the body's first byte is
	kindPanic  transport.Kind = 0x24
	kindHang   transport.Kind = 0x25 // until the context ends
	kindBlocks transport.Kind = 0x26 // Fetch: what the body says, order by order
	kindStep   transport.Kind = 0x27 // Fetch: a block for each step that the test gives
	kindTake   transport.Kind = 0x28 // Push: all blocks, compared with the IDs in the body
	kindSkip   transport.Kind = 0x29 // Push: every second block
	kindLeave  transport.Kind = 0x2a // Push: none
)

// order says what becomes of one block.
type order struct {
	id   uint64
	size uint32
	what uint8
}

// What becomes of a block.
const (
	send uint8 = iota
	miss
	refuse
	forget // the handler says nothing of it
	fail   // the handler ends with an error here
	panics
)

const orderBytes = 13

func encode(orders []order) []byte {
	var b []byte
	for _, o := range orders {
		b = binary.LittleEndian.AppendUint64(b, o.id)
		b = binary.LittleEndian.AppendUint32(b, o.size)
		b = append(b, o.what)
	}
	return b
}

func decode(b []byte) (orders []order) {
	for ; len(b) >= orderBytes; b = b[orderBytes:] {
		orders = append(orders, order{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), b[12]})
	}
	return orders
}

// handler serves the suite's calls.
type handler struct {
	k       *kit
	running atomic.Int64
	lent    atomic.Int64 // blocks of replies that are not done with

	began chan struct{} // one for each call of kindHang and kindStep, and each first Receive
	ended chan error    // one for each such call: why its context ended
	step  chan struct{} // lets kindStep send one block more

	mu     sync.Mutex
	refuse error // of Hello
	peers  []transport.Hello
}

func newHandler(k *kit) *handler {
	return &handler{k: k, began: make(chan struct{}, 1000), ended: make(chan error, 1000), step: make(chan struct{}, 1000)}
}

var errFail = errors.New("it does not work")

func (h *handler) Hello(from transport.Hello) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers = append(h.peers, from)
	return h.refuse
}

func (h *handler) enter() func() {
	h.running.Add(1)
	return func() { h.running.Add(-1) }
}

func (h *handler) Call(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	defer h.enter()()
	switch kind {
	case kindEcho:
		slices.Reverse(body)
		return body, nil
	case kindHang:
		return nil, h.hang(ctx)
	}
	return nil, h.wrong(kind, body)
}

func (h *handler) wrong(kind transport.Kind, body []byte) error {
	switch kind {
	case kindFail:
		return errFail
	case kindCode:
		return fmt.Errorf("about %q: %w", body[1:], &transport.RemoteError{Code: transport.Code(body[0]), Text: "so it is"})
	case kindPanic:
		panic("at the disco")
	}
	return &transport.RemoteError{Code: transport.CodeUnknown, Text: fmt.Sprintf("kind %d", kind)}
}

func (h *handler) hang(ctx context.Context) error {
	h.began <- struct{}{}
	<-ctx.Done()
	h.ended <- ctx.Err()
	return ctx.Err()
}

func (h *handler) Fetch(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	defer h.enter()()
	orders := decode(body)
	if kind != kindBlocks && kind != kindStep {
		return nil, h.wrong(kind, body)
	}
	if len(orders) != n {
		h.k.Errorf("a Fetch of %d blocks came with %d orders", n, len(orders))
	}
	if kind == kindStep {
		h.began <- struct{}{}
	}
	var apart sync.WaitGroup // replies come from any goroutine
	defer apart.Wait()
	for i, o := range orders {
		if kind == kindStep {
			select {
			case <-h.step:
			case <-ctx.Done():
				h.ended <- ctx.Err()
				return nil, ctx.Err()
			}
		}
		switch o.what {
		case send:
			if i%3 == 1 {
				apart.Go(func() { h.send(r, i, o) })
			} else {
				h.send(r, i, o)
			}
		case miss:
			r.None(i, transport.Miss)
		case refuse:
			r.None(i, transport.Refused)
		case fail:
			return nil, errFail
		case panics:
			panic("in the middle")
		}
	}
	return []byte("fetched"), nil
}

// send answers with a block whose memory is spoiled as soon as it may be.
func (h *handler) send(r transport.Reply, i int, o order) {
	b := make([]byte, o.size)
	content(b, o.id)
	third := len(b) / 3
	var once atomic.Bool
	h.lent.Add(1)
	r.Block(i, [][]byte{b[:third], nil, b[third:]}, sumOf(o.id), func() {
		if once.Swap(true) {
			h.k.Errorf("block %d was done with twice", i)
		}
		Spoil(b)
		h.lent.Add(-1)
	})
}

func (h *handler) Push(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte, in transport.Incoming) ([]byte, error) {
	defer h.enter()()
	switch kind {
	case kindTake, kindSkip:
		return h.take(decode(body), in, kind == kindSkip)
	case kindHang:
		return nil, h.hang(ctx)
	case kindLeave:
		return []byte("no, thank you"), nil
	}
	return nil, h.wrong(kind, body)
}

func (h *handler) take(orders []order, in transport.Incoming, skip bool) ([]byte, error) {
	if in.Blocks() != len(orders) {
		return nil, fmt.Errorf("%d blocks, and orders for %d", in.Blocks(), len(orders))
	}
	for i, o := range orders {
		if in.BlockBytes(i) != int(o.size) {
			return nil, fmt.Errorf("block %d has %d bytes, want %d", i, in.BlockBytes(i), o.size)
		}
		if skip && i%2 == 1 {
			if err := in.Receive(nil); err != nil {
				return nil, err
			}
			continue
		}
		g := guarded{all: make([]byte, int(o.size)+2*wallBytes)}
		Spoil(g.all)
		inner := g.all[wallBytes : wallBytes+int(o.size)]
		g.pieces = [][]byte{inner[:len(inner)/2], nil, inner[len(inner)/2:]}
		err := in.Receive(g.pieces)
		if i == 0 {
			h.began <- struct{}{}
		}
		if err != nil {
			h.k.watched.add(g)
			h.ended <- err
			return nil, err
		}
		if !same(g.pieces, o.id) || !g.wallsStand() {
			h.k.Errorf("block %d of a push (%d bytes) came with other bytes", i, o.size)
		}
		h.k.watched.add(g)
	}
	return []byte("taken"), nil
}

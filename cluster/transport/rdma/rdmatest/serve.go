package rdmatest

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// Kinds of calls.
const (
	kindEcho   transport.Kind = 0x21
	kindBlocks transport.Kind = 0x22
	kindWaits  transport.Kind = 0x23 // and the handler returns when it is done with all
	kindTake   transport.Kind = 0x24
)

// order is what a request says of one block.
type order struct {
	id     uint64
	bytes  uint32
	pieces uint8
	what   What
	known  bool
	apart  bool
	read   time.Duration
}

const orderBytes = 24

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func encode(orders []order) []byte {
	var b []byte
	for _, o := range orders {
		b = binary.LittleEndian.AppendUint64(b, o.id)
		b = binary.LittleEndian.AppendUint32(b, o.bytes)
		b = append(b, o.pieces, byte(o.what), bit(o.known), bit(o.apart))
		b = binary.LittleEndian.AppendUint64(b, uint64(o.read))
	}
	return b
}

func decode(b []byte) (orders []order) {
	for ; len(b) >= orderBytes; b = b[orderBytes:] {
		orders = append(orders, order{id: binary.LittleEndian.Uint64(b), bytes: binary.LittleEndian.Uint32(b[8:]), pieces: b[12],
			what: What(b[13]), known: b[14] == 1, apart: b[15] == 1, read: time.Duration(binary.LittleEndian.Uint64(b[16:]))})
	}
	return orders
}

// server answers what other nodes ask of a process.
type server struct {
	r       *runner
	n       *node
	running atomic.Int64
	lent    atomic.Int64 // blocks that are not done with
}

var errOrder = errors.New("here the handler fails, as it was told to")

func (s *server) enter() func() {
	s.running.Add(1)
	return func() { s.running.Add(-1) }
}

func (s *server) Hello(transport.Hello) error { return nil }

func (s *server) Call(_ context.Context, _ transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	defer s.enter()()
	if kind != kindEcho {
		return nil, &transport.RemoteError{Code: transport.CodeUnknown, Text: "no such call"}
	}
	slices.Reverse(body)
	return body, nil
}

func (s *server) Push(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte, in transport.Incoming) ([]byte, error) {
	defer s.enter()()
	for i := range in.Blocks() {
		b := make([]byte, in.BlockBytes(i))
		if err := in.Receive([][]byte{b}); err != nil {
			return nil, err
		}
		if at := differs(b, binary.LittleEndian.Uint64(body)+uint64(i)); at >= 0 {
			s.r.fail("WRONG BYTES: byte %d of block %d of a push to %s", at, i, s.n.name)
		}
	}
	return []byte("taken"), nil
}

func (s *server) Fetch(ctx context.Context, _ transport.Hello, kind transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	defer s.enter()()
	orders := decode(body)
	if len(orders) != n {
		s.r.fail("a Fetch of %d blocks came to %s with %d orders", n, s.n.name, len(orders))
		return nil, errOrder
	}
	var apart, sending sync.WaitGroup
	defer func() {
		apart.Wait()
		if kind == kindWaits {
			sending.Wait()
		}
	}()
	for i, o := range orders {
		if o.what == Fail {
			return nil, errOrder
		}
		if o.apart {
			apart.Go(func() { s.answer(ctx, i, o, r, &sending) })
		} else if !s.answer(ctx, i, o, r, &sending) {
			return nil, context.Cause(ctx)
		}
	}
	return []byte("fetched"), nil
}

// answer answers one block, false if the context has ended first.
func (s *server) answer(ctx context.Context, i int, o order, r transport.Reply, sending *sync.WaitGroup) bool {
	if !wait(ctx, o.read) {
		return false
	}
	switch o.what {
	case Miss:
		r.None(i, transport.Miss)
	case Refuse:
		r.None(i, transport.Refused)
	case Send:
		return s.send(ctx, i, o, int(o.bytes), r, sending)
	case Longer:
		return s.send(ctx, i, o, int(o.bytes)+1, r, sending)
	}
	return true
}

// wait sleeps, false if the context ends first.
func wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// send answers with a block whose memory is spoilt as soon as it may be.
func (s *server) send(ctx context.Context, i int, o order, nBytes int, r transport.Reply, sending *sync.WaitGroup) bool {
	f := s.n.src[bit(o.known)]
	p, ok, pure := f.lend(nBytes)
	for ; !ok; p, ok, pure = f.lend(nBytes) {
		if !wait(ctx, time.Millisecond) {
			return false
		}
	}
	if !pure {
		s.r.fail("MEMORY: %s wrote to a source", s.n.name)
	}
	b := f.bytes(p)
	fill(b, o.id)
	var once atomic.Bool
	s.lent.Add(1)
	sending.Add(1)
	r.Block(i, cut(b, int(o.pieces)), sumOf(o.id), func() {
		if once.Swap(true) {
			s.r.fail("SOURCE: %s was done with a block twice", s.n.name)
			return
		}
		if differs(b, o.id) >= 0 || !f.back(p) {
			s.r.fail("SOURCE: a block of %s was written to", s.n.name)
		}
		s.lent.Add(-1)
		sending.Done()
	})
	return true
}

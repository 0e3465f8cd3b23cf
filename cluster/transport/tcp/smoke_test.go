package tcp_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

type echo struct{}

func (echo) Hello(transport.Hello) error { return nil }
func (echo) Call(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte) ([]byte, error) {
	return append([]byte("re: "), body...), nil
}
func (echo) Fetch(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	for i := range n {
		if i == 1 {
			r.None(i, transport.Miss)
			continue
		}
		r.Block(i, [][]byte{bytes.Repeat([]byte{byte(i + 1)}, 1<<20)}, uint64(i), func() {})
	}
	return body, nil
}
func (echo) Push(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte, in transport.Incoming) ([]byte, error) {
	sum := 0
	for i := range in.Blocks() {
		b := make([]byte, in.BlockBytes(i))
		if err := in.Receive([][]byte{b}); err != nil {
			return nil, err
		}
		for _, x := range b {
			sum += int(x)
		}
	}
	return []byte{byte(sum)}, nil
}

func TestSmoke(t *testing.T) {
	a, err := tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	self := transport.Hello{PoolID: "p", Name: "a", ProtocolLow: 1, ProtocolHigh: 1}
	done := make(chan error)
	go func() { done <- a.Serve(self, echo{}) }()
	l, err := a.Dial(t.Context(), a.Address().String(), self)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := l.Call(t.Context(), 7, []byte("hello"))
	if string(answer) != "re: hello" || err != nil {
		t.Fatal(answer, err)
	}
	f := &transport.Fetching{}
	for range 8 {
		f.Blocks = append(f.Blocks, transport.Block{Dst: [][]byte{make([]byte, 1000), make([]byte, 1<<20-1000)}})
	}
	answer, err = l.Fetch(t.Context(), 8, []byte("x"), f)
	if string(answer) != "x" || err != nil {
		t.Fatal(answer, err)
	}
	for i, b := range f.Blocks {
		t.Log(i, b.Status, b.Checksum, b.Dst[0][0], b.Dst[1][1<<20-1001])
	}
	var blocks [][][]byte
	for i := range 8 {
		blocks = append(blocks, [][]byte{make([]byte, 100), bytes.Repeat([]byte{byte(i)}, 1<<20-1)})
	}
	answer, err = l.Push(t.Context(), 8, []byte("x"), blocks)
	t.Log(answer, err)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

package tcp

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// HelloBytes is what one says that asks for a new link.
func HelloBytes(h transport.Hello) []byte {
	m := hello{Hello: h, Part: partCalls, SilenceMS: 10000}
	return m.append(nil)
}

// FrameBytes is a frame's header with a good checksum.
func FrameBytes(kind uint8, call uint64, index, offset, total uint32) []byte {
	h := header{Type: frameType(kind), Call: call, Index: index, Offset: offset, Total: total}
	h.Length = min(total-offset, chunkBytes)
	return h.append(nil)
}

// BeatBytes is a sign of life.
func BeatBytes() []byte { return appendBeat(nil) }

func messageBytes(t frameType, call uint64, sizes []uint32, body string) []byte {
	it := &item{body: seal(sizes, []byte(body))}
	n := uint32(len(it.body))
	return appendMessage(nil, it, &header{Type: t, Code: 1, Call: call, Index: uint32(len(sizes)), Length: n, Total: n})
}

// CallBytes is a whole Call.
func CallBytes(call uint64, body string) []byte { return messageBytes(typeCall, call, nil, body) }

// FetchBytes is a whole Fetch of blocks of one size.
func FetchBytes(call uint64, blocks int, blockBytes uint32) []byte {
	sizes := make([]uint32, blocks)
	for i := range sizes {
		sizes[i] = blockBytes
	}
	return messageBytes(typeFetch, call, sizes, "")
}

// ReadAnswer reads frames until the answer of a call has come.
func ReadAnswer(t *testing.T, c net.Conn, call uint64) string {
	t.Helper()
	for {
		head := make([]byte, headerBytes)
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatal(err)
		}
		h, err := parseHeader(head)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, h.Length)
		if _, err := io.ReadFull(c, body); err != nil {
			t.Fatal(err)
		}
		if h.Type == typeAnswer && h.Call == call {
			return string(body[:len(body)-sumBytes])
		}
	}
}

// RawLink makes a link with one connection for blocks, of which nobody reads or writes.
func RawLink(t *testing.T, address string, self transport.Hello) (calls, blocks net.Conn) {
	t.Helper()
	greet := func(m hello) (net.Conn, hello) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, helloHeadBytes)
		_, err = c.Write(m.append(nil))
		if err == nil {
			_, err = io.ReadFull(c, head)
		}
		if err != nil {
			t.Fatal(err)
		}
		answer, err := readHello(c, head)
		if err != nil || answer.Part != partWelcome {
			t.Fatal(answer, err)
		}
		return c, answer
	}
	m := hello{Hello: self, Part: partCalls, SilenceMS: 10000}
	calls, welcome := greet(m)
	m.Part, m.Token = partBlocks, welcome.Token
	blocks, _ = greet(m)
	return calls, blocks
}

// WatchContext has the context of a transport that does not serve yet count what waits for
// its end.
func (t *Transport) WatchContext() (waiting *atomic.Int64) {
	w := &watched{Context: t.ctx}
	t.ctx = w
	return &w.waiting
}

type watched struct {
	context.Context
	waiting atomic.Int64
}

// Value hides the context within.
func (w *watched) Value(any) any { return nil }

// AfterFunc is what package context calls for every one that waits.
func (w *watched) AfterFunc(f func()) (stop func() bool) {
	w.waiting.Add(1)
	end := context.AfterFunc(w.Context, f)
	return func() bool {
		w.waiting.Add(-1)
		return end()
	}
}

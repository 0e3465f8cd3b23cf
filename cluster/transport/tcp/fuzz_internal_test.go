package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

var sampleHello = hello{
	Hello: transport.Hello{PoolID: "red", Node: member.ID{1, 2, 3, 15: 16}, Name: "n1", ProtocolLow: 1, ProtocolHigh: 2},
	Part:  partWelcome, Code: transport.CodeDenied, SilenceMS: 10000, Token: [16]byte{7}, Handlers: 64, InFlightBytes: 1 << 27, Text: "why",
}

var sampleHeader = header{Type: typeData, Code: 3, Length: chunkBytes, Call: 1 << 40, Index: 5, Offset: chunkBytes, Total: 3 * chunkBytes, Extra: 1 << 60}

// TestBytes holds the format still: other bytes are another version.
func TestBytes(t *testing.T) {
	const (
		wantHello = "5350574c504545520100020746000000" + "01020300000000000000000000000010" + "01020000" + "10270000" +
			"07000000000000000000000000000000" + "40000000" + "0000000800000000" + "00000000" +
			"0300726564" + "02006e31" + "0300776879"
		wantHeader = "0a030000" + "00000400" + "0000000000010000" + "05000000" + "00000400" + "00000c00" + "0000000000000010"
	)
	for _, c := range []struct {
		got  []byte
		want string
	}{{sampleHello.append(nil), wantHello}, {sampleHeader.append(nil), wantHeader}} {
		if got := hex.EncodeToString(c.got[:len(c.got)-4]); got != c.want {
			t.Errorf("the bytes are\n%s, want\n%s", got, c.want)
		}
	}
	h, err := parseHeader(sampleHeader.append(nil))
	if err != nil || h != sampleHeader {
		t.Errorf("%+v, %v", h, err)
	}
	b := sampleHello.append(nil)
	m, err := readHello(bytes.NewReader(b[helloHeadBytes:]), b[:helloHeadBytes])
	if err != nil || m != sampleHello {
		t.Errorf("%+v, %v", m, err)
	}
	for i := range b { // no bit may change unseen
		b[i] ^= 4
		if m, err := readHello(bytes.NewReader(b[helloHeadBytes:]), b[:helloHeadBytes]); err == nil {
			t.Errorf("a hello with byte %d changed is %+v", i, m)
		}
		b[i] ^= 4
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(sampleHeader.append(nil))
	f.Add(appendBeat(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerBytes {
			return
		}
		for _, b := range [][]byte{b[:headerBytes], resum(b[:headerBytes])} {
			h, err := parseHeader(b)
			if err != nil {
				if !errors.Is(err, errMalformed) {
					t.Fatalf("error %v", err)
				}
				continue
			}
			if h.Length > chunkBytes || h.Index > BlocksMax && h.Type != typeNone && h.Type != typeGo && h.Type != typeAbort && h.Type != typeCancel && h.Type != typeBeat {
				t.Fatalf("%+v was let through", h)
			}
			if again := h.append(nil); !bytes.Equal(again, b) {
				t.Fatalf("%x became %x", b, again)
			}
		}
	})
}

// resum gives a header a good checksum.
func resum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(b[:36]), crc32.Checksum(b[:36], castagnoli))
}

func FuzzHello(f *testing.F) {
	f.Add(sampleHello.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < helloHeadBytes {
			return
		}
		h, err := readHello(bytes.NewReader(b[helloHeadBytes:]), b[:helloHeadBytes])
		if err != nil {
			return
		}
		if n := len(h.PoolID) + len(h.Name) + len(h.Text); n > helloBodyMax {
			t.Fatalf("texts of %d bytes were let through", n)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add(seal([]uint32{1, 2}, []byte("body")), 2)
	f.Add(seal(nil, nil), 0)
	f.Fuzz(func(t *testing.T, b []byte, blocks int) {
		if blocks < 0 || blocks > BlocksMax {
			return
		}
		m := message{chunks: [][]byte{b[:len(b)/2], b[len(b)/2:]}, come: len(b), total: uint32(len(b))}
		if sizes, body, err := m.open(blocks); err == nil && !bytes.Equal(seal(sizes, body), b) {
			t.Fatalf("%x became %x", b, seal(sizes, body))
		}
	})
}

// answering is a handler for what the fuzzer comes up with.
type answering struct{}

func (answering) Hello(transport.Hello) error { return nil }
func (answering) Call(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte) ([]byte, error) {
	return body, nil
}

func (answering) Fetch(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	for i := range n {
		r.None(i, transport.Refused)
	}
	return body, nil
}

func (answering) Push(_ context.Context, _ transport.Hello, _ transport.Kind, body []byte, in transport.Incoming) ([]byte, error) {
	for range in.Blocks() {
		if err := in.Receive(nil); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// FuzzSession gives both ends of a link frames with good checksums and any fields.
func FuzzSession(f *testing.F) {
	f.Add([]byte{1, 1, 20, 1, 0, 0, 4, 1, 5, 9}, true)
	f.Add([]byte{3, 2, 200, 1, 0, 0, 10, 1, 255, 10, 1, 0, 3, 1, 0}, true)
	f.Add([]byte{5, 1, 20, 10, 1, 200, 7, 1, 1}, false)
	f.Fuzz(func(t *testing.T, program []byte, serving bool) {
		n := &Transport{sessions: map[*session]bool{}, guests: map[[tokenBytes]byte]*guest{}, handler: answering{}}
		n.o.setDefaults()
		n.ctx, n.cancel = context.WithCancel(t.Context())
		defer n.cancel()
		peer := sampleHello
		var s *session
		if serving {
			s = newGuest(n, peer, 1).session
		} else {
			l := newLink(n, peer, 1)
			s = l.session
			blocks := make([]transport.Block, 3)
			for i := range blocks {
				blocks[i].Dst = [][]byte{make([]byte, i*300_000)}
			}
			n.running.Go(func() { _, _ = l.Fetch(n.ctx, 1, nil, &transport.Fetching{Blocks: blocks}) })
			n.running.Go(func() { _, _ = l.Push(n.ctx, 1, nil, [][][]byte{{make([]byte, 10)}, {make([]byte, 300_000)}}) })
			for l.find(2) == nil {
				time.Sleep(time.Microsecond)
			}
		}
		n.add(s)
		for _, blocks := range []bool{false, true} {
			socket := &scripted{frames: frames(program, blocks)}
			if _, err := s.attach(socket, blocks); err != nil {
				t.Fatal(err)
			}
		}
		<-s.done
		n.running.Wait()
	})
}

// frames makes a stream of what the fuzzer says: type, call and size, three bytes a frame.
func frames(program []byte, blocks bool) []byte {
	var b []byte
	for ; len(program) >= 3 && len(b) < 4<<20; program = program[3:] {
		kind, call, size := frameType(program[0]&15), uint64(program[1]&3), uint32(program[2])
		if blocks != (kind == typeData || kind == typeAbort) {
			continue
		}
		h := header{Type: kind, Call: call, Index: size & 3, Code: uint8(size)}
		var body []byte
		switch kind {
		case typeCall, typeFetch, typePush, typeAnswer, typeError:
			body = seal(make([]uint32, h.Index), make([]byte, size*3000))
		case typeData:
			body = make([]byte, h.Index*300_000+size&4)
		}
		h.Total = uint32(len(body))
		h.Offset = min(uint32(program[1]>>2&1)*chunkBytes, h.Total/chunkBytes*chunkBytes)
		h.Length = min(h.Total-h.Offset, chunkBytes)
		b = append(h.append(b), body[h.Offset:h.Offset+h.Length]...)
		if kind == typeData {
			b = append(b, uint8(size&8))
		}
	}
	return b
}

// scripted is a connection that brings bytes and then ends.
type scripted struct {
	net.Conn
	frames []byte
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.frames) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.frames)
	s.frames = s.frames[n:]
	return n, nil
}

func (s *scripted) Write(b []byte) (int, error) { return len(b), nil }
func (s *scripted) Close() error                { return nil }
func (s *scripted) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

package tcp_test

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

// knock sends bytes to a node, and returns what it says before it hangs up.
func knock(t *testing.T, n *tcp.Transport, b []byte, hangUp bool) string {
	t.Helper()
	c, err := net.Dial("tcp", n.Address().String())
	must(t, err)
	defer c.Close()
	_, _ = c.Write(b) // it may hang up in between
	if hangUp {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	return string(discard(c))
}

// TestNoise: whatever knocks is turned away, soon and without large allocations.
func TestNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	noise[0] = 1
	long := append([]byte("SPWLPEER\x01\x00\x00\x00"), 0xff, 0xff, 0xff, 0xff)
	bad := append([]byte("SPWLPEER\x01\x00\x00\x00\x60\x00\x00\x00"), noise[:100]...)
	future := append([]byte("SPWLPEER\x07\x00\x00\x00\x60\x00\x00\x00"), noise[:100]...)
	knocks := map[string][]byte{
		"noise": noise, "long": append(long, noise...), "bad": bad, "short": []byte("SPWL"), "zeros": make([]byte, 1000),
		"HTTP":   []byte("GET / HTTP/1.1\r\nHost: n0\r\nUser-Agent: a browser of some kind\r\n\r\n"),
		"nobody": nil,
	}
	for _, secure := range []bool{false, true} {
		o := tcp.Options{}
		if secure {
			o.TLS = newAuthority(t, "ours").files(t.TempDir(), "n0", -1, 1)
		}
		server := listen(t, o)
		serve(t, server, handler{})
		knock(t, server, nil, true) // what is made once
		for name, b := range knocks {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			was := server.Counts().Noise + server.Counts().Plain + server.Counts().Certificates
			answer := knock(t, server, b, true)
			until(t, name+" is counted", func() bool {
				c := server.Counts()
				return c.Noise+c.Plain+c.Certificates == was+1
			})
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 512<<10 {
				t.Errorf("%s: %d bytes were allocated", name, got)
			}
			if len(answer) > 1100 {
				t.Errorf("%s: it is told %d bytes", name, len(answer))
			}
		}
		if answer := knock(t, server, future, true); !secure && len(answer) == 0 {
			t.Error("a peer of another format is told nothing")
		}
		l := dial(t, listen(t, o), server.Address().String())
		echoes(t, l)
	}
}

// TestSlowHello: who says nothing is hung up on.
func TestSlowHello(t *testing.T) {
	server := listen(t, tcp.Options{HelloTime: 50e6})
	serve(t, server, handler{})
	for _, b := range [][]byte{nil, []byte("SPWLPEER"), append([]byte("SPWLPEER\x01\x00\x00\x00"), 0x60, 0, 0, 0)} {
		knock(t, server, b, false)
	}
	until(t, "all are counted", func() bool { return server.Counts().Noise == 3 })
}

// TestFull: connections are bounded; the room of one that ends is used again.
func TestFull(t *testing.T) {
	server := listen(t, tcp.Options{ConnectionsMax: 3, Connections: 2})
	serve(t, server, handler{})
	client := listen(t, tcp.Options{Connections: 2})
	l := dial(t, client, server.Address().String())
	if _, err := client.Dial(t.Context(), server.Address().String(), hello(2)); err == nil {
		t.Error("a fourth connection was taken in")
	}
	if server.Counts().Full == 0 {
		t.Error("it is not counted")
	}
	echoes(t, l)
	must(t, l.Close())
	until(t, "there is room again", func() bool {
		l, err := client.Dial(t.Context(), server.Address().String(), hello(2))
		if err == nil {
			echoes(t, l)
		}
		return err == nil
	})
}

// TestBadPeer: a peer that breaks the protocol after its hello loses its link, without
// harm to others.
func TestBadPeer(t *testing.T) {
	server := listen(t, tcp.Options{})
	serve(t, server, handler{fetch: sendAll(100)})
	good := dial(t, listen(t, tcp.Options{}), server.Address().String())
	rng := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		c, err := net.Dial("tcp", server.Address().String())
		must(t, err)
		_, err = c.Write(tcp.HelloBytes(hello(1)))
		must(t, err)
		_, err = io.ReadFull(c, make([]byte, 16))
		must(t, err)
		b := tcp.FrameBytes(uint8(rng.IntN(16)), rng.Uint64N(3), rng.Uint32N(6000), rng.Uint32N(3)<<18, rng.Uint32()>>rng.IntN(30))
		if rng.IntN(3) == 0 {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		junk := make([]byte, rng.IntN(400<<10))
		binary.LittleEndian.PutUint64(append(junk, make([]byte, 8)...), rng.Uint64())
		_, _ = c.Write(append(b, junk...))
		_ = c.(*net.TCPConn).CloseWrite()
		discard(c)
		_ = c.Close()
	}
	echoes(t, good)
}

// TestNothingLeft: of those who were turned away nothing is left, however many they are.
func TestNothingLeft(t *testing.T) {
	server := listen(t, tcp.Options{})
	waiting := server.WatchContext()
	serve(t, server, handler{})
	for range 20 {
		knock(t, server, []byte("GET / HTTP/1.1\r\n"), true)
	}
	until(t, "all are counted", func() bool { return server.Counts().Noise == 20 })
	until(t, "nothing waits for the transport's end", func() bool { return waiting.Load() == 0 })
}

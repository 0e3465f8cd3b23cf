package tcp_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

const (
	benchBlocks = 64 // that the server has in memory
	benchDepth  = 16
)

func benchData(blockBytes int) [][]byte {
	data := make([][]byte, benchBlocks)
	for i := range data {
		data[i] = fill(i, blockBytes)
	}
	return data
}

// BenchmarkFetch fetches blocks that lie in memory, 16 at once, and hashes them.
func BenchmarkFetch(b *testing.B) {
	for _, blockBytes := range []int{64 << 10, 1 << 20} {
		for connections := 1; connections <= tcp.LinkConnectionsMax; connections *= 2 {
			b.Run(fmt.Sprintf("%dKiB/conns=%d", blockBytes>>10, connections), func(b *testing.B) {
				data := benchData(blockBytes)
				server := must2(tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"}))(b)
				served := make(chan error, 1)
				go func() {
					served <- server.Serve(hello(0), handler{fetch: func(_ context.Context, n int, r transport.Reply) ([]byte, error) {
						for i := range n {
							r.Block(i, [][]byte{data[i]}, 0, func() {})
						}
						return nil, nil
					}})
				}()
				client := must2(tcp.Listen(tcp.Options{Listen: "127.0.0.1:0", Connections: connections}))(b)
				l := must2(client.Dial(b.Context(), server.Address().String(), hello(1)))(b)
				b.SetBytes(int64(blockBytes))
				atDepth(b, func() func() {
					f := &transport.Fetching{Blocks: []transport.Block{{Dst: [][]byte{make([]byte, blockBytes)}}}}
					return func() {
						f.Blocks[0].Status = transport.Unanswered
						if _, err := l.Fetch(b.Context(), 1, nil, f); err != nil || f.Blocks[0].Status != transport.Done {
							b.Error(err)
						}
						hashed.Store(xxh3.Hash(f.Blocks[0].Dst[0]))
					}
				})
				b.StopTimer()
				must(b, client.Close())
				must(b, server.Close())
				must(b, <-served)
			})
		}
	}
}

// BenchmarkCall is the round trip of a small call.
func BenchmarkCall(b *testing.B) {
	server := must2(tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"}))(b)
	served := make(chan error, 1)
	go func() { served <- server.Serve(hello(0), handler{}) }()
	client := must2(tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"}))(b)
	l := must2(client.Dial(b.Context(), server.Address().String(), hello(1)))(b)
	body := make([]byte, 1024)
	defer cpuPerOp(b)()
	for b.Loop() {
		if _, err := l.Call(b.Context(), 1, body); err != nil {
			b.Fatal(err)
		}
	}
	must(b, client.Close())
	must(b, server.Close())
	must(b, <-served)
}

// BenchmarkCalls is the same with many calls at once, of the size of a question for one
// block: what a transport whose blocks travel otherwise still asks of this one.
func BenchmarkCalls(b *testing.B) {
	server := must2(tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"}))(b)
	served := make(chan error, 1)
	go func() { served <- server.Serve(hello(0), handler{}) }()
	client := must2(tcp.Listen(tcp.Options{Listen: "127.0.0.1:0"}))(b)
	l := must2(client.Dial(b.Context(), server.Address().String(), hello(1)))(b)
	atDepth(b, func() func() {
		body := make([]byte, 128)
		return func() {
			if _, err := l.Call(b.Context(), 1, body); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	must(b, client.Close())
	must(b, server.Close())
	must(b, <-served)
}

var hashed atomic.Uint64

// cpuPerOp reports what b.N ops cost both sides: unlike time it stands still on a busy
// machine.
func cpuPerOp(b *testing.B) (stop func()) {
	used := func() int64 {
		var u unix.Rusage
		must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

func must2[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// atDepth runs b.N calls, benchDepth at once.
func atDepth(b *testing.B, worker func() func()) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	workers := make([]func(), benchDepth)
	for i := range workers {
		workers[i] = worker()
	}
	b.ResetTimer()
	defer cpuPerOp(b)()
	for _, do := range workers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				do()
			}
		})
	}
	all.Wait()
}

// BenchmarkBare is what plain sockets reach: as many requests under way, on one
// connection or more, nothing but a number for a block.
func BenchmarkBare(b *testing.B) {
	for _, blockBytes := range []int{64 << 10, 1 << 20} {
		for connections := 1; connections <= tcp.LinkConnectionsMax; connections *= 2 {
			b.Run(fmt.Sprintf("%dKiB/conns=%d", blockBytes>>10, connections), func(b *testing.B) { bare(b, blockBytes, connections) })
		}
	}
}

func bare(b *testing.B, blockBytes, connections int) {
	data := benchData(blockBytes)
	l := must2(net.Listen("tcp", "127.0.0.1:0"))(b)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				var ask [8]byte
				for {
					if _, err := io.ReadFull(c, ask[:]); err != nil {
						return
					}
					if _, err := c.Write(data[binary.LittleEndian.Uint64(ask[:])%benchBlocks]); err != nil {
						return
					}
				}
			})
		}
	})
	var left atomic.Int64
	left.Store(int64(b.N))
	b.SetBytes(int64(blockBytes))
	b.ResetTimer()
	defer cpuPerOp(b)()
	var clients sync.WaitGroup
	for range connections {
		c := must2(net.Dial("tcp", l.Addr().String()))(b)
		clients.Go(func() {
			defer c.Close()
			var ask [8]byte
			under := 0
			for ; under < benchDepth/connections && left.Add(-1) >= 0; under++ {
				_, _ = c.Write(ask[:])
			}
			blocks := make([][]byte, benchDepth/connections) // each request has its own place
			for i := range blocks {
				blocks[i] = make([]byte, blockBytes)
			}
			for i := 0; under > 0; i, under = i+1, under-1 {
				block := blocks[i%len(blocks)]
				if _, err := io.ReadFull(c, block); err != nil {
					b.Error(err)
					return
				}
				hashed.Store(xxh3.Hash(block))
				if left.Add(-1) >= 0 {
					under++
					_, _ = c.Write(ask[:])
				}
			}
		})
	}
	clients.Wait()
	b.StopTimer()
	_ = l.Close()
	all.Wait()
}

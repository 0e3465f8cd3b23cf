package tcp_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

// cutShort is memory of a file of which only the first pages are left.
func cutShort(t *testing.T, nBytes, leftBytes int) []byte {
	t.Helper()
	fd, err := unix.MemfdCreate("cut", unix.MFD_CLOEXEC)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Ftruncate(fd, int64(nBytes)))
	mem, err := unix.Mmap(fd, 0, nBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	must(t, unix.Ftruncate(fd, int64(leftBytes)))
	return mem
}

// overBoth runs a test over plain text and over TLS, with a link to a node with h.
func overBoth(t *testing.T, o tcp.Options, h transport.Handler, test func(t *testing.T, l transport.Link, server *tcp.Transport)) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
			o := o
			if secure {
				o.TLS = newAuthority(t, "ours").files(t.TempDir(), "n0", -1, 1)
			}
			server := listen(t, o)
			serve(t, server, h)
			test(t, dial(t, listen(t, o), server.Address().String()), server)
		})
	}
}

// leftBytes are tried: nothing is left, some of the first chunk, some of the last.
func leftBytes(nBytes int) []int {
	page := os.Getpagesize()
	return []int{0, page, 10 * page, nBytes/2 + page, nBytes - page}
}

// TestFetchIntoGoneMemory: memory that its owner has taken away fails its own block, and
// nothing else on the link.
func TestFetchIntoGoneMemory(t *testing.T) {
	const blockBytes = 700 << 10
	overBoth(t, tcp.Options{}, handler{fetch: sendAll(blockBytes)}, func(t *testing.T, l transport.Link, _ *tcp.Transport) {
		for _, left := range leftBytes(blockBytes) {
			for gone := range 2 {
				f := &transport.Fetching{Blocks: blocksOf(4, blockBytes)}
				f.Blocks[gone].Dst = [][]byte{make([]byte, 1000), cutShort(t, blockBytes, left)[:blockBytes-1000]}
				if _, err := l.Fetch(t.Context(), 1, nil, f); err != nil {
					t.Fatal(err)
				}
				for i, b := range f.Blocks {
					switch {
					case i == gone && b.Status != transport.Faulted:
						t.Errorf("%d bytes left: status %d, want Faulted", left, b.Status)
					case i != gone && (b.Status != transport.Done || string(b.Dst[0]) != string(fill(i, blockBytes))):
						t.Errorf("%d bytes left: another block has status %d, or other bytes", left, b.Status)
					}
				}
			}
		}
		echoes(t, l)
	})
}

// TestReplyFromGoneMemory: a block whose source is gone is missed.
func TestReplyFromGoneMemory(t *testing.T) {
	const blockBytes = 700 << 10
	sources := make(chan []byte, 1)
	h := handler{fetch: func(_ context.Context, n int, r transport.Reply) ([]byte, error) {
		gone := <-sources
		for i := range n {
			b := fill(i, blockBytes)
			if i == 1 {
				b = gone
			}
			r.Block(i, [][]byte{b[:17], b[17:]}, 0, func() {})
		}
		return nil, nil
	}}
	overBoth(t, tcp.Options{}, h, func(t *testing.T, l transport.Link, _ *tcp.Transport) {
		for _, left := range leftBytes(blockBytes) {
			sources <- cutShort(t, blockBytes, left)
			f := &transport.Fetching{Blocks: blocksOf(4, blockBytes)}
			if _, err := l.Fetch(t.Context(), 1, nil, f); err != nil {
				t.Fatal(err)
			}
			for i, b := range f.Blocks {
				switch {
				case i == 1 && b.Status != transport.Miss:
					t.Errorf("%d bytes left: status %d, want Miss", left, b.Status)
				case i != 1 && (b.Status != transport.Done || string(b.Dst[0]) != string(fill(i, blockBytes))):
					t.Errorf("%d bytes left: another block has status %d, or other bytes", left, b.Status)
				}
			}
		}
		echoes(t, l)
	})
}

// TestPushGoneMemory: the same, at either end of a Push.
func TestPushGoneMemory(t *testing.T) {
	const blockBytes = 700 << 10
	into := make(chan []byte, 1)
	h := handler{push: func(_ context.Context, in transport.Incoming) ([]byte, error) {
		gone := <-into
		var statuses []byte
		for i := range in.Blocks() {
			b := make([]byte, blockBytes)
			if i == 2 && gone != nil {
				b = gone
			}
			switch err := in.Receive([][]byte{b[:17], b[17:]}); {
			case errors.Is(err, syscall.EFAULT):
				statuses = append(statuses, 'f')
			case err != nil:
				return nil, err
			case string(b) == string(fill(i, blockBytes)):
				statuses = append(statuses, '.')
			default:
				statuses = append(statuses, '!')
			}
		}
		return statuses, nil
	}}
	overBoth(t, tcp.Options{}, h, func(t *testing.T, l transport.Link, _ *tcp.Transport) {
		for _, left := range leftBytes(blockBytes) {
			blocks := make([][][]byte, 5)
			for i := range blocks {
				blocks[i] = [][]byte{fill(i, blockBytes)}
			}
			into <- cutShort(t, blockBytes, left)
			if answer, err := l.Push(t.Context(), 1, nil, blocks); err != nil || string(answer) != "..f.." {
				t.Errorf("into memory of which %d bytes are left: %s, %v", left, answer, err)
			}
			gone := cutShort(t, blockBytes, left)
			blocks[1] = [][]byte{gone[:5], gone[5:]}
			into <- nil
			if answer, err := l.Push(t.Context(), 1, nil, blocks); err != nil || string(answer) != ".f..." {
				t.Errorf("from memory of which %d bytes are left: %s, %v", left, answer, err)
			}
		}
		echoes(t, l)
	})
}

// TestSlowHandler: blocks of a push that nobody receives yet hold no other push up.
func TestSlowHandler(t *testing.T) {
	const blockBytes = 600 << 10
	slow := make(chan struct{})
	h := handler{push: func(ctx context.Context, in transport.Incoming) ([]byte, error) {
		for i := range in.Blocks() {
			b := make([]byte, in.BlockBytes(i))
			if err := in.Receive([][]byte{b}); err != nil {
				return nil, err
			}
			if in.Blocks() == 3 && i == 0 {
				<-slow
			}
			if string(b) != string(fill(i, blockBytes)) {
				return nil, errors.New("other bytes")
			}
		}
		return nil, nil
	}}
	overBoth(t, tcp.Options{Connections: 1}, h, func(t *testing.T, l transport.Link, _ *tcp.Transport) {
		blocks := [][][]byte{{fill(0, blockBytes)}, {fill(1, blockBytes)}, {fill(2, blockBytes)}, {fill(3, blockBytes)}}
		first := make(chan error)
		go func() {
			_, err := l.Push(t.Context(), 1, nil, blocks[:3])
			first <- err
		}()
		for range 3 {
			_, err := l.Push(t.Context(), 1, nil, blocks)
			must(t, err)
		}
		slow <- struct{}{}
		must(t, <-first)
	})
}

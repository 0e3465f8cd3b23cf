package rdma

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// TestSourceGone has a block in memory of a file that is cut short: it is missed, whatever
// of it was sent, and the others are not.
func TestSourceGone(t *testing.T) {
	const nBytes = 1 << 20
	fd, err := unix.MemfdCreate("gone", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, nBytes); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(fd, 0, nBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	if err := unix.Ftruncate(fd, nBytes/2); err != nil {
		t.Fatal(err)
	}
	serve(t, 1, Options{}, func(r *rig) {
		c := r.caller(1).up()
		defer c.end()
		l := &lender{T: r.T}
		r.on(func(_ context.Context, _ []byte, _ int, reply transport.Reply) ([]byte, error) {
			for i := range 3 {
				p, done := l.lend(r.memory, content(uint64(i), nBytes), nBytes)
				if i == 1 {
					p = [][]byte{p[0][:100], memory[100:]}
				}
				reply.Block(i, p, 7, done)
			}
			return nil, nil
		})
		m := c.ask(0, 0, nBytes, nBytes, nBytes, nBytes)
		_, err := c.fetch(m)
		r.must(err)
		got := c.records(0, 3)
		for i, want := range []transport.Status{transport.Done, transport.Miss, transport.Done} {
			if got[uint32(i)].status != want {
				r.Errorf("block %d has status %d, want %d", i, got[uint32(i)].status, want)
			}
			if want == transport.Done {
				c.arrived(m, i, content(uint64(i), nBytes))
			}
		}
		r.settle()
		l.back()
	})
}

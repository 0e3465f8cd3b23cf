// Package mount tests a node and its clients together, over real sockets, files
// and shared memory.
package mount

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a node with its stores and socket.
type rig struct {
	t       testing.TB
	dirs    []string
	socket  string
	options node.Options
	store   engine.Options
	disk    *sim.Disk // in place of the first directory; may be nil
	index   *vfs.MemFS

	node   *node.Node
	served chan error
}

// newRig makes the directories of so many stores; start starts the node.
func newRig(t testing.TB, stores int) *rig {
	t.Helper()
	r := &rig{t: t, socket: filepath.Join(t.TempDir(), "s"), store: engine.Options{CapacityBytes: 64 << 20, AnyFileSystem: true, BufferedIO: true}}
	for i := range stores {
		r.dirs = append(r.dirs, filepath.Join(t.TempDir(), fmt.Sprint("store", i)))
	}
	return r
}

func (r *rig) start() *rig {
	r.t.Helper()
	o := r.options
	for _, dir := range r.dirs {
		so := r.store
		if so.Dir = dir; r.disk != nil {
			dev, err := r.disk.Open()
			must(r.t, err)
			so.Device, so.IndexFS = dev, r.index
		}
		s, err := engine.Open(so)
		must(r.t, err)
		o.Stores = append(o.Stores, s)
	}
	n, err := node.New(o)
	must(r.t, err)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.socket, Net: "unix"})
	must(r.t, err)
	r.node, r.served = n, make(chan error, 1)
	go func() { r.served <- n.Serve(l) }()
	r.t.Cleanup(r.stop)
	return r
}

// stop ends the node, if it runs, and closes its stores.
func (r *rig) stop() {
	r.t.Helper()
	if r.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	must(r.t, r.node.Close(ctx))
	must(r.t, <-r.served)
	for _, s := range r.node.Stores() {
		must(r.t, s.Close())
	}
	r.node = nil
}

func (r *rig) dial() *client.Client {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Path: r.socket, Name: r.t.Name()})
	must(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

const blockBytes = 16 << 10

func descriptor(name string) engine.Descriptor {
	return engine.Descriptor{Name: name, BlockBytes: blockBytes}
}

func open(t testing.TB, c *client.Client, name string) *client.Namespace {
	t.Helper()
	ns, err := c.Namespace(context.Background(), descriptor(name), "")
	must(t, err)
	return ns
}

// pool is a region of rows, and blocks that lie in it.
type pool struct {
	t testing.TB
	r *client.Region
}

func newPool(t testing.TB, c *client.Client, rows int) pool {
	t.Helper()
	r, err := c.Allocate(int64(rows) * blockBytes)
	must(t, err)
	return pool{t, r}
}

func key(n int) []byte { return fmt.Appendf(nil, "key-%08d", n) }

func (p pool) row(i int) []byte { return p.r.Bytes()[i*blockBytes:][:blockBytes] }

// fill writes the content of block n into row i.
func (p pool) fill(i, n int) {
	row := p.row(i)
	for k := 0; k < len(row); k += 8 {
		binary.LittleEndian.PutUint64(row[k:], uint64(n)*0x9e3779b97f4a7c15+uint64(k))
	}
}

// holds reports whether row i has the content of block n.
func (p pool) holds(i, n int) bool {
	row := p.row(i)
	for k := 0; k < len(row); k += 8 {
		if binary.LittleEndian.Uint64(row[k:]) != uint64(n)*0x9e3779b97f4a7c15+uint64(k) {
			return false
		}
	}
	return true
}

// blocks are the blocks from..from+n-1 in rows 0..n-1.
func (p pool) blocks(from, n int) []client.Block {
	all := make([]client.Block, n)
	for i := range all {
		all[i] = client.Block{Key: key(from + i), Places: []client.Place{p.r.Row(i, blockBytes)}}
	}
	return all
}

func keys(from, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = key(from + i)
	}
	return all
}

// put stores blocks from..from+n-1 by way of the rows.
func (p pool) put(ns *client.Namespace, from, n int, want ...client.Status) {
	p.t.Helper()
	for i := range n {
		p.fill(i, from+i)
	}
	wantAll(p.t, ns.Put(p.blocks(from, n), client.PutOptions{}).Wait(), want...)
}

// get reads them and checks their bytes.
func (p pool) get(ns *client.Namespace, from, n int, want ...client.Status) {
	p.t.Helper()
	clear(p.r.Bytes())
	result := ns.Get(p.blocks(from, n), client.GetOptions{}).Wait()
	wantAll(p.t, result, want...)
	for i, s := range result.Statuses {
		if s == client.Hit && !p.holds(i, from+i) {
			p.t.Fatalf("block %d: wrong bytes", from+i)
		}
	}
}

// wantAll wants every status to be one of those.
func wantAll(t testing.TB, r client.Result, want ...client.Status) {
	t.Helper()
	for i, s := range r.Statuses {
		ok := false
		for _, w := range want {
			ok = ok || s == w
		}
		if !ok {
			t.Fatalf("item %d is %v, want %v", i, s, want)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until what is so; it fails after a minute.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

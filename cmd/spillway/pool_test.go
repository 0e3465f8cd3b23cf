package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/engine"
)

// poolNode is a daemon of a pool within this process.
type poolNode struct {
	t      *testing.T
	dir    string
	name   string
	socket string
	stop   context.CancelFunc
	ended  chan outcome
}

// startNode runs serve as a node of the pool "try", on ports that are free.
func startNode(t *testing.T, name string, more ...string) *poolNode {
	t.Helper()
	n := newNode(t, name)
	args := append([]string{"serve", "--socket", n.socket, "--capacity", "64MiB", "--pool", "try", "--pool-name", name, "--pool-listen", "127.0.0.1:0"}, more...)
	n.start(process{t: t}, anywhere(filepath.Join(n.dir, "store"), args...)...)
	return n
}

func newNode(t *testing.T, name string) *poolNode {
	dir := t.TempDir()
	return &poolNode{t: t, dir: dir, name: name, socket: filepath.Join(dir, "s"), ended: make(chan outcome, 1)}
}

// start runs serve, and waits for its answers.
func (n *poolNode) start(p process, args ...string) {
	n.t.Helper()
	p.ctx, n.stop = context.WithCancel(n.t.Context())
	go func() { n.ended <- p.run(args...) }()
	n.t.Cleanup(n.end)
	n.eventually("there is a socket for operators and it answers", func() bool { return n.run("pool", "status").code == exitPass })
}

// run runs a command of an operator at the node.
func (n *poolNode) run(args ...string) outcome {
	return process{t: n.t}.run(append(args, "--socket", n.socket)...)
}

func (n *poolNode) gossip() string {
	n.t.Helper()
	return n.run("pool", "status", "--json").want(n.t, exitPass, "", "").object(n.t, "pool_status")["gossip"].(string)
}

func (n *poolNode) eventually(what string, is func() bool) {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		select {
		case o := <-n.ended:
			n.ended = nil
			n.t.Fatalf("%s has ended: %+v", n.name, o)
		default:
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s, never: %s\n%s\n%s", n.name, what, n.run("pool", "members").stdout, n.run("pool", "events").stdout)
		}
	}
}

func (n *poolNode) sees(text string) {
	n.t.Helper()
	n.eventually("members show "+text, func() bool {
		return strings.Contains(strings.Join(strings.Fields(n.run("pool", "members").stdout), " "), " "+text) // an ID may end like a name
	})
}

// end stops the daemon and wants it to end well.
func (n *poolNode) end() {
	n.stop()
	if n.ended != nil {
		(<-n.ended).want(n.t, exitPass, "", "msg=stopped")
		n.ended = nil
	}
}

// TestPoolCommands: what an operator asks two nodes, and what they answer; one leaves and
// is forgotten.
func TestPoolCommands(t *testing.T) {
	a := startNode(t, "a")
	b := startNode(t, "b", "--join", a.gossip())
	a.sees("b ")
	b.sees("a ")
	a.eventually("both are active", func() bool { return strings.Count(a.run("pool", "members").stdout, "active") == 2 })

	a.run("pool", "members", "--json").want(t, exitPass, `"name":"b"`, "").object(t, "pool_members")
	a.run("pool", "status").want(t, exitPass, "NO keyring, NO TLS", "").want(t, exitPass, "pool try", "")
	a.run("pool", "keys").want(t, exitPass, "no keys", "")
	a.run("pool", "keys", "list", "--json").want(t, exitPass, `"keys":[]`, "").object(t, "pool_keys")
	a.run("pool", "keys", "use", "00").want(t, exitUsage, "", "no key")
	a.run("pool", "keys", "add").want(t, exitUsage, "", "no key was given")
	a.run("pool", "forget", "a").want(t, exitError, "", "is this node")
	a.run("pool", "forget", "c").want(t, exitError, "", `no such node`)
	a.run("pool", "way", "tcp").want(t, exitError, "", "no other way than TCP: pool.transport is tcp")
	a.run("pool", "way", "rdma").want(t, exitUsage, "", "auto")
	a.run("pool", "way", "auto", "--for", "1m").want(t, exitUsage, "", "with tcp")
	a.run("pool", "locate", "none", "k").want(t, exitError, "", "namespace not found")
	a.run("pool", "locate", "none", "hex:0").want(t, exitUsage, "", "hex:")

	// A block of a's client is where a says.
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(wait, client.Options{Path: a.socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ns, err := c.Namespace(wait, engine.Descriptor{Name: "n", BlockBytes: 4096}, "")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := c.Allocate(4096)
	if err != nil {
		t.Fatal(err)
	}
	ns.Put([]client.Block{{Key: []byte("k"), Places: []client.Place{memory.Row(0, 4096)}}}, client.PutOptions{}).Wait()
	located := a.run("pool", "locate", "n", "k", "other", "--json").want(t, exitPass, "", "").object(t, "pool_locate")
	if blocks := located["blocks"].([]any); len(blocks[0].(map[string]any)["nodes"].([]any)) != 1 || len(blocks[1].(map[string]any)["nodes"].([]any)) != 0 {
		t.Errorf("%v", located)
	}
	a.run("pool", "locate", "n", "other").want(t, exitPass, "on none of a, b", "")

	top := a.run("top", "--once").want(t, exitPass, "PEER", "")
	if !strings.Contains(top.stdout, "active") {
		t.Error(top.stdout)
	}

	b.end()
	a.sees("b " + idOf(t, a, "b") + " left")
	a.run("pool", "forget", "b", "--json").want(t, exitPass, "forgot b", "").object(t, "pool_changed")
	a.eventually("b is not listed", func() bool { return !strings.Contains(a.run("pool", "members").stdout, "\nb ") })
	events := a.run("pool", "events", "--json").want(t, exitPass, `"kind":"left"`, "")
	if n := strings.Count(events.stdout, "\n"); n < 2 || strings.Count(a.run("pool", "events").stdout, "\n") < n {
		t.Errorf("%s", events.stdout)
	}
	a.run("pool", "events", "--after", "999").want(t, exitPass, "", "")
}

// idOf is the beginning of a node's ID, as members shows it.
func idOf(t *testing.T, n *poolNode, name string) string {
	t.Helper()
	for line := range strings.Lines(n.run("pool", "members").stdout) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[1]
		}
	}
	t.Fatalf("no %s", name)
	return ""
}

// TestForgetAlive: who has a node forgotten that runs hears what that does.
func TestForgetAlive(t *testing.T) {
	a := startNode(t, "a")
	b := startNode(t, "b", "--join", a.gossip())
	a.sees("b ")
	a.run("pool", "forget", "b").want(t, exitPass, "it was alive: its daemon ends", "")
	(<-b.ended).want(t, exitError, "", "this node was forgotten; start it again to rejoin")
	b.ended = nil
}

// TestPoolLines: what stands below the tables, each thing said once; and top's columns of
// peers line up.
func TestPoolLines(t *testing.T) {
	s := &admin.PoolStatus{}
	s.Peers = []pool.PeerStat{{Name: "b", Member: true, Link: "down", Cause: "refused"}, {Name: "c", Member: true, Link: "up"}, {Name: "d", Link: "down", Cause: "gone"}}
	if got := linkCauses(s); !slices.Equal(got, []string{"b: no link: refused"}) {
		t.Errorf("%q", got)
	}
	s.Peers[1].Way = transport.Way{Name: "tcp", Why: "it has no RDMA device"}
	if got := wayCauses(s); !slices.Equal(got, []string{"c: by tcp: it has no RDMA device"}) {
		t.Errorf("%q", got)
	}
	if got := noRDMA(s); got != nil {
		t.Errorf("nobody asked for it: %q", got)
	}
	s.Transport, s.TransportWhy = "tcp", "there is no RDMA here: no device"
	if got := noRDMA(s); !slices.Equal(got, []string{"by tcp, not by rdma: there is no RDMA here: no device"}) || !strings.HasSuffix(poolHead(s)[1][3], "by tcp") {
		t.Errorf("%q, %q", got, poolHead(s))
	}
	m := &admin.PoolMembers{Seeds: []admin.PoolSeed{{Seed: "10.0.0.1:7421", Error: "10.0.0.1:7421: nobody"}},
		TurnedAway: []admin.PoolRefusal{{Reason: "key mismatch", From: "x", Count: 1, Text: "key mismatch: it has another"}}}
	if got := complaints(m); !slices.Equal(got, []string{"seed 10.0.0.1:7421: nobody", "turned away, 0s ago, 1 time from x: key mismatch (it has another)"}) {
		t.Errorf("%q", got)
	}
	now := &admin.State{Stat: node.Stat{Pool: &s.Stat}}
	for i, row := range topPool(nil, now) {
		if len(row) != 17 {
			t.Errorf("row %d of top's peers: %d columns", i, len(row))
		}
	}
}

// TestPoolFollow: events come as they happen, until the user ends it.
func TestPoolFollow(t *testing.T) {
	a := startNode(t, "a")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- process{t: t, ctx: ctx}.run("pool", "events", "--follow", "--socket", a.socket) }()
	b := startNode(t, "b", "--join", a.gossip())
	a.sees("b ")
	b.end()
	a.eventually("b's end is an event", func() bool { return strings.Contains(a.run("pool", "events").stdout, "left") })
	stop()
	if o := <-ended; o.code != exitPass || !strings.Contains(o.stdout, "joined") {
		t.Errorf("%+v", o)
	}
}

// TestPoolRefused: what cannot be is said, with the exit code of its kind.
func TestPoolRefused(t *testing.T) {
	p := process{t: t}
	p.run("pool", "status", "--socket", "/tmp/none").want(t, exitError, "", "as a node of a pool")
	p.run("pool", "status", "--admin", "127.0.0.1:1").want(t, exitError, "", "is the daemon running")
	p.run("pool", "status", "--admin", "127.0.0.1:1", "--token-file", "/none").want(t, exitUsage, "", "/none")
	a := startNode(t, "a", "--admin", "127.0.0.1:0")
	dir := t.TempDir()
	// The same node twice, and the same name twice: the second gives up.
	second := anywhere(filepath.Join(dir, "store"), "serve", "--socket", filepath.Join(dir, "s"), "--capacity", "64MiB", "--pool", "try", "--pool-name", "b", "--pool-listen", "127.0.0.1:0")
	config := write(t, "c.toml", fmt.Sprintf("[pool]\ndir = %q\n", filepath.Join(a.dir, "store.pool")))
	p.run(append(second, "--config", config)...).want(t, exitUsage, "", "belongs to a node that runs")
	third := anywhere(filepath.Join(dir, "third"), "serve", "--socket", filepath.Join(dir, "s"), "--capacity", "64MiB", "--pool", "try", "--pool-name", "a", "--pool-listen", "127.0.0.1:0", "--join", a.gossip())
	p.run(third...).want(t, exitError, "", "another live node has this name")
	a.run("pool", "members").want(t, exitPass, "a (this)", "")
	if info, err := os.Stat(a.socket + admin.SocketSuffix); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

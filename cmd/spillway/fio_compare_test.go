package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/fio/result"
)

// TestFioOrigin: a job that reads through a node of a pool says which blocks came from
// there and which from the other node, all that it read and no more; two transports are not
// compared where there is one.
func TestFioOrigin(t *testing.T) {
	a := startLocal(t, "a", nil, "")
	b := startLocal(t, "b", nil, fmt.Sprintf("seeds = [%q]", a.gossip()))
	b.eventually("both are active, and linked", func() bool {
		var s struct{ Peers []struct{ Link string } }
		_ = json.Unmarshal([]byte(b.run("pool", "status", "--json").stdout), &s)
		return strings.Count(b.run("pool", "members").stdout, "active") == 2 && len(s.Peers) == 1 && s.Peers[0].Link == "up"
	})
	args := func(n *poolNode, more ...string) []string {
		return append([]string{"fio", "--name=blocks", "--ioengine=pool", "--socket=" + n.socket, "--bs=64KiB", "--iodepth=4"}, more...)
	}
	process{t: t}.run(args(b, "--rw=write", "--size=4MiB", "--quiet")...).want(t, exitPass, "", "")
	process{t: t}.run(args(a, "--rw=write", "--size=8MiB", "--quiet")...).want(t, exitPass, "", "")
	page := filepath.Join(t.TempDir(), "page.html")
	o := process{t: t}.run(args(b, "--rw=read", "--size=8MiB", "--output-format=normal,json", "--quiet", "--report="+page)...).want(t, exitPass, "blocks from: b (this node) ", "")
	d, err := result.ReadJSON([]byte(o.stdout[strings.Index(o.stdout, "\n{")+1:]))
	if err != nil {
		t.Fatal(err)
	}
	origins := d.Jobs[0].Spillway.Origins
	if len(origins) != 1 || origins[0].Node != "b" || origins[0].Here != 64 || len(origins[0].Peers) != 1 {
		t.Fatalf("%+v", origins)
	}
	from := origins[0].Peers[0]
	if from.Node != "a" || from.Blocks == 0 || from.TCP != from.Blocks || from.RDMA != 0 || from.Bytes != from.Blocks*64<<10 || from.Way != "tcp" || origins[0].Here+from.Blocks != 128 || origins[0].Blocks != 128 {
		t.Errorf("%+v", origins[0])
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "Where the blocks came from") || !strings.Contains(string(text), from.String()) {
		t.Errorf("%v, the page says nothing of %q", err, from.String())
	}

	process{t: t}.run(args(b, "--rw=read", "--size=8MiB", "--quiet", "--compare-transports=2")...).want(t, exitError, "", "there is only TCP here: b (this node)").want(t, exitError, "", ": no rdma: there is no RDMA here: ")
	a.end()
	process{t: t}.run(args(b, "--rw=read", "--size=8MiB", "--quiet", "--compare-transports=2")...).want(t, exitError, "", "no block came from another node")
}

// TestCompareUsage: what cannot be compared is refused before anything runs.
func TestCompareUsage(t *testing.T) {
	for word, more := range map[string][]string{
		"ioengine=pool":       {"--ioengine=null", "--rw=read", "--compare-transports=3"},
		"and reads only":      {"--ioengine=pool", "--rw=randrw", "--compare-transports=3"},
		"want 1 to 1000":      {"--ioengine=pool", "--rw=read", "--compare-transports=1001"},
		"goes with no budget": {"--ioengine=pool", "--rw=read", "--compare-transports=3", "--budget=1ms"},
		"leave ramp_time out": {"--ioengine=pool", "--rw=read", "--compare-transports=3", "--ramp_time=1s"},
		"give the number of":  {"--ioengine=pool", "--rw=read", "--compare-daemon=h:1"},
	} {
		process{t: t}.run(append([]string{"fio", "--name=x", "--size=1MiB", "--quiet"}, more...)...).want(t, exitUsage, "", word)
	}
}

// startLocal runs a node of the pool "try" that would have blocks come by RDMA, with these
// devices, nil: those of this machine. It keeps what is put through it.
func startLocal(t *testing.T, name string, devices fabric.Fabric, seeds string) *poolNode {
	t.Helper()
	n := newNode(t, name)
	text := fmt.Sprintf("[socket]\npath = %q\n[[store]]\ndir = %q\ncapacity = \"64MiB\"\nany_filesystem = true\nbuffered_io = true\n"+
		"[pool]\nid = \"try\"\nname = %q\nbind = \"127.0.0.1:0\"\nplacement = \"local\"\ntransport = \"rdma\"\nrdma_landing = \"1MiB\"\n%s", n.socket, filepath.Join(n.dir, "store"), name, seeds)
	n.start(process{t: t, fabric: devices}, "serve", "--config", write(t, name+".toml", text))
	return n
}

// TestCompareTransports: RDMA and TCP take turns, every block goes the way that its turn
// says, and afterwards RDMA is used again.
func TestCompareTransports(t *testing.T) {
	network := sim.New(sim.Config{Seed: 1})
	t.Cleanup(network.Close)
	machine := func(host uint8) fabric.Fabric {
		m, err := network.Machine(fmt.Sprint("m", host), sim.MachineConfig{Ports: sim.RoCE(host, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a := startLocal(t, "a", machine(1), "")
	b := startLocal(t, "b", machine(2), fmt.Sprintf("seeds = [%q]", a.gossip()))
	way := func() string {
		var s struct {
			Peers []struct{ Way struct{ Name string } }
		}
		_ = json.Unmarshal([]byte(b.run("pool", "status", "--json").stdout), &s)
		if len(s.Peers) != 1 {
			return ""
		}
		return s.Peers[0].Way.Name
	}
	b.eventually("RDMA is up", func() bool { return way() == "rdma" })
	args := func(n *poolNode, more ...string) []string {
		return append([]string{"fio", "--name=blocks", "--ioengine=pool", "--socket=" + n.socket, "--size=4MiB", "--bs=64KiB", "--iodepth=4", "--verify=xxhash", "--quiet"}, more...)
	}
	process{t: t}.run(args(a, "--rw=write", "--do_verify=0")...).want(t, exitPass, "", "")
	page := filepath.Join(t.TempDir(), "page.html")
	const rounds = 2
	o := process{t: t}.run(args(b, "--rw=read", fmt.Sprintf("--compare-transports=%d", rounds), "--compare-daemon="+a.socket, "--output-format=normal,json", "--report="+page)...).
		want(t, exitPass, "RDMA against TCP, 6 turns", "")
	d, err := result.ReadJSON([]byte(o.stdout[strings.Index(o.stdout, "\n{")+1:]))
	if err != nil {
		t.Fatal(err)
	}
	c := d.Spillway.Transports
	if c.Doubt != "" || len(c.Turns) != 3*rounds || len(d.Jobs) != 3*rounds || len(c.CPUOf) != 3 {
		t.Fatalf("%+v", c)
	}
	for i, turn := range c.Turns {
		rdma, tcp := uint64(64), uint64(0)
		if turn.Way != "rdma" {
			rdma, tcp = tcp, rdma
		}
		if turn.RDMA != rdma || turn.TCP != tcp || turn.Here != 0 || turn.Wrong != 0 || turn.BWBytes <= 0 || turn.CPUPerGBS <= 0 || turn.Samples != 64 {
			t.Errorf("%+v", turn)
		}
		if origins := d.Jobs[i].Spillway.Origins; len(origins) != 1 || origins[0].Sum().TCP != tcp || origins[0].Sum().Blocks != 64 {
			t.Errorf("turn %d: %v", i, origins)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "RDMA against TCP") {
		t.Errorf("%v: nothing of it on the page", err)
	}
	if way() != "rdma" {
		t.Errorf("the way is %s afterwards", way())
	}

	b.run("pool", "way", "tcp", "--for", "1h").want(t, exitPass, "over TCP for 1h0m0s", "")
	process{t: t}.run(args(b, "--rw=read", "--compare-transports=1")...).want(t, exitError, "", "there is only TCP here")
	process{t: t}.run(args(b, "--rw=read")...).want(t, exitPass, "a 64 by tcp: no rdma: ", "")
	b.run("pool", "way", "auto").want(t, exitPass, "by RDMA", "")
	process{t: t}.run(args(b, "--rw=read")...).want(t, exitPass, "b (this node) 0; a 64 by rdma\n", "")
}

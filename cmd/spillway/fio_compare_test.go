package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/fio/result"
)

// TestFioOrigin: a job that reads through a node of a pool says which blocks came from
// there and which from the other node, all that it read and no more; two transports are not
// compared where there is one.
func TestFioOrigin(t *testing.T) {
	a := startNode(t, "a")
	b := startNode(t, "b", "--join", a.gossip())
	b.eventually("both are active, and linked", func() bool {
		var s struct{ Peers []struct{ Link string } }
		_ = json.Unmarshal([]byte(b.run("pool", "status", "--json").stdout), &s)
		return strings.Count(b.run("pool", "members").stdout, "active") == 2 && len(s.Peers) == 1 && s.Peers[0].Link == "up"
	})
	args := func(n *poolNode, more ...string) []string {
		return append([]string{"fio", "--name=blocks", "--ioengine=pool", "--socket=" + n.socket, "--size=8MiB", "--bs=64KiB", "--iodepth=4"}, more...)
	}
	process{t: t}.run(args(a, "--rw=write", "--quiet")...).want(t, exitPass, "", "")
	page := filepath.Join(t.TempDir(), "page.html")
	o := process{t: t}.run(args(b, "--rw=read", "--output-format=normal,json", "--quiet", "--report="+page)...).want(t, exitPass, "blocks from: b (this node) ", "")
	d, err := result.ReadJSON([]byte(o.stdout[strings.Index(o.stdout, "\n{")+1:]))
	if err != nil {
		t.Fatal(err)
	}
	origins := d.Jobs[0].Spillway.Origins
	if len(origins) != 1 || origins[0].Node != "b" || origins[0].Here == 0 || len(origins[0].Peers) != 1 {
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

	process{t: t}.run(args(b, "--rw=read", "--quiet", "--compare-transports=2")...).want(t, exitError, "", "there is only TCP here: b (this node)")
	a.end()
	process{t: t}.run(args(b, "--rw=read", "--quiet", "--compare-transports=2")...).want(t, exitError, "", "no block came from another node")
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

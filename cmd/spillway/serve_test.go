package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
)

// TestServeAndTop: serve with flags alone, top over the socket, configuration and
// flags together.
func TestServeAndTop(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	file := write(t, "c.toml", fmt.Sprintf("[socket]\npath = %q\n[[store]]\ndir = \"/not/this\"\n[limits]\nkeys = 9\n", filepath.Join(dir, "other")))
	for _, args := range [][]string{nil, {"--config", file}} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan outcome, 1)
		go func() {
			all := anywhere(filepath.Join(dir, "store"), append([]string{"serve", "--socket", socket, "--capacity", "64MiB"}, args...)...)
			ended <- process{t: t, ctx: ctx}.run(all...)
		}()
		wait, cancel := context.WithTimeout(t.Context(), time.Minute)
		c, err := client.Dial(wait, client.Options{Path: socket, Name: "test"})
		cancel()
		if err != nil {
			stop()
			t.Fatalf("%v: %+v", err, <-ended)
		}
		if l, _ := c.Limits(); (l.Keys == 9) != (args != nil) {
			t.Errorf("%v: %d keys", args, l.Keys)
		}
		p := process{t: t}
		p.run("top", "--once", "--socket", socket).want(t, exitPass, "spillway top", "").want(t, exitPass, "64 MiB", "")
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the first top's may be on its way out
			v := p.run("top", "--once", "--json", "--socket", socket).want(t, exitPass, "", "").object(t, "stat")
			if v["connections"] == 2.0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v connections", v["connections"])
			}
		}
		c.Close()
		stop()
		(<-ended).want(t, exitPass, "", "msg=stopped")
	}
	process{t: t}.run("top", "--once", "--admin", "127.0.0.1:1").want(t, exitError, "", "is the daemon running")
	process{t: t}.run("top", "--interval", "1ms").want(t, exitUsage, "", "too short")
}

// TestServeRefused: what is wrong is said with the exit code of its kind, and no store
// is made.
func TestServeRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	socket := filepath.Join(t.TempDir(), "s")
	bad := write(t, "bad.toml", "[sockets]\n")
	p := process{t: t}
	p.run("serve").want(t, exitUsage, "", "no store")
	p.run("serve", "--config", bad).want(t, exitUsage, "", bad+":1: unknown key sockets")
	p.run("serve", "--config", bad+".none").want(t, exitError, "", "no such file or directory; check the path; spillway config show")
	p.run("serve", "--dir", dir, "--admin", "0.0.0.0:0").want(t, exitUsage, "", "admin.allow_remote")
	p.run("serve", "--dir", dir, "--log-level", "loud").want(t, exitUsage, "", "log.level")
	p.run("serve", "--dir", dir, "--socket", filepath.Join(dir, "no", "folder")).want(t, exitError, "", "make the folder")
	p.run(anywhere(dir, "serve", "--socket", socket)...).want(t, exitError, "", "--capacity")
	p.run("config", "check", bad).want(t, exitUsage, "", "unknown key sockets")
	p.run("config", "check", write(t, "few.toml", "[log]\nlevel = \"info\"\n")).want(t, exitUsage, "", "few.toml: no store")
	good := write(t, "good.toml", "[[store]]\ndir = \"/kv\"\n[socket]\ntoken = \"s3cret\"\n")
	p.run("config", "check", good).want(t, exitPass, "ok, 1 store, 0 namespaces", "")
	huge := write(t, "huge.toml", "[[store]]\ndir = \"/kv\"\n[memory]\ndram_bytes = \"1023TiB\"\n")
	p.run("config", "check", huge).want(t, exitPass, "the daemon would not start here", "")
	shown := p.run("config", "show", good).want(t, exitPass, "queue_depth = 32", "")
	v := p.run("config", "show", "--json", good).want(t, exitPass, "(hidden)", "").object(t, "config")
	if s := v["config"].(map[string]any)["socket"].(map[string]any); s["mode"] != "0660" || strings.Contains(shown.stdout, "s3cret") {
		t.Errorf("%v\n%s", s, shown.stdout)
	}
	p.run("config", "show").want(t, exitPass, "lock_wait = '5s'", "")
}

// TestTopTable: rates come from two states of one daemon; another daemon, or none
// before, gives counts.
func TestTopTable(t *testing.T) {
	before := &admin.State{Ready: true, Stat: node.Stat{Instance: "a", UptimeMS: 1000, Requests: 100,
		Spaces: []node.SpaceStat{{Name: "n", ID: "0123456789abcdef", Hits: 10, Misses: 5}}}}
	now := &admin.State{Ready: true, Missing: []string{"/gone"}, Gate: &admin.GateState{BudgetNS: 30e6, Verdict: "pass"}, Stat: node.Stat{Instance: "a", UptimeMS: 3000, Requests: 500,
		StoringNothing: true, Spaces: []node.SpaceStat{{Name: "n", ID: "0123456789abcdef", Hits: 30, Misses: 5}, {Name: "new", ID: "1", Hits: 8}}}}
	for range clientsShown + 5 {
		now.Clients = append(now.Clients, node.ClientStat{Name: "c"})
	}
	show := func(before *admin.State) string {
		var b bytes.Buffer
		if err := printTop(&b, before, now); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, say := range []string{"requests 200/s", "10/s", "0/s", "4/s", "STORING NOTHING", "/gone", "not open", "budget 30ms", "pass", "and 5 more", "0123456789ab "} {
		if text := show(before); !strings.Contains(text, say) {
			t.Errorf("no %q in\n%s", say, text)
		}
	}
	for _, say := range []string{"P50 -", "P99 -"} {
		if text := show(nil); !strings.Contains(text, say) {
			t.Errorf("no %q of no reads in\n%s", say, text)
		}
	}
	before.Instance = "b"
	for _, other := range []*admin.State{nil, before} {
		if text := show(other); !strings.Contains(text, "requests 500") || strings.Contains(text, "/s") {
			t.Errorf("%s", text)
		}
	}
}

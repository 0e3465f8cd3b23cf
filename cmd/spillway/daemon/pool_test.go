package daemon

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// poolRig is a daemon of a pool within this process.
type poolRig struct{ *rig }

// newPoolRig writes a configuration of a node on free ports.
func newPoolRig(t *testing.T, name, more string) poolRig {
	t.Helper()
	return poolRig{newRig(t, 1, fmt.Sprintf("[pool]\nid = \"p\"\nname = %q\nbind = \"127.0.0.1:0\"\nprofile = \"fast\"\n%s", name, more))}
}

// ask asks the socket of its operators.
func (r poolRig) ask(method, path, body string, into any) error {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	must(r.t, err)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", r.socket()+admin.SocketSuffix)
	}}}
	a, err := c.Do(request)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", a.StatusCode, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (r poolRig) members() (m admin.PoolMembers) {
	_ = r.ask("GET", "/v1/pool/members", "", &m) // not yet there: nobody
	return m
}

// health is what it thinks of a member; empty: it knows none of this name.
func (r poolRig) health(name string) string {
	for _, m := range r.members().Members {
		if m.Name == name && !m.Self {
			return m.Health
		}
	}
	return ""
}

func (r poolRig) eventually(what string, is func() bool) {
	r.t.Helper()
	eventually(r.t, what, is, func() string { return fmt.Sprintf("%+v\n%s", r.members(), &r.log) })
}

// gossip is where its gossip is.
func (r poolRig) gossip() string {
	r.t.Helper()
	var s admin.PoolStatus
	r.eventually("the operators' socket answers", func() bool { return r.ask("GET", "/v1/pool", "", &s) == nil })
	return s.Gossip
}

// TestPoolLife: a node is the same after a restart at other ports, leaves in order, and
// nothing is left of its sockets.
func TestPoolLife(t *testing.T) {
	a := newPoolRig(t, "a", "")
	a.start()
	b := newPoolRig(t, "b", fmt.Sprintf("seeds = [%q]\n", a.gossip()))
	ids := map[string]bool{}
	for range 3 {
		b.start()
		b.eventually("b knows a", func() bool { return b.health("a") == "alive" })
		a.eventually("a knows b", func() bool { return a.health("b") == "alive" })
		for _, m := range b.members().Members {
			if m.Self {
				ids[m.Node] = true
			}
		}
		must(t, b.end())
		a.eventually("a has heard that b has left", func() bool { return a.health("b") == "left" })
		for _, path := range []string{b.socket(), b.socket() + admin.SocketSuffix} {
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", path, err)
			}
		}
	}
	if len(ids) != 1 {
		t.Errorf("b was %d nodes: %v", len(ids), ids)
	}
	must(t, a.end())
}

// TestPoolStopWithoutState: a node whose pool directory cannot be written any more stops in
// order, and says that this is the cause: no request was cut short.
func TestPoolStopWithoutState(t *testing.T) {
	a := newPoolRig(t, "a", "")
	a.start()
	a.gossip()
	must(t, os.RemoveAll(a.store(0)+".pool"))
	must(t, a.end())
	a.says("pool state in ")
	if log := a.log.String(); strings.Contains(log, "cut short") {
		t.Error(log)
	}
}

// TestPoolStopEarly: asked to stop at once, and with nobody else there, a node of a pool
// ends well.
func TestPoolStopEarly(t *testing.T) {
	r := newPoolRig(t, "a", "seeds = [\"127.0.0.1:1\"]\n")
	for range 5 {
		r.start()
		must(t, r.end())
	}
}

// TestPoolRefuses: what makes a node impossible ends the start, and leaves no store, port
// or lock behind.
func TestPoolRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	r := newPoolRig(t, "a", "")
	good := r.text
	for text, want := range map[string]string{
		strings.Replace(good, "127.0.0.1:0", taken.Addr().String(), 1):                                  "pool.bind",
		good + fmt.Sprintf("gossip_bind = %q\n", taken.Addr()):                                          "gossip",
		good + fmt.Sprintf("dir = %q\n", filepath.Join(r.dir, "no", "folder")):                          "pool.dir",
		good + fmt.Sprintf("keyring = %q\n", r.keyring("k", "not base64 at all")):                       "base64",
		good + "advertise = \"127.0.0.1:7420\"\ngossip_advertise = \"name.that.is.not.invalid:7421\"\n": "name.that.is.not.invalid",
	} {
		r.text = text
		r.start()
		if err := r.wait(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r.text = good
	r.start()
	_ = r.gossip()
	must(t, r.end())
}

// keyring writes a file with these keys.
func (r *rig) keyring(name string, keys ...string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	must(r.t, os.WriteFile(path, []byte(strings.Join(keys, "\n")+"\n"), 0o600))
	return path
}

func newKey() string {
	key := make([]byte, 32)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

// TestPoolKeys: the keys are rotated over the operators' socket, step by step, a step too
// early is refused, and a reload takes over what is in the file.
func TestPoolKeys(t *testing.T) {
	old, new, third := newKey(), newKey(), newKey()
	a := newPoolRig(t, "a", "")
	a.text += fmt.Sprintf("keyring = %q\n", a.keyring("keyring", old))
	a.start()
	b := newPoolRig(t, "b", fmt.Sprintf("seeds = [%q]\n", a.gossip()))
	b.text += fmt.Sprintf("keyring = %q\n", b.keyring("keyring", old))
	b.start()
	stranger := newPoolRig(t, "s", fmt.Sprintf("seeds = [%q]\n", a.gossip()))
	stranger.text += fmt.Sprintf("keyring = %q\n", stranger.keyring("keyring", third))
	stranger.start()
	b.eventually("b knows a", func() bool { return b.health("a") == "alive" })
	change := func(r poolRig, do, key string) error {
		return r.ask("POST", "/v1/pool/keys", fmt.Sprintf(`{"do": %q, "key": %q}`, do, key), &admin.Changed{})
	}
	keys := func(r poolRig) (k admin.PoolKeys) {
		must(t, r.ask("GET", "/v1/pool/keys", "", &k))
		return k
	}
	must(t, change(a, "add", new))
	print := keys(a).Keys[1].Fingerprint
	if err := change(a, "use", print); err == nil || !strings.Contains(err.Error(), "409") || !strings.Contains(err.Error(), "b has not") {
		t.Errorf("before b has it: %v", err)
	}
	must(t, change(b, "add", new))
	a.eventually("a has heard that b has the key", func() bool { return len(keys(a).Keys[1].Holders) == 2 })
	b.eventually("b has heard that a has the key", func() bool { return len(keys(b).Keys[1].Holders) == 2 })
	must(t, change(a, "use", print))
	must(t, change(b, "use", print))
	first := keys(a).Keys[1].Fingerprint
	for _, r := range []poolRig{a, b} {
		r.eventually("nobody uses the old key", func() bool { return len(keys(r).Keys[1].Users) == 0 })
		must(t, change(r, "remove", first))
	}
	if err := change(a, "remove", print); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("the last key: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(a.dir, "keyring")); err != nil || !strings.Contains(string(text), new) || strings.Contains(string(text), old) {
		t.Errorf("%s, %v", text, err)
	}
	a.keyring("keyring", new, third)
	a.reload <- struct{}{}
	a.eventually("a has read its keys", func() bool { return len(keys(a).Keys) == 2 })
	a.eventually("the stranger is in", func() bool {
		return a.health("s") != "" || strings.Contains(fmt.Sprint(a.members().TurnedAway), "key mismatch")
	})
	if a.health("b") != "alive" || b.health("a") != "alive" {
		t.Error("a rotation cost a member")
	}
	for _, r := range []poolRig{a, b, stranger} {
		must(t, r.end())
	}
}

// TestPoolReload: of [pool] the rates of moving change at once, all else waits for a restart.
func TestPoolReload(t *testing.T) {
	r := newPoolRig(t, "a", "")
	r.start()
	r.text = strings.Replace(r.text, "[pool]\n", "[pool]\ndrain_rate = \"5MiB\"\nhot_reads = 4\nconnections = 3\n", 1)
	r.reload <- struct{}{}
	r.says(`msg="needs a restart, ignored until then" keys=pool.connections`)
	r.says(`changed="pool.drain_rate pool.hot_reads"`)
	must(t, r.end())

	text := fmt.Sprintf("[[store]]\ndir = %q\n[pool]\nid = \"p\"\nbind = \"127.0.0.1:0\"\n", r.dir+"/other")
	begins, err := config.Parse("c.toml", []byte(text))
	must(t, err)
	d := &daemon{config: begins, log: slog.New(slog.DiscardHandler), view: admin.NewView("")}
	must(t, d.openPool())
	for _, hot := range []int{0, 3, 0} { // what changes is what the pool has
		next := begins.Pool
		next.HotReads = hot
		must(t, d.pool.reload(&next))
		if d.pool.pool.CopiesHot() != (hot > 0) {
			t.Errorf("hot_reads is %d, and it copies: %v", hot, d.pool.pool.CopiesHot())
		}
	}
	must(t, d.pool.abandon())
}

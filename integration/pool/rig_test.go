package pool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// rig is a pool on a network of its own.
type rig struct {
	t      *testing.T
	dir    string
	nodes  []*node
	number int // among the rigs of this process
	// configured is put into every node's configuration, below [pool].
	configured string
}

// node is a daemon, over all its starts.
type node struct {
	r      *rig
	number int
	name   string
	poolID string
	tag    string // of its binary
	extra  string // below [pool], for this node alone
	ip     string
	log    logBuffer

	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // how; after ended
	// disturbed counts what makes it slow to answer its clients: odd while it lasts.
	disturbed atomic.Int64
}

// logBuffer keeps what a daemon says.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var rigs atomic.Int32

// newRig makes the places of so many nodes.
func newRig(t *testing.T, nodes int, configured string) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("many seconds")
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	if why := cmp.Or(unfit, here.lacks(name)); why != "" {
		t.Skip(why)
	}
	dir, err := os.MkdirTemp("", "p") // a short path: sockets allow no long ones
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, number: int(rigs.Add(1)), configured: configured}
	t.Cleanup(func() {
		for _, n := range r.nodes {
			n.kill()
		}
		here.remove(r)
		if t.Failed() {
			for _, n := range r.nodes {
				t.Logf("--- %s says:\n%s", n.name, tail(n.log.String(), 25))
			}
		}
		_ = os.RemoveAll(dir)
	})
	for i := range nodes {
		r.nodes = append(r.nodes, &node{r: r, number: i, name: fmt.Sprint("n", i), poolID: "test", ip: fmt.Sprintf("10.77.%d.%d", r.number, i+1)})
	}
	here.place(r)
	return r
}

// network is that of all nodes.
func (r *rig) network() string { return fmt.Sprintf("10.77.%d.0/24", r.number) }

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (r *rig) ip(args ...string) {
	r.t.Helper()
	r.run("ip", args...)
}

func (r *rig) run(program string, args ...string) {
	r.t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		r.t.Errorf("%s %v: %v: %s", program, args, err, out)
	}
}

// set writes to a file of the kernel's.
func (r *rig) set(path, value string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		r.t.Error(err)
	}
}

func (n *node) path(what string) string { return filepath.Join(n.r.dir, n.name+what) }

func (n *node) socket() string { return n.path(".sock") }

// configure writes the node's configuration.
func (n *node) configure() {
	n.r.t.Helper()
	var seeds []string
	for _, other := range n.r.nodes {
		seeds = append(seeds, fmt.Sprintf("%q", other.ip))
	}
	text := fmt.Sprintf(`
[socket]
path = %q
[[store]]
dir = %q
capacity = "256MiB"
any_filesystem = true
buffered_io = true
[pool]
id = %q
name = %q
bind = "%s:7420"
seeds = [%s]
%s
%s
%s
[log]
level = "info"
`, n.socket(), n.path(".store"), n.poolID, n.name, n.ip, strings.Join(seeds, ", "), here.configured(n), n.r.configured, n.extra)
	if err := os.WriteFile(n.path(".toml"), []byte(text), 0o600); err != nil {
		n.r.t.Fatal(err)
	}
}

// start starts the daemon.
func (n *node) start() {
	n.r.t.Helper()
	n.configure()
	n.run()
}

// startAs starts the daemon with a configuration of the test's own.
func (n *node) startAs(configuration string) {
	n.r.t.Helper()
	if err := os.WriteFile(n.path(".toml"), []byte(configuration), 0o600); err != nil {
		n.r.t.Fatal(err)
	}
	n.run()
}

func (n *node) run() {
	n.r.t.Helper()
	if n.disturbed.Load()%2 == 1 {
		n.disturbed.Add(1)
	}
	n.process = here.command(n, here.program(n.r.t, n.tag), "serve", "--config", n.path(".toml"))
	n.process.Stdout, n.process.Stderr = &n.log, &n.log
	if err := n.process.Start(); err != nil {
		n.r.t.Fatal(err)
	}
	n.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		n.err = process.Wait()
		close(ended)
	}(n.process, n.ended)
}

// running reports whether the daemon has not ended.
func (n *node) running() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// kill ends the daemon without a warning.
func (n *node) kill() {
	if !n.running() {
		return
	}
	if n.disturbed.Load()%2 == 0 {
		n.disturbed.Add(1)
	}
	_ = n.process.Process.Kill()
	<-n.ended
}

// stop ends the daemon as an operator does.
func (n *node) stop() {
	n.r.t.Helper()
	n.disturbed.Add(1)
	_ = n.process.Process.Signal(os.Interrupt)
	select {
	case <-n.ended:
		if n.err != nil {
			n.r.t.Errorf("%s ended with %v", n.name, n.err)
		}
	case <-time.After(time.Minute):
		n.r.t.Errorf("%s did not stop within a minute", n.name)
		n.kill()
	}
}

// freeze stops the process as if it had no CPU.
func (n *node) freeze() {
	n.disturbed.Add(1)
	_ = n.process.Process.Signal(syscall.SIGSTOP)
}

func (n *node) thaw() {
	_ = n.process.Process.Signal(syscall.SIGCONT)
	n.disturbed.Add(1)
}

// command runs the operator's tool on the node.
func (n *node) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, here.program(n.r.t, n.tag), append(args, "--socket", n.socket())...)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: spillway %v: %w: %s", n.name, args, err, out)
	}
	return string(out), nil
}

// must is command, which is to succeed.
func (n *node) must(args ...string) string {
	n.r.t.Helper()
	out, err := n.command(args...)
	if err != nil {
		n.r.t.Fatal(err)
	}
	return out
}

// ask decodes what the daemon answers operators.
func (n *node) ask(into any, path string) error {
	c := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", n.socket()+".admin")
	}}}
	a, err := c.Get("http://localhost" + path)
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s answers %s", n.name, path, a.Status)
	}
	return json.NewDecoder(a.Body).Decode(into)
}

// members are how a node sees the pool: of each name the health and state.
func (n *node) members() (map[string]string, error) {
	var m struct {
		Members []struct{ Name, Health, State string }
	}
	if err := n.ask(&m, "/v1/pool/members"); err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for _, one := range m.Members {
		seen[one.Name] = one.Health + " " + one.State
	}
	return seen, nil
}

// peers are what a node thinks of its links.
func (n *node) peers() (map[string]bool, error) {
	var s struct {
		Peers []struct {
			Name           string
			Member, Usable bool
		}
	}
	if err := n.ask(&s, "/v1/pool"); err != nil {
		return nil, err
	}
	usable := map[string]bool{}
	for _, p := range s.Peers {
		usable[p.Name] = p.Member && p.Usable
	}
	return usable, nil
}

// eventually waits until f finds nothing wrong any more.
func (r *rig) eventually(what string, f func() error) {
	r.t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			r.t.Logf("%s after %v", what, time.Since(began).Round(100*time.Millisecond))
			return
		}
	}
	r.t.Fatalf("%s: not after two minutes: %v", what, err)
}

// together waits until these nodes are active, and use each other.
func (r *rig) together(nodes ...*node) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%d nodes use each other", len(nodes)), func() error {
		for _, n := range nodes {
			if !n.running() {
				return fmt.Errorf("%s has ended: %v", n.name, n.err)
			}
			seen, err := n.members()
			if err != nil {
				return err
			}
			usable, err := n.peers()
			if err != nil {
				return err
			}
			for _, other := range nodes {
				if s := seen[other.name]; s != "alive active" {
					return fmt.Errorf("%s sees %s as %q", n.name, other.name, s)
				}
				if other != n && !usable[other.name] {
					return fmt.Errorf("%s does not use %s", n.name, other.name)
				}
			}
		}
		return nil
	})
}

// start starts nodes at once, and waits until they are a pool.
func (r *rig) start(nodes ...*node) {
	r.t.Helper()
	for _, n := range nodes {
		n.start()
	}
	r.together(nodes...)
}

// dial makes a client of a node.
func (n *node) dial() *client.Client {
	n.r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Path: n.socket(), RetryMax: 50 * time.Millisecond})
	if err != nil {
		n.r.t.Fatalf("%s: %v", n.name, err)
	}
	return c
}

// without are the nodes but some.
func (r *rig) without(some ...*node) []*node {
	return slices.DeleteFunc(slices.Clone(r.nodes), func(n *node) bool { return slices.Contains(some, n) })
}

package admin

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const blockBytes = 4096

// rig is a node with one store, its socket, and the interface on a port of its own.
type rig struct {
	t      *testing.T
	view   *View
	node   *node.Node
	socket string
	url    string
}

func newRig(t *testing.T, o node.Options) *rig {
	t.Helper()
	s, err := engine.Open(engine.Options{Dir: filepath.Join(t.TempDir(), "store"), CapacityBytes: 64 << 20, AnyFileSystem: true, BufferedIO: true})
	must(t, err)
	o.Stores = []*engine.Store{s}
	tier, err := memory.New(memory.Options{Bytes: 2 << 20})
	must(t, err)
	o.Memory = tier
	n, err := node.New(o)
	must(t, err)
	r := &rig{t: t, view: NewView("v1.2.3"), node: n, socket: filepath.Join(t.TempDir(), "s")}
	path, err := node.Reserve(r.socket)
	must(t, err)
	l, err := path.Listen(0o600, -1)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- n.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, n.Close(ctx))
		must(t, <-served)
		path.Close()
		must(t, s.Close())
		must(t, tier.Close())
	})
	r.view.SetNode(n, nil)
	r.view.SetReady()
	r.serve(ServerOptions{})
	return r
}

// serve starts the interface of the rig's view.
func (r *rig) serve(o ServerOptions) {
	r.t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	r.url = "http://" + tcp.Addr().String()
	o.Logger = slog.New(slog.DiscardHandler)
	r.t.Cleanup(Start(tcp, r.view, o).Close)
}

// ask sends one request on a connection of its own.
func (r *rig) ask(method, path, body string, headers ...string) (code int, text string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	must(r.t, err)
	q.Close = true
	for i := 0; i < len(headers); i += 2 {
		if q.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			q.Host = headers[i+1]
		}
	}
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	must(r.t, err)
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	must(r.t, err)
	return a.StatusCode, string(all)
}

func (r *rig) want(code int, say, method, path, body string, headers ...string) string {
	r.t.Helper()
	got, text := r.ask(method, path, body, headers...)
	if got != code || !strings.Contains(text, say) {
		r.t.Errorf("%s %s %s: %d, %.300q; want %d, %q", method, path, body, got, text, code, say)
	}
	return text
}

func (r *rig) dial() *client.Client {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Path: r.socket, Name: "test"})
	must(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) open(c *client.Client, name string) *client.Namespace {
	r.t.Helper()
	ns, err := c.Namespace(context.Background(), engine.Descriptor{Name: name, BlockBytes: blockBytes, TokensPerBlock: 16}, "")
	must(r.t, err)
	return ns
}

// blocks are n blocks from the first key on, in a region of their own.
func (r *rig) blocks(c *client.Client, first, n int) []client.Block {
	r.t.Helper()
	region, err := c.Allocate(int64(n) * blockBytes)
	must(r.t, err)
	all := make([]client.Block, n)
	for i := range all {
		binary.LittleEndian.PutUint64(region.Bytes()[i*blockBytes:], uint64(first+i))
		all[i] = client.Block{Key: fmt.Append(nil, "key-", first+i), Places: []client.Place{region.Row(i, blockBytes)}}
	}
	return all
}

// series are the samples of a scrape, by name and labels; those of the process itself
// are left out.
func (r *rig) series() map[string]string {
	r.t.Helper()
	code, text := r.ask("GET", "/metrics", "")
	if code != http.StatusOK {
		r.t.Fatalf("%d: %s", code, text)
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		name := line[:at]
		if all[name] != "" {
			r.t.Errorf("%s is there twice", name)
		}
		all[name] = strings.TrimSpace(line[at:])
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
)

// TestHealth: alive from the first moment, ready only while clients are served.
func TestHealth(t *testing.T) {
	r := newRig(t, node.Options{})
	r.want(200, "ok", "GET", "/healthz", "")
	r.want(200, "ready", "GET", "/readyz", "")
	r.view.SetPhase("stopping")
	r.want(503, "stopping", "GET", "/readyz", "")
	r.want(200, "ok", "GET", "/healthz", "")
	r.view.SetNode(r.node, []string{"/gone"})
	r.want(200, "store /gone could not be opened", "GET", "/healthz", "")

	r.view = NewView("v")
	r.serve(ServerOptions{})
	r.view.SetPhase("opening stores, 1 of 2 done")
	r.want(503, "1 of 2 done", "GET", "/readyz", "")
	r.want(200, "ok", "GET", "/healthz", "")
	r.want(200, `"ready":false`, "GET", "/v1/stat", "")
	r.want(200, `"namespaces":[]`, "GET", "/v1/namespaces", "")
	r.want(200, `"clients":[]`, "GET", "/v1/clients", "")
	r.view.Configure(Gate{}, "t")
	r.want(503, "starting", "POST", "/v1/namespaces/drop", `{"namespace": "a"}`, "Authorization", "Bearer t")
}

// TestChanges: a change needs the token, and does what it says.
func TestChanges(t *testing.T) {
	r := newRig(t, node.Options{})
	c := r.dial()
	ns := r.open(c, "a/b c")
	blocks := r.blocks(c, 0, 20)
	ns.Put(blocks, client.PutOptions{}).Wait()
	drop := `{"namespace": "a/b c"}`
	r.want(403, "admin.token", "POST", "/v1/namespaces/drop", drop)
	r.want(403, "admin.token", "POST", "/v1/namespaces/drop", drop, "Authorization", "Bearer ")
	r.view.Configure(Gate{}, "secret")
	r.want(401, "token", "POST", "/v1/namespaces/drop", drop)
	r.want(401, "token", "POST", "/v1/namespaces/drop", drop, "Authorization", "Bearer wrong")
	r.want(401, "token", "POST", "/v1/namespaces/drop", drop, "Authorization", "secretx")
	r.want(405, "", "GET", "/v1/namespaces/drop", "")
	r.want(403, "", "POST", "/v1/namespaces/drop", drop, "Authorization", "Bearer secret", "Sec-Fetch-Site", "cross-site")
	ok := []string{"Authorization", "Bearer secret"}
	r.want(400, "bad request", "POST", "/v1/namespaces/drop", `{"namespaces": "a"}`, ok...)
	r.want(400, "bad request", "POST", "/v1/namespaces/drop", `{} {}`, ok...)
	r.want(400, "bad request", "POST", "/v1/namespaces/drop", ``, ok...)
	r.want(404, "not found", "POST", "/v1/namespaces/drop", `{"namespace": "b"}`, ok...)
	r.want(413, "large", "POST", "/v1/namespaces/drop", strings.Repeat(" ", bodyBytesMax+1), ok...)

	if got := ns.Get(blocks, client.GetOptions{}).Wait(); got.Prefix != 20 {
		t.Fatalf("something was changed: %v", got.Statuses)
	}
	r.want(200, `quota of namespace \"a/b c\" is 40MiB`, "POST", "/v1/namespaces/quota", `{"namespace": "a/b c", "quota": "40MiB"}`, ok...)
	var list Namespaces
	must(t, json.Unmarshal([]byte(r.want(200, "a/b c", "GET", "/v1/namespaces", "")), &list))
	if n := list.Namespaces[0]; n.QuotaBytes != 40<<20 || n.Blocks != 20 || n.Opened == nil || n.Opened.Hits != 20 {
		t.Errorf("%+v", n)
	}
	r.want(400, "quota", "POST", "/v1/namespaces/quota", `{"namespace": "a/b c", "quota": "0"}`, ok...)
	r.want(400, "at least one segment", "POST", "/v1/namespaces/quota", `{"namespace": "a/b c", "quota": "1"}`, ok...)
	r.want(200, "none", "POST", "/v1/namespaces/quota", `{"namespace": "a/b c", "quota": "none"}`, ok...)
	r.want(200, "dropped", "POST", "/v1/namespaces/drop", drop, ok...)
	if got := ns.Get(blocks, client.GetOptions{}).Wait(); got.Prefix != 0 {
		t.Errorf("still there: %v", got.Statuses)
	}

	var clients Clients
	must(t, json.Unmarshal([]byte(r.want(200, "test", "GET", "/v1/clients", "")), &clients))
	number := clients.Clients[0].Number
	r.want(404, "client 4711", "POST", "/v1/clients/disconnect", `{"client": 4711}`, ok...)
	r.want(200, "disconnected", "POST", "/v1/clients/disconnect", fmt.Sprintf(`{"client": %d}`, number), ok...)
	r.want(404, "", "POST", "/v1/clients/disconnect", fmt.Sprintf(`{"client": %d}`, number), ok...)
}

// TestHosts: a page in a browser that was led here reads nothing.
func TestHosts(t *testing.T) {
	r := newRig(t, node.Options{})
	for host, code := range map[string]int{"localhost": 200, "localhost:1": 200, "127.0.0.1": 200, "[::1]:9470": 200, "[::1]": 200, "10.0.0.1:1": 200,
		"evil.example.org": 403, "localhost.example.org:80": 403, "127.0.0.1.example.org": 403} {
		r.want(code, "", "GET", "/v1/stat", "", "Host", host)
	}
	r.serve(ServerOptions{AnyHost: true})
	r.want(200, "", "GET", "/v1/stat", "", "Host", "pool-7.example.org")
}

// TestPprof: profiles only where they are asked for.
func TestPprof(t *testing.T) {
	r := newRig(t, node.Options{})
	r.want(404, "", "GET", "/debug/pprof/", "")
	r.serve(ServerOptions{Pprof: true})
	r.want(200, "goroutine", "GET", "/debug/pprof/", "")
	r.want(200, "TestPprof", "GET", "/debug/pprof/goroutine?debug=1", "")
}

// TestNoise: whatever comes to the port, and HTTP to the socket of the clients, harms
// nobody.
func TestNoise(t *testing.T) {
	r := newRig(t, node.Options{})
	c := r.dial()
	ns := r.open(c, "a")
	blocks := r.blocks(c, 0, 10)
	ns.Put(blocks, client.PutOptions{}).Wait()
	seed := uint64(20260)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	address := strings.TrimPrefix(r.url, "http://")
	samples := []string{"", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "SPILLWAY", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"GET /" + strings.Repeat("x", 2*headerBytesMax) + " HTTP/1.1\r\n\r\n", "POST /v1/namespaces/drop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nx",
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: " + strings.Repeat("y", 4*headerBytesMax), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}
	for range 100 {
		b := make([]byte, rng.IntN(3000))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		samples = append(samples, string(b))
	}
	var all sync.WaitGroup
	for _, to := range [][2]string{{"tcp", address}, {"unix", r.socket}} {
		for _, sample := range samples {
			all.Go(func() {
				conn, err := net.Dial(to[0], to[1])
				if err != nil {
					return // refused is fine
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				_, _ = io.WriteString(conn, sample)
				if half, ok := conn.(interface{ CloseWrite() error }); ok {
					_ = half.CloseWrite()
				}
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	}
	all.Wait()
	if got := ns.Get(blocks, client.GetOptions{}).Wait(); got.Prefix != 10 {
		t.Errorf("the client suffers: %v", got.Statuses)
	}
	r.want(200, "ok", "GET", "/healthz", "")
	if st := r.node.Stat(); st.Connections != 1 && st.Malformed == 0 {
		t.Errorf("%d connections, %d malformed", st.Connections, st.Malformed)
	}
}

// TestBusyPort: more connections than there is room for wait, and their end makes
// room.
func TestBusyPort(t *testing.T) {
	r := newRig(t, node.Options{})
	var idle []net.Conn
	for range connectionsMax {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		must(t, err)
		idle = append(idle, c)
	}
	answered := make(chan int, 1)
	go func() {
		code, _ := r.ask("GET", "/healthz", "")
		answered <- code
	}()
	for _, c := range idle {
		must(t, c.Close())
	}
	if code := <-answered; code != 200 {
		t.Errorf("%d", code)
	}
}

// TestScrapesTogether: many scrapes at once, with clients at work, agree that
// counters only grow.
func TestScrapesTogether(t *testing.T) {
	r := newRig(t, node.Options{})
	c := r.dial()
	ns := r.open(c, "a")
	blocks := r.blocks(c, 0, 10)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				ns.Put(blocks, client.PutOptions{}).Wait()
				ns.Get(blocks, client.GetOptions{}).Wait()
			}
		}
	})
	var scrapes sync.WaitGroup
	for range 4 {
		scrapes.Go(func() {
			last := 0.0
			for range 20 {
				code, text := r.ask("GET", "/metrics", "")
				if code != 200 {
					t.Errorf("%d: %s", code, text)
					return
				}
				for line := range strings.Lines(text) {
					var v float64
					if n, _ := fmt.Sscanf(line, prefix+"requests_total %g", &v); n == 1 {
						if v < last {
							t.Errorf("%g requests after %g", v, last)
						}
						last = v
					}
				}
			}
		})
	}
	scrapes.Wait()
	close(stop)
	all.Wait()
}

// TestHot: the hottest blocks and the descriptor of a namespace, and what is wrong with
// a question.
func TestHot(t *testing.T) {
	r := newRig(t, node.Options{})
	c := r.dial()
	ns, err := c.Namespace(t.Context(), engine.Descriptor{Name: "a", Model: "m", BlockBytes: blockBytes}, "")
	must(t, err)
	memory, err := c.Allocate(4 * blockBytes)
	must(t, err)
	var blocks []client.Block
	for i := range 4 {
		blocks = append(blocks, client.Block{Key: []byte{'k', byte('0' + i)}, Places: []client.Place{memory.Row(i, blockBytes)}})
	}
	ns.Put(blocks, client.PutOptions{}).Wait()
	for range 2 {
		ns.Get(blocks[2:3], client.GetOptions{}).Wait()
	}
	var hot Hot
	for end := time.Now().Add(time.Minute); len(hot.Blocks) < 4 && time.Now().Before(end); time.Sleep(time.Millisecond) { // the index is a little behind
		_, text := r.ask("GET", "/v1/namespaces/hot?namespace=a", "")
		hot = Hot{}
		must(t, json.Unmarshal([]byte(text), &hot))
	}
	if len(hot.Blocks) != 4 {
		t.Fatalf("%+v", hot)
	}
	if b := hot.Blocks[0]; b.Key != "hex:6b32" || b.Depth != 2 || b.Uses != 3 || b.Type != "hot" || hot.Blocks[1].Uses >= b.Uses {
		t.Errorf("%+v", hot)
	}
	if _, text := r.ask("GET", "/v1/namespaces/hot?namespace=a&count=1", ""); strings.Count(text, "hex:") != 1 || !strings.Contains(text, "hex:6b32") {
		t.Error(text)
	}
	if code, text := r.ask("GET", "/v1/namespaces/descriptor?namespace=a", ""); code != 200 || text != `{"name":"a","model":"m","block_bytes":4096}`+"\n" {
		t.Errorf("%d: %s", code, text)
	}
	for path, want := range map[string]int{"hot?namespace=b": 404, "descriptor": 404, "hot?namespace=a&count=0": 400, "hot?namespace=a&count=x": 400} {
		if code, text := r.ask("GET", "/v1/namespaces/"+path, ""); code != want || !strings.Contains(text, "error") {
			t.Errorf("%s: %d, %s", path, code, text)
		}
	}
}

package system

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/engine"
)

const (
	rolloverBlock = 64 << 10
	rolloverChain = 8 // blocks of a prompt
)

// revision is the model at one revision, as an engine serves it: a client with its
// namespace and memory.
type revision struct {
	t    *testing.T
	name string
	ns   *client.Namespace
	rows *client.Region

	mu   sync.Mutex
	puts int
}

func newRevision(t *testing.T, c *client.Client, name string) *revision {
	t.Helper()
	ns, err := c.Namespace(t.Context(), revisionOf(name), "")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.Allocate(2 * rolloverChain * rolloverBlock)
	if err != nil {
		t.Fatal(err)
	}
	return &revision{t: t, name: name, ns: ns, rows: rows}
}

func revisionOf(name string) engine.Descriptor {
	return engine.Descriptor{Name: "model@" + name, Model: "model", Revision: name, TokensPerBlock: 16, BlockBytes: rolloverBlock}
}

// chain is the blocks of a prompt; its keys are the same at every revision, its bytes are not.
func (r *revision) chain(prompt string, row int) []client.Block {
	blocks := make([]client.Block, rolloverChain)
	for i := range blocks {
		key := sha256.Sum256(fmt.Append(nil, prompt, i))
		blocks[i] = client.Block{Key: key[:], Places: []client.Place{r.rows.Row(row+i, rolloverBlock)}}
	}
	return blocks
}

func (r *revision) row(i int) []byte { return r.rows.Bytes()[i*rolloverBlock:][:rolloverBlock] }

// fill computes block i of a prompt into a row.
func (r *revision) fill(prompt string, i, row int) {
	for k, b := 0, r.row(row); k < len(b); k += 8 {
		binary.LittleEndian.PutUint64(b[k:], r.word(prompt, i)+uint64(k))
	}
}

func (r *revision) word(prompt string, i int) uint64 {
	sum := sha256.Sum256(fmt.Append(nil, r.name, "|", prompt, "|", i))
	return binary.LittleEndian.Uint64(sum[:])
}

// put computes a prompt and stores it; it returns how many blocks were here.
func (r *revision) put(prompt string) (present int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range rolloverChain {
		r.fill(prompt, i, i)
	}
	r.puts++
	for _, s := range r.ns.Put(r.chain(prompt, 0), client.PutOptions{}).Wait().Statuses {
		if s == client.Present {
			present++
		}
	}
	return present
}

// get reads a prompt and returns the length of its prefix; wrong bytes are an error.
func (r *revision) get(prompt string) (prefix int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := r.ns.Get(r.chain(prompt, rolloverChain), client.GetOptions{}).Wait()
	for i, s := range result.Statuses {
		if s != client.Hit {
			continue
		}
		for k, b := 0, r.row(rolloverChain+i); k < len(b); k += 8 {
			if binary.LittleEndian.Uint64(b[k:]) != r.word(prompt, i)+uint64(k) {
				return 0, fmt.Errorf("block %d of %q at revision %s has wrong bytes", i, prompt, r.name)
			}
		}
	}
	return result.Prefix, nil
}

// ServeHTTP is the engine's OpenAI interface: it computes the prompt, stores its blocks
// through its client, and answers.
func (r *revision) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var ask struct{ Prompt string }
	text, _ := io.ReadAll(q.Body)
	if q.URL.Path != "/v1/completions" || json.Unmarshal(text, &ask) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"usage":{"prompt_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, rolloverChain*16, r.put(ask.Prompt)*16)
}

// TestRollover is docs/rollover.md with real commands: two revisions of a model side by side,
// under load; the hot list of the old, the new one warmed by an engine and, for a third revision
// whose bytes mean the same, by copying; the old one dropped while it is read: never
// wrong bytes, misses then, its space comes back, and quotas hold all the time.
func TestRollover(t *testing.T) {
	const prompts, hot = 40, 10
	o := newOperated(t, "[[namespace]]\nname = \"model@r1\"\nquota = \"32MiB\"\n[[namespace]]\nname = \"model@r2\"\nquota = \"32MiB\"\n")
	text, err := os.ReadFile(o.file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, o.file, []byte(strings.Replace(string(text), "[admin]\n", "[admin]\ntoken = \"secret\"\n", 1)))
	o.start()
	o.says("msg=serving")
	c := o.dial()
	defer c.Close()
	old := newRevision(t, c, "r1")
	for i := range prompts {
		old.put(fmt.Sprint("prompt ", i))
	}
	for range 3 {
		for i := range hot {
			if n, err := old.get(fmt.Sprint("prompt ", i)); n != rolloverChain || err != nil {
				t.Fatalf("prefix %d, %v", n, err)
			}
		}
	}
	stopLoad, load := startLoad(t, old, hot)

	// What is hot, and what the new revision is called.
	list := filepath.Join(o.dir, "hot.jsonl")
	listed := run(t, nil, "ns", "hot", "model@r1", "--json", "--count", fmt.Sprint(hot*rolloverChain), "--admin", o.admin()).want(t, 0)
	writeFile(t, list, []byte(listed.stdout))
	if n := countHot(t, listed.stdout, old, hot); n < hot*rolloverChain*9/10 {
		t.Errorf("%d of %d listed blocks are of hot prompts", n, hot*rolloverChain)
	}
	var d engine.Descriptor
	shown := run(t, nil, "ns", "descriptor", "model@r1", "--admin", o.admin()).want(t, 0)
	if err := json.Unmarshal([]byte(shown.stdout), &d); err != nil || d.Revision != "r1" {
		t.Fatalf("%+v, %v", d, err)
	}
	file := func(name string) string {
		text, err := json.Marshal(revisionOf(name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(o.dir, name+".json")
		writeFile(t, path, text)
		return path
	}

	// Warm the new one through its engine.
	fresh := newRevision(t, c, "r2")
	api := httptest.NewServer(fresh)
	defer api.Close()
	var lines strings.Builder
	for i := range hot {
		fmt.Fprintf(&lines, "{\"prompt\": \"prompt %d\"}\n", i)
	}
	writeFile(t, filepath.Join(o.dir, "prompts.jsonl"), []byte(lines.String()))
	warmed := run(t, nil, "warm", "--json", "--endpoint", api.URL+"/v1", "--model", "model", "--prompts", filepath.Join(o.dir, "prompts.jsonl"),
		"--keys", list, "--descriptor", file("r2"), "--socket", o.socket).want(t, 0)
	report := decode(t, warmed.stdout)
	if report["answered"] != float64(hot) || report["present_before"] != 0.0 || report["present_after"].(float64) < hot*rolloverChain*9/10 {
		t.Errorf("%v", report)
	}
	for i := range hot { // side by side, each with its own bytes
		for _, r := range []*revision{old, fresh} {
			if n, err := r.get(fmt.Sprint("prompt ", i)); n != rolloverChain || err != nil {
				t.Fatalf("revision %s: prefix %d, %v", r.name, n, err)
			}
		}
	}
	// A third revision that differs in name only: blocks are copied.
	copied := run(t, nil, "warm", "--json", "--copy-from", file("r2"), "--descriptor", file("r3"), "--keys", list, "--socket", o.socket).want(t, 0)
	if n := decode(t, copied.stdout)["copied"].(float64); n < hot*rolloverChain*9/10 {
		t.Errorf("%v blocks copied", n)
	}
	third := newRevision(t, c, "r3")
	third.name = "r2" // whose bytes it has
	if n, err := third.get("prompt 3"); n != rolloverChain || err != nil {
		t.Errorf("copied: prefix %d, %v", n, err)
	}

	// Drop the old one while it is read.
	before := o.namespaces(t)
	reads := load.Load()
	waitFor(t, "reads", func() bool { return load.Load() > reads })
	o.post(t, "/v1/namespaces/drop", `{"namespace": "model@r1"}`)
	if n, err := old.get("prompt 0"); n != 0 || err != nil {
		t.Errorf("dropped: prefix %d, %v", n, err)
	}
	stopLoad()
	after := o.namespaces(t)
	if n := after["model@r1"].Blocks; n != 0 {
		t.Errorf("%d blocks are left", n)
	}
	if before["model@r2"].Blocks != after["model@r2"].Blocks {
		t.Errorf("the new revision had %d blocks, and has %d", before["model@r2"].Blocks, after["model@r2"].Blocks)
	}
	// Its space is the new one's, up to the quota and no further.
	for i := range 3 * prompts {
		fresh.put(fmt.Sprint("later ", i))
	}
	st := o.namespaces(t)["model@r2"]
	if st.QuotaBytes != 32<<20 || st.Blocks*rolloverBlock > 32<<20 || st.Blocks < (32<<20)/rolloverBlock/2 {
		t.Errorf("quota %d, %d blocks", st.QuotaBytes, st.Blocks)
	}
	o.stop()
	run(t, nil, onDir(filepath.Join(o.dir, "store"), "check")...).want(t, 0)
	// The same list from a store that is not open.
	closed := run(t, nil, "ns", "hot", "model@r2", "--json", "--count", "5", "--dir", filepath.Join(o.dir, "store"), "--any-filesystem", "--buffered-io").want(t, 0)
	if n := strings.Count(closed.stdout, `"type":"hot"`); n != 5 {
		t.Errorf("%d blocks listed", n)
	}
}

// startLoad reads hot prompts of a revision until stop; reads counts them.
func startLoad(t *testing.T, r *revision, hot int) (stop func(), reads *atomic.Int64) {
	t.Helper()
	reads = &atomic.Int64{}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			if _, err := r.get(fmt.Sprint("prompt ", i%hot)); err != nil {
				t.Error(err)
				return
			}
			reads.Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() { close(over) })
		<-ended
	}
	t.Cleanup(stop)
	return stop, reads
}

// countHot counts the listed blocks that belong to the first prompts.
func countHot(t *testing.T, text string, r *revision, hot int) (n int) {
	t.Helper()
	own := map[string]bool{}
	for i := range hot {
		for _, b := range r.chain(fmt.Sprint("prompt ", i), 0) {
			own[fmt.Sprintf("hex:%x", b.Key)] = true
		}
	}
	for line := range strings.Lines(text) {
		var b struct{ Key string }
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatal(err)
		}
		if own[b.Key] {
			n++
		}
	}
	return n
}

func decode(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// namespaceState is what /v1/namespaces says of one.
type namespaceState struct {
	Name       string `json:"name"`
	Blocks     int    `json:"blocks"`
	QuotaBytes int64  `json:"quota_bytes"`
}

// namespaces are the daemon's, by name.
func (o *operated) namespaces(t *testing.T) map[string]namespaceState {
	t.Helper()
	code, text := o.get("/v1/namespaces")
	var all struct{ Namespaces []namespaceState }
	if err := json.Unmarshal([]byte(text), &all); code != http.StatusOK || err != nil {
		t.Fatalf("%d, %v: %s", code, err, text)
	}
	byName := map[string]namespaceState{}
	for _, n := range all.Namespaces {
		byName[n.Name] = n
	}
	return byName
}

// post changes something over the admin interface.
func (o *operated) post(t *testing.T, path, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+o.admin()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer secret")
	q.Close = true
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", a.Status, text)
	}
}

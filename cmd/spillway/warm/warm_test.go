package warm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn is an engine with OpenAI's interface that notes what it was asked.
type standIn struct {
	answer func(w http.ResponseWriter, attempt int64, body map[string]any)

	mu      sync.Mutex
	paths   map[string]int
	bodies  []map[string]any
	keys    map[string]int
	running atomic.Int64
	most    atomic.Int64
	asked   atomic.Int64
}

func (e *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := e.running.Add(1); n > e.most.Load() {
		e.most.Store(n)
	}
	defer e.running.Add(-1)
	var body map[string]any
	text, _ := io.ReadAll(r.Body)
	if json.Unmarshal(text, &body) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	e.paths[r.URL.Path]++
	e.bodies = append(e.bodies, body)
	e.keys[r.Header.Get("Authorization")]++
	e.mu.Unlock()
	e.answer(w, e.asked.Add(1), body)
}

func good(w http.ResponseWriter, _ int64, _ map[string]any) {
	fmt.Fprint(w, `{"choices":[],"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":3}}}`)
}

func start(t *testing.T, answer func(http.ResponseWriter, int64, map[string]any)) (*standIn, Options) {
	t.Helper()
	e := &standIn{answer: answer, paths: map[string]int{}, keys: map[string]int{}}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	return e, Options{Endpoint: u, Model: "m", MaxTokens: 1, AtOnce: 4, Timeout: time.Minute, Attempts: 3, Pause: time.Millisecond}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"prompt\": \"prompt %d\"}\n", i)
	}
	return b.String()
}

// TestPrompts: each line is asked once, as it says, with no more requests at once than
// allowed, and what the engine counts is added up.
func TestPrompts(t *testing.T) {
	e, o := start(t, good)
	o.Key = "secret"
	text := lines(20) + "\n" + `{"messages": [{"role": "user", "content": "hello"}], "model": "other", "max_tokens": 7, "stream": true, "cache_salt": "s"}` + "\n"
	sent, err := Prompts(t.Context(), o, Read(strings.NewReader(text)))
	if err != nil || sent.Prompts != 21 || sent.Answered != 21 || sent.Retries != 0 || sent.PromptTokens != 210 || sent.CachedTokens != 63 {
		t.Fatalf("%+v, %v", sent, err)
	}
	if e.paths["/v1/completions"] != 20 || e.paths["/v1/chat/completions"] != 1 || e.most.Load() > 4 || e.keys["Bearer secret"] != 21 {
		t.Errorf("%v, %d at once, %v", e.paths, e.most.Load(), e.keys)
	}
	seen := map[any]int{}
	for _, b := range e.bodies {
		if b["messages"] != nil {
			if b["model"] != "other" || b["max_tokens"] != 7.0 || b["stream"] != false || b["cache_salt"] != "s" {
				t.Errorf("%v", b)
			}
			continue
		}
		if b["model"] != "m" || b["max_tokens"] != 1.0 || b["stream"] != false {
			t.Errorf("%v", b)
		}
		seen[b["prompt"]]++
	}
	if len(seen) != 20 {
		t.Errorf("%d different prompts", len(seen))
	}
}

// TestBusyEngine: a busy engine is asked again, a refusal is not; what stays unanswered
// is counted, with its cause.
func TestBusyEngine(t *testing.T) {
	_, o := start(t, func(w http.ResponseWriter, attempt int64, body map[string]any) {
		switch {
		case strings.HasSuffix(body["prompt"].(string), " 7"):
			http.Error(w, "too long", http.StatusBadRequest)
		case attempt%2 == 1:
			w.Header().Set("Retry-After", "0.001")
			http.Error(w, "busy", http.StatusTooManyRequests)
		default:
			good(w, attempt, body)
		}
	})
	o.AtOnce = 1
	shown := 0
	o.Progress = func(Sent) { shown++ }
	sent, err := Prompts(t.Context(), o, Read(strings.NewReader(lines(10))))
	if err != nil || sent.Prompts != 10 || sent.Answered != 9 || sent.Retries < 8 || shown != 10 || !strings.Contains(sent.FirstError.Error(), "too long") {
		t.Errorf("%+v, %v, shown %d", sent, err, shown)
	}
	_, o = start(t, func(w http.ResponseWriter, _ int64, _ map[string]any) {
		http.Error(w, "down", http.StatusServiceUnavailable)
	})
	sent, err = Prompts(t.Context(), o, Read(strings.NewReader(lines(2))))
	if err != nil || sent.Answered != 0 || sent.Retries != 4 || sent.FirstError == nil {
		t.Errorf("%+v, %v", sent, err)
	}
	o.Endpoint, o.Attempts = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, 2
	if sent, err = Prompts(t.Context(), o, Read(strings.NewReader(lines(1)))); err != nil || sent.Answered != 0 || sent.Retries != 1 {
		t.Errorf("%+v, %v", sent, err)
	}
}

// TestBadLines: a line that is no prompt ends it, and is named.
func TestBadLines(t *testing.T) {
	for text, say := range map[string]string{
		`{"prompt": "a"}` + "\n{":             "line 2",
		`{}`:                                  "prompt or with messages",
		`{"prompt": "a", "messages": []}`:     "line 1",
		`"prompt"`:                            "line 1",
		strings.Repeat("x", lineBytesMax+100): "too long",
	} {
		_, o := start(t, good)
		if _, err := Prompts(t.Context(), o, Read(strings.NewReader(text))); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%.60q: %v, want %q", text, err, say)
		}
	}
}

// TestInterrupted: an interruption ends everything, requests in flight too.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	_, o := start(t, func(http.ResponseWriter, int64, map[string]any) {
		cancel()
		<-release
	})
	endless := io.MultiReader(strings.NewReader(lines(10)), &repeat{line: []byte(lines(1))})
	sent, err := Prompts(ctx, o, Read(endless))
	if !errors.Is(err, context.Canceled) || sent.Answered != 0 {
		t.Errorf("%+v, %v", sent, err)
	}
}

// repeat yields one line for ever.
type repeat struct{ line, rest []byte }

func (r *repeat) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		r.rest = bytes.Clone(r.line)
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestRate: requests begin by the schedule, not sooner.
func TestRate(t *testing.T) {
	_, o := start(t, good)
	o.PerSecond = 200
	began := time.Now()
	if sent, err := Prompts(t.Context(), o, Read(strings.NewReader(lines(11)))); err != nil || sent.Answered != 11 || time.Since(began) < 50*time.Millisecond {
		t.Errorf("%+v, %v, %v", sent, err, time.Since(began))
	}
}

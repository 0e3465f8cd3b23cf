package warm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Options say how prompts are sent.
type Options struct {
	Endpoint  *url.URL      // the interface's root, such as http://127.0.0.1:8000/v1
	Model     string        // of lines that name none
	Key       string        // sent as a bearer token; empty: none
	MaxTokens int           // of an answer
	AtOnce    int           // requests in flight
	PerSecond float64       // requests begun; 0: as fast as they are answered
	Timeout   time.Duration // of one request
	Attempts  int           // of one prompt, where the engine is busy or away
	Pause     time.Duration // before the second attempt; doubles, unless the engine says how long
	Progress  func(Sent)    // called from one goroutine at a time; may be nil
}

// Sent is what became of prompts.
type Sent struct {
	Prompts      int           // sent, or tried
	Answered     int           // of those
	Retries      int           // attempts after a first one
	PromptTokens int64         // as the engine counts them
	CachedTokens int64         // of those, that it did not have to compute, where it says so
	Time         time.Duration // of all together
	FirstError   error         // of the prompts that were not answered
}

// Prompts sends every prompt. It ends early with the error of prompts or ctx; what was in
// flight has ended then, too. A prompt that fails is counted, not an error.
func Prompts(ctx context.Context, o Options, prompts iter.Seq2[Prompt, error]) (Sent, error) {
	s := sender{o: o, began: time.Now(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.AtOnce, Proxy: http.ProxyFromEnvironment}}}
	defer s.client.CloseIdleConnections()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := make(chan Prompt)
	var all sync.WaitGroup
	for range o.AtOnce {
		all.Go(func() {
			for p := range work {
				s.one(ctx, &p)
			}
		})
	}
	err := feed(ctx, o.PerSecond, prompts, work)
	if err != nil {
		stop()
	}
	close(work)
	all.Wait()
	s.sent.Time = time.Since(s.began)
	return s.sent, err
}

// feed hands out the prompts at a rate: by a schedule, so that a slow moment is made good.
func feed(ctx context.Context, perSecond float64, prompts iter.Seq2[Prompt, error], work chan<- Prompt) error {
	began, n := time.Now(), 0
	for p, err := range prompts {
		if err != nil {
			return err
		}
		if perSecond > 0 {
			if wait(ctx, time.Until(began.Add(time.Duration(float64(n)/perSecond*float64(time.Second))))) != nil {
				return context.Cause(ctx)
			}
		}
		n++
		select {
		case work <- p:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sender counts what its workers do.
type sender struct {
	o      Options
	began  time.Time
	client *http.Client

	mu   sync.Mutex
	sent Sent
}

// usage is what an engine says of a request.
type usage struct {
	PromptTokens int64 `json:"prompt_tokens"`
	Details      struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// one sends a prompt until it is answered, or cannot be.
func (s *sender) one(ctx context.Context, p *Prompt) {
	var used usage
	var err error
	attempts, pause := 0, s.o.Pause
	for {
		attempts++
		var again time.Duration
		if used, again, err = s.ask(ctx, p); err == nil || again < 0 || attempts >= s.o.Attempts {
			break
		}
		if again == 0 {
			again, pause = pause, 2*pause
		}
		if wait(ctx, again) != nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Prompts++
	s.sent.Retries += attempts - 1
	if err == nil {
		s.sent.Answered++
		s.sent.PromptTokens += used.PromptTokens
		s.sent.CachedTokens += used.Details.CachedTokens
	} else if s.sent.FirstError == nil {
		s.sent.FirstError = err
	}
	if s.o.Progress != nil {
		s.o.Progress(s.sent)
	}
}

// never, as a pause, says that another attempt is of no use.
const never time.Duration = -1

// answerBytesMax bounds an answer, retryMax what an engine may ask to wait.
const (
	answerBytesMax = 16 << 20
	retryMax       = time.Minute
)

// ask sends a prompt once. With an error, again is how long to wait before another
// attempt: 0 as one likes, never: not at all.
func (s *sender) ask(ctx context.Context, p *Prompt) (used usage, again time.Duration, err error) {
	path, body, err := p.request(&s.o)
	if err != nil {
		return used, never, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.Endpoint.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return used, never, err
	}
	q.Header.Set("Content-Type", "application/json")
	if s.o.Key != "" {
		q.Header.Set("Authorization", "Bearer "+s.o.Key)
	}
	a, err := s.client.Do(q)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return used, never, fmt.Errorf("no answer within %v: %w", s.o.Timeout, err)
		}
		return used, 0, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, answerBytesMax))
	switch {
	case err != nil:
		return used, 0, err
	case a.StatusCode == http.StatusTooManyRequests || a.StatusCode >= 500 && a.StatusCode != http.StatusNotImplemented:
		return used, retryAfter(a.Header.Get("Retry-After")), fmt.Errorf("%s answers %s: %.200s", q.URL, a.Status, text)
	case a.StatusCode != http.StatusOK:
		return used, never, fmt.Errorf("%s answers %s: %.200s", q.URL, a.Status, text)
	}
	var answer struct {
		Usage usage `json:"usage"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return used, never, fmt.Errorf("%s answers no JSON: %w", q.URL, err)
	}
	return answer.Usage, 0, nil
}

// retryAfter reads a header of seconds; 0 where there is none.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.ParseFloat(header, 64)
	if err != nil || !(seconds > 0) || math.IsInf(seconds, 0) {
		return 0
	}
	return time.Duration(min(seconds, retryMax.Seconds()) * float64(time.Second))
}

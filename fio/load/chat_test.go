package load

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// spy watches a feed of chats.
type spy struct {
	*Chat
	t       *testing.T
	live    map[int]int64 // start of the turn in flight, by session
	ended   map[int]int64
	turns   int
	blocks  map[uint64]bool
	refs    int
	reuses  int
	pauseNS []int64
}

func newSpy(t *testing.T, c *Chat) *spy {
	return &spy{Chat: c, t: t, live: map[int]int64{}, ended: map[int]int64{}, blocks: map[uint64]bool{}}
}

func (s *spy) NextRequest(nowNS int64, r *Request) Answer {
	a := s.Chat.NextRequest(nowNS, r)
	if a != Ready {
		return a
	}
	if r.StartNS > nowNS {
		s.t.Errorf("a turn was given at %d, ahead of its start %d", nowNS, r.StartNS)
	}
	if _, busy := s.live[r.Session]; busy {
		s.t.Errorf("session %d has two turns at once", r.Session)
	}
	if ended, again := s.ended[r.Session]; again {
		s.pauseNS = append(s.pauseNS, r.StartNS-ended)
	}
	s.live[r.Session] = r.StartNS
	s.turns++
	for _, b := range r.Blocks {
		s.refs++
		if s.blocks[b] {
			s.reuses++
		}
		s.blocks[b] = true
	}
	return a
}

func (s *spy) EndRequest(session int, endNS int64) {
	delete(s.live, session)
	s.ended[session] = endNS
	s.Chat.EndRequest(session, endNS)
}

// TestChatIsClosed: a session's next turn waits for the end of the one before,
// on a target that is much too slow.
func TestChatIsClosed(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSpy(t, NewChat(ChatConfig{Shape: trace.Config{Seed: seed}, Sessions: 20, Think: 0.1}))
			held := cache{}
			p := player{depth: 4, latencyNS: always(secondNS / 4), outcome: held.outcome, untilNS: 2000 * secondNS}
			p.play(t, NewChains(s, ChainConfig{BlockBytes: 1, TokensPerBlock: trace.TokensPerBlock}))
			if s.turns < 100 {
				t.Errorf("%d turns", s.turns)
			}
			if share := float64(s.reuses) / float64(s.refs); share < .25 || share > .6 {
				t.Errorf("%.2f of the blocks come again; chats keep what was said", share)
			}
			if slices.Min(s.pauseNS) < 0 {
				t.Error("a turn starts before the one before has ended")
			}
		})
	}
}

// TestChatScales: more sessions ask more, and no think time leaves none.
func TestChatScales(t *testing.T) {
	turns := func(sessions int, think float64) int {
		s := newSpy(t, NewChat(ChatConfig{Shape: trace.Config{Seed: 4}, Sessions: sessions, Think: think}))
		p := player{depth: 64, latencyNS: always(1000), outcome: cache{}.outcome, untilNS: 600 * secondNS, opsMax: 40_000}
		p.play(t, NewChains(s, ChainConfig{BlockBytes: 1, TokensPerBlock: trace.TokensPerBlock}))
		if think == 0 && slices.Max(s.pauseNS) > 0 {
			t.Error("a session thinks")
		}
		return s.turns
	}
	few, many := turns(10, 1), turns(100, 1)
	if ratio := float64(many) / float64(few); ratio < 5 || ratio > 20 {
		t.Errorf("%d turns of 10 sessions, %d of 100", few, many)
	}
	turns(3, 0)
}

// TestChatArrivals: sessions come at their rate, up to the bound.
func TestChatArrivals(t *testing.T) {
	c := NewChat(ChatConfig{Shape: trace.Config{Seed: 9, Kind: trace.ToolAgent}, Sessions: 1000, PerSecond: 2, Think: 1})
	s := newSpy(t, c)
	p := player{depth: 64, latencyNS: always(1000), outcome: cache{}.outcome, untilNS: 300 * secondNS}
	p.play(t, NewChains(s, ChainConfig{BlockBytes: 1, TokensPerBlock: trace.TokensPerBlock}))
	// 600 sessions, of 1.3 turns on average; some turns are yet to come.
	if s.turns < 520 || s.turns > 850 || c.Lost() != 0 {
		t.Errorf("%d turns, %d lost", s.turns, c.Lost())
	}
	c = NewChat(ChatConfig{Shape: trace.Config{Seed: 9}, Sessions: 5, PerSecond: 2, Think: 1})
	p = player{depth: 64, latencyNS: always(1000), outcome: cache{}.outcome, untilNS: 300 * secondNS}
	p.play(t, NewChains(newSpy(t, c), ChainConfig{BlockBytes: 1, TokensPerBlock: trace.TokensPerBlock}))
	if c.Lost() == 0 {
		t.Error("five sessions at a time were enough for two a second")
	}
}

// TestChatWorkers: workers share the system prompts and nothing else.
func TestChatWorkers(t *testing.T) {
	j := &job.Job{Engine: job.EngineStore, Chat: job.Chat{Sessions: 8, Think: 1}, RandRepeat: true, NumberIOs: 3000}
	blocks := func(worker int) map[uint64]bool {
		w, err := New(j, Config{Worker: worker, Workers: 2, BlockBytes: 1, TokensPerBlock: 512})
		if err != nil {
			t.Fatal(err)
		}
		p := player{depth: 4, latencyNS: always(1000), outcome: cache{}.outcome}
		all := map[uint64]bool{}
		for _, op := range p.play(t, w) {
			all[op.Block] = true
		}
		return all
	}
	first, shared := blocks(0), 0
	for b := range blocks(1) {
		if first[b] {
			shared++
			if b >= 1<<40 {
				t.Errorf("both workers have block %d", b)
			}
		}
	}
	if shared == 0 {
		t.Error("the workers share no system prompt")
	}
}

func TestChatNeedsAnEnd(t *testing.T) {
	if _, err := New(&job.Job{Engine: job.EngineStore, Chat: job.Chat{Sessions: 1}}, Config{}); err == nil {
		t.Error("a chat without an end is accepted")
	}
}

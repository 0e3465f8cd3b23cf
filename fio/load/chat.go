package load

import (
	"math/rand/v2"

	"github.com/spillway-kv/spillway/tiering/trace"
)

// ChatConfig shapes a synthetic load of chat sessions.
type ChatConfig struct {
	// Shape is what sessions ask: kind, seed, tokens per block, first id.
	Shape trace.Config
	// Sessions are live at any time: when one ends another begins. With PerSecond
	// they bound the live ones; one that comes on top is lost, and counted.
	Sessions int
	// PerSecond, if not 0, is the rate of sessions that begin, at random times,
	// whatever became of the earlier ones.
	PerSecond float64
	// Think scales the time from the end of a turn to the start of the next one,
	// 155 s in the median at 1. At 0 there is none.
	Think float64
}

// Chat feeds the turns of chat sessions. It is closed for each session: a turn
// starts a think time after the turn before has ended. Sessions are live to the
// end of the run.
type Chat struct {
	config   ChatConfig
	chats    *trace.Chats
	rng      *rand.Rand
	sessions []trace.Session
	idle     []int // places in sessions that no session has
	pending  []pendingTurn
	arrivals *arrivals // nil: closed
	lost     uint64
}

// pendingTurn is a session between two turns.
type pendingTurn struct {
	atNS    int64
	session int
}

// NewChat makes a feed of chats.
func NewChat(c ChatConfig) *Chat {
	f := &Chat{config: c, chats: trace.NewChats(c.Shape), rng: newRand(c.Shape.Seed, streamChat)}
	f.sessions = make([]trace.Session, c.Sessions)
	f.pending = make([]pendingTurn, 0, len(f.sessions))
	if c.PerSecond > 0 {
		f.arrivals = perSecond(c.PerSecond, true, c.Shape.Seed, streamChat)
		for i := range f.sessions {
			f.idle = append(f.idle, len(f.sessions)-1-i)
		}
		return f
	}
	for i := range f.sessions {
		// They do not all begin at once, as they do not in the middle of a day.
		const spreadNS = 155 * secondNS
		f.push(pendingTurn{int64(f.rng.Float64() * c.Think * spreadNS), i})
	}
	return f
}

// Lost counts sessions that found Sessions others.
func (f *Chat) Lost() uint64 { return f.lost }

// NextRequest is that of Feed. It ends only if there are no Sessions.
func (f *Chat) NextRequest(nowNS int64, q *Request) Answer {
	if len(f.sessions) == 0 {
		return End
	}
	f.admit(nowNS)
	if len(f.pending) == 0 || f.pending[0].atNS > nowNS {
		q.StartNS = AtOnce
		if len(f.pending) > 0 {
			q.StartNS = f.pending[0].atNS
		}
		if f.arrivals != nil {
			q.StartNS = earlier(q.StartNS, f.arrivals.dueNS())
		}
		return Wait
	}
	t := f.pop()
	s := &f.sessions[t.session]
	f.chats.Turn(s)
	q.Mode, q.StartNS, q.Session = LoadThenPut, t.atNS, t.session
	q.InputTokens, q.OutputTokens = s.Request.InputLength, s.Request.OutputLength
	q.Blocks = append(q.Blocks, s.Request.HashIDs...)
	return Ready
}

// admit begins the sessions that have come.
func (f *Chat) admit(nowNS int64) {
	for f.arrivals != nil && f.arrivals.dueNS() <= nowNS {
		if last := len(f.idle) - 1; last >= 0 {
			f.sessions[f.idle[last]].Begin()
			f.push(pendingTurn{f.arrivals.dueNS(), f.idle[last]})
			f.idle = f.idle[:last]
		} else {
			f.lost++
		}
		f.arrivals.started(0)
	}
}

// EndRequest lets the session think, or end.
func (f *Chat) EndRequest(session int, endNS int64) {
	s := &f.sessions[session]
	if pauseMS, more := f.chats.Pause(s); more {
		f.push(pendingTurn{endNS + int64(pauseMS*f.config.Think*1e6), session})
		return
	}
	s.Begin()
	if f.arrivals != nil {
		f.idle = append(f.idle, session)
		return
	}
	f.push(pendingTurn{endNS, session})
}

// Err is nil.
func (f *Chat) Err() error { return nil }

// less orders by time, and by session for one order of equal times.
func (t pendingTurn) less(u pendingTurn) bool {
	return t.atNS < u.atNS || t.atNS == u.atNS && t.session < u.session
}

// push and pop keep pending a heap. container/heap would allocate for each.
func (f *Chat) push(t pendingTurn) {
	f.pending = append(f.pending, t)
	h := f.pending
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].less(h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (f *Chat) pop() pendingTurn {
	h := f.pending
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	f.pending = h
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && h[child+1].less(h[child]) {
			child++
		}
		if child >= last || !h[child].less(h[i]) {
			return top
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

package trace

import (
	"container/heap"
	"io"
	"math/rand/v2"
	"slices"
)

// Config shapes a generated trace. Zero values mean the defaults named here,
// which have the shape of the Mooncake conversation trace.
type Config struct {
	// Seed decides everything random: equal configurations give equal traces.
	Seed uint64
	// Kind is what the requests are like. Default Conversation.
	Kind Kind
	// Requests is the number of requests; 0 means no end.
	Requests int
	// SpanMS is about how long Requests of them take; fewer requests in the same
	// span keep re-use and its gaps as they are. Default 3,540,000, 59 minutes.
	SpanMS int64
	// TokensPerBlock is how many tokens an id covers. Default the constant.
	TokensPerBlock int
	// FirstID, if not 0, is the first id of what is not shared; the shared system
	// prompts have lower ones, equal for all seeds. Generators with IDs far
	// apart (1<<40, 2<<40, ...) together make one load.
	FirstID uint64
}

const (
	// ConversationRequests is the size of the conversation trace; in the default
	// span it gives the rate of a trace without end.
	ConversationRequests = 12_031
	spanDefaultMS        = 59 * 60 * 1000
	liveSessionsMax      = 1 << 20 // bound of memory: past it a conversation ends early
)

// Generator makes a trace of chat sessions that begin at random and go on
// after a pause to think, counted from one turn to the next. Memory is bounded
// by the sessions that are between two turns.
type Generator struct {
	chats     *Chats
	rng       *rand.Rand // of arrivals
	left      int        // requests to come; negative: no end
	arrivalMS float64
	meanGapMS float64 // between two sessions' arrivals
	pending   turnHeap
	sequence  uint64
}

// turn is a session waiting for its next request.
type turn struct {
	atMS     float64
	sequence uint64 // order among equal times
	session  *Session
}

// NewGenerator starts a generated trace.
func NewGenerator(c Config) *Generator {
	if c.SpanMS <= 0 {
		c.SpanMS = spanDefaultMS
	}
	g := &Generator{
		chats: NewChats(c),
		rng:   rand.New(rand.NewPCG(c.Seed, 0x6172726976616c73)),
		left:  c.Requests,
	}
	inSpan := c.Requests
	if inSpan <= 0 {
		g.left, inSpan = -1, g.chats.model.requests
	}
	// The first sessions' later turns come after a pause, so the start is slow.
	const catchUp = 0.92
	g.meanGapMS = float64(c.SpanMS) / float64(inSpan) * g.chats.requestsMean * catchUp
	g.arrive()
	return g
}

// Next answers the next request, io.EOF after the last one; no other error.
func (g *Generator) Next() (Request, error) {
	if g.left == 0 {
		return Request{}, io.EOF
	}
	if g.left > 0 {
		g.left--
	}
	for len(g.pending) == 0 || g.arrivalMS <= g.pending[0].atMS {
		g.push(turn{atMS: g.arrivalMS, session: new(Session)})
		g.arrive()
	}
	t := heap.Pop(&g.pending).(turn)
	g.chats.Turn(t.session)
	q := t.session.Request
	q.TimestampMS = int64(t.atMS)
	q.HashIDs = slices.Clone(q.HashIDs)
	if pauseMS, more := g.chats.Pause(t.session); more && len(g.pending) < liveSessionsMax {
		g.push(turn{atMS: t.atMS + pauseMS, session: t.session})
	}
	return q, nil
}

func (g *Generator) arrive() { g.arrivalMS += g.rng.ExpFloat64() * g.meanGapMS }

func (g *Generator) push(t turn) {
	t.sequence = g.sequence
	g.sequence++
	heap.Push(&g.pending, t)
}

func blocksOf(tokens int) int { return (tokens + TokensPerBlock - 1) / TokensPerBlock }

// turnHeap orders turns by time.
type turnHeap []turn

func (h turnHeap) Len() int { return len(h) }
func (h turnHeap) Less(i, j int) bool {
	if h[i].atMS != h[j].atMS {
		return h[i].atMS < h[j].atMS
	}
	return h[i].sequence < h[j].sequence
}
func (h turnHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *turnHeap) Push(x any)   { *h = append(*h, x.(turn)) }
func (h *turnHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = turn{}
	*h = (*h)[:last]
	return t
}

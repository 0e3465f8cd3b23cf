package trace

import (
	"container/heap"
	"io"
	"math"
	"math/rand/v2"
)

// Config shapes a generated trace. Zero values mean the defaults named here,
// which have the shape of the Mooncake conversation trace.
type Config struct {
	// Seed decides everything random: equal configurations give equal traces.
	Seed uint64
	// Requests is the number of requests; 0 means no end.
	Requests int
	// SpanMS is about how long Requests of them take; fewer requests in the same
	// span keep re-use and its gaps as they are. Default 3,540,000, 59 minutes.
	SpanMS int64
}

const (
	// ConversationRequests is the size of the conversation trace; in the default
	// span it gives the rate of a trace without end.
	ConversationRequests = 12_031
	spanDefaultMS        = 59 * 60 * 1000
	inputTokensMax       = 126_195
	outputTokensMax      = 2_000
	liveSessionsMax      = 1 << 20 // bound of memory: past it a conversation ends early
)

// Generator makes a trace of chat sessions: each starts with a prompt (all
// share their first block, some a longer system prompt), and each later turn
// sends everything said so far plus something new, after a pause to think. A
// turn keeps the ids of the full blocks of the turn before; its partial last
// block is never seen again. Memory is bounded by the sessions that are between
// two turns.
type Generator struct {
	rng        *rand.Rand
	left       int // requests to come; negative: no end
	arrivalMS  float64
	meanGapMS  float64 // between two sessions' arrivals
	pending    turnHeap
	nextID     uint64
	sequence   uint64
	prompts    [][]uint64 // ids of the shared system prompts, given at first use
	promptSize []int      // their lengths in blocks
}

// turn is a session waiting for its next request.
type turn struct {
	atMS     float64
	sequence uint64 // order among equal times
	number   int    // 1 for the session's first request
	tokens   int    // input of this turn
	keep     []uint64
}

// NewGenerator starts a generated trace.
func NewGenerator(c Config) *Generator {
	if c.SpanMS <= 0 {
		c.SpanMS = spanDefaultMS
	}
	g := &Generator{
		rng:  rand.New(rand.NewPCG(c.Seed, 0x7370696c6c776179)),
		left: c.Requests,
	}
	inSpan := c.Requests
	if inSpan <= 0 {
		g.left, inSpan = -1, ConversationRequests
	}
	// The first sessions' later turns come after a pause, so the start is slow.
	const catchUp = 0.92
	g.meanGapMS = float64(c.SpanMS) / float64(inSpan) * turnsMean() * catchUp
	g.prompts = make([][]uint64, sharedPrompts)
	for range sharedPrompts {
		g.promptSize = append(g.promptSize, 2+g.rng.IntN(sharedPromptBlocksMax-1))
	}
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
		g.push(g.firstTurn())
		g.arrive()
	}
	t := heap.Pop(&g.pending).(turn)
	q := Request{
		TimestampMS:  int64(t.atMS),
		InputLength:  t.tokens,
		OutputLength: g.outputTokens(),
		HashIDs:      g.chain(t),
	}
	if g.rng.Float64() < anotherTurn(t.number) && len(g.pending) < liveSessionsMax {
		g.push(g.followingTurn(t, q))
	}
	return q, nil
}

func (g *Generator) arrive() { g.arrivalMS += g.rng.ExpFloat64() * g.meanGapMS }

func (g *Generator) push(t turn) {
	t.sequence = g.sequence
	g.sequence++
	heap.Push(&g.pending, t)
}

// chain is the ids of a turn: those it keeps, then new ones.
func (g *Generator) chain(t turn) []uint64 {
	ids := make([]uint64, 0, blocksOf(t.tokens))
	ids = append(ids, t.keep...)
	for len(ids) < cap(ids) {
		ids = append(ids, g.newID())
	}
	return ids
}

func (g *Generator) newID() uint64 {
	g.nextID++
	return g.nextID - 1
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

// logNormal draws from the log-normal distribution with this median.
func (g *Generator) logNormal(median, sigma float64) float64 {
	return median * math.Exp(sigma*g.rng.NormFloat64())
}

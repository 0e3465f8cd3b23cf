package trace

import (
	"math"
	"math/rand/v2"
)

const (
	inputTokensMax  = 126_195
	outputTokensMax = 2_000
)

// Chats draws what sessions ask, turn by turn, without saying when: a Generator
// lays them on a time line, a closed loop lets each turn wait for the one
// before. Each session starts with a prompt (all share the first block, some a
// longer system prompt), and each later turn sends everything said so far plus
// something new. A turn keeps the ids of the full blocks of the turn before; a
// partial last block is never seen again.
type Chats struct {
	rng            *rand.Rand
	model          model
	tokensPerBlock int
	requestsMean   float64
	nextID         uint64
	prompts        [][]uint64 // ids of the shared system prompts, given at first use
	promptTokens   []int
}

// Session is one conversation. The zero Session has not begun. Request is its
// newest request; HashIDs stay the session's, and keep their capacity.
type Session struct {
	Turn    int // of Request, from 1
	Request Request
	single  bool // ends after its first turn
}

// NewChats starts drawing by a configuration, of which the times do not count.
func NewChats(c Config) *Chats {
	g := &Chats{
		rng:            rand.New(rand.NewPCG(c.Seed, 0x7370696c6c776179)),
		model:          c.Kind.model(),
		tokensPerBlock: c.TokensPerBlock,
	}
	if g.tokensPerBlock <= 0 {
		g.tokensPerBlock = TokensPerBlock
	}
	g.requestsMean = g.model.requestsMean()
	lengths := rand.New(rand.NewPCG(0, 0x70726f6d707473)) // equal for all seeds
	for range sharedPrompts {
		blocks := 2 + lengths.IntN(sharedPromptBlocksMax-1)
		g.promptTokens = append(g.promptTokens, blocks*TokensPerBlock)
	}
	g.promptTokens[0] = TokensPerBlock // the one that all share
	for _, t := range g.model.tools {
		g.promptTokens = append(g.promptTokens, t.promptBlocks*TokensPerBlock)
	}
	g.prompts = make([][]uint64, len(g.promptTokens))
	if c.FirstID > 0 {
		for i := range g.prompts {
			g.sharedPrompt(i)
		}
		g.nextID = max(g.nextID, c.FirstID)
	}
	return g
}

// Begin makes s a new session without a turn, and keeps its memory.
func (s *Session) Begin() {
	s.Turn, s.single = 0, false
	s.Request = Request{HashIDs: s.Request.HashIDs[:0]}
}

// Turn draws the next request of a session. Its time is left as it is.
func (g *Chats) Turn(s *Session) {
	q := &s.Request
	if s.Turn++; s.Turn == 1 {
		g.first(s)
	} else {
		g.following(q)
	}
	for len(q.HashIDs)*g.tokensPerBlock < q.InputLength {
		q.HashIDs = append(q.HashIDs, g.newID())
	}
	q.OutputLength = g.outputTokens()
}

// Pause tells whether a session has another turn, and after how long: the time
// from one turn's start to the next in the trace the shape is fitted to.
func (g *Chats) Pause(s *Session) (ms float64, more bool) {
	if s.single || g.rng.Float64() >= anotherTurn(s.Turn) {
		return 0, false
	}
	return max(g.logNormal(pauseMedianMS, pauseSigma), pauseMinMS), true
}

func (g *Chats) first(s *Session) {
	q := &s.Request
	draw := g.rng.Float64() / g.requestsMean // sessions for one request
	for i, t := range g.model.tools {
		if draw -= t.share; draw < 0 {
			s.single = true
			g.begin(q, sharedPrompts+i)
			low, high := (t.newBlocksMin-1)*TokensPerBlock, t.most*TokensPerBlock
			q.InputLength = t.promptBlocks*TokensPerBlock + low + 1 + g.rng.IntN(high-low)
			return
		}
	}
	tokens := int(max(g.logNormal(firstPromptMedianTokens, firstPromptSigma), firstPromptTokensMin))
	which := 0
	if g.rng.Float64() < sharedPromptShare {
		which = g.rng.IntN(sharedPrompts)
	}
	g.begin(q, which)
	q.InputLength = max(min(tokens, inputTokensMax), g.promptTokens[which]+1)
}

// following makes q the request after itself.
func (g *Chats) following(q *Request) {
	added := g.logNormal(typedMedianTokens, typedSigma)
	if g.rng.Float64() < pasteShare {
		added = g.logNormal(pasteMedianTokens, pasteSigma)
	}
	q.HashIDs = q.HashIDs[:q.InputLength/g.tokensPerBlock]
	q.InputLength += q.OutputLength + int(added)
	if q.InputLength > inputTokensMax { // the conversation is cut and starts over
		g.begin(q, 0)
		q.InputLength = inputTokensMax
	}
}

// begin lets the ids of q be those of a system prompt's full blocks.
func (g *Chats) begin(q *Request, which int) {
	q.HashIDs = append(q.HashIDs[:0], g.sharedPrompt(which)...)
}

// sharedPrompt is the ids of a system prompt. All begin with the same block.
func (g *Chats) sharedPrompt(which int) []uint64 {
	blocks := g.promptTokens[which] / g.tokensPerBlock
	if which > 0 && g.prompts[which] == nil {
		g.prompts[which] = append([]uint64(nil), g.sharedPrompt(0)...)
	}
	for len(g.prompts[which]) < blocks {
		g.prompts[which] = append(g.prompts[which], g.newID())
	}
	return g.prompts[which]
}

func (g *Chats) outputTokens() int {
	median, sigma := 380.0, 0.42
	if g.rng.Float64() < 0.15 {
		median, sigma = 30, 0.8
	}
	return 1 + int(min(g.model.outputScale*g.logNormal(median, sigma), outputTokensMax-1))
}

func (g *Chats) newID() uint64 {
	g.nextID++
	return g.nextID - 1
}

// logNormal draws from the log-normal distribution with this median.
func (g *Chats) logNormal(median, sigma float64) float64 {
	return median * math.Exp(sigma*g.rng.NormFloat64())
}

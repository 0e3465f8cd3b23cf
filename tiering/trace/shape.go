package trace

import "slices"

// The numbers here are fitted to the Mooncake conversation trace; the test of
// the generator's shape holds them to it.

const (
	firstPromptMedianTokens = 5_350
	firstPromptSigma        = 1.2
	firstPromptTokensMin    = 890

	sharedPrompts         = 24
	sharedPromptBlocksMax = 24
	sharedPromptShare     = 0.05

	pauseMedianMS = 155_000.0 // from one turn to the next
	pauseSigma    = 1.2
	pauseMinMS    = 6_000.0

	pasteShare        = 0.22 // of the following turns bring a document along
	pasteMedianTokens = 6_000
	pasteSigma        = 1.1
	typedMedianTokens = 120
	typedSigma        = 1.0
)

// turnShare is the probability that a session goes on after its n-th turn; the
// last entry holds for all later ones.
var turnShare = [...]float64{0.295, 0.42, 0.52, 0.60, 0.66, 0.71, 0.78, 0.82}

func anotherTurn(number int) float64 {
	return turnShare[min(number, len(turnShare))-1]
}

// turnsMean is the expected number of turns of a session.
func turnsMean() float64 {
	mean, reached := 0.0, 1.0
	for _, p := range turnShare {
		mean += reached
		reached *= p
	}
	return mean + reached/(1-turnShare[len(turnShare)-1])
}

func (g *Generator) firstTurn() turn {
	tokens := int(max(g.logNormal(firstPromptMedianTokens, firstPromptSigma), firstPromptTokensMin))
	t := turn{atMS: g.arrivalMS, number: 1, tokens: min(tokens, inputTokensMax)}
	which := 0 // the prompt of one block that all share
	if g.rng.Float64() < sharedPromptShare {
		which = g.rng.IntN(sharedPrompts)
	}
	t.keep = g.sharedPrompt(which)
	t.tokens = max(t.tokens, len(t.keep)*TokensPerBlock+1)
	return t
}

// sharedPrompt is the ids of a system prompt. All begin with the same block.
func (g *Generator) sharedPrompt(which int) []uint64 {
	if g.prompts[which] == nil {
		if which > 0 {
			g.prompts[which] = append([]uint64(nil), g.sharedPrompt(0)...)
		}
		size := g.promptSize[which]
		if which == 0 {
			size = 1
		}
		for len(g.prompts[which]) < size {
			g.prompts[which] = append(g.prompts[which], g.newID())
		}
	}
	return g.prompts[which]
}

// followingTurn is the turn after t, whose request was q.
func (g *Generator) followingTurn(t turn, q Request) turn {
	added := g.logNormal(typedMedianTokens, typedSigma)
	if g.rng.Float64() < pasteShare {
		added = g.logNormal(pasteMedianTokens, pasteSigma)
	}
	next := turn{
		atMS:   t.atMS + max(g.logNormal(pauseMedianMS, pauseSigma), pauseMinMS),
		number: t.number + 1,
		tokens: q.InputLength + q.OutputLength + int(added),
		keep:   slices.Clone(q.HashIDs[:q.InputLength/TokensPerBlock]),
	}
	if next.tokens > inputTokensMax { // the conversation is cut and starts over
		next.tokens = inputTokensMax
		next.keep = g.sharedPrompt(0)
	}
	return next
}

func (g *Generator) outputTokens() int {
	if g.rng.Float64() < 0.15 {
		return 1 + int(min(g.logNormal(30, 0.8), outputTokensMax-1))
	}
	return 1 + int(min(g.logNormal(380, 0.42), outputTokensMax-1))
}

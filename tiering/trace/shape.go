package trace

// Kind is what the generated requests are like.
type Kind uint8

const (
	// Conversation: people chatting, the shape of the Mooncake conversation trace.
	Conversation Kind = iota
	// ToolAgent: programs that send one of a few long prompts with little behind
	// it, between conversations; the shape of the Mooncake toolagent trace.
	ToolAgent
)

// The numbers of a conversation are fitted to the Mooncake conversation trace;
// the test of the generator's shape holds them to it.
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

// turnShare is the probability that a conversation goes on after its n-th turn;
// the last entry holds for all later ones.
var turnShare = [...]float64{0.295, 0.42, 0.52, 0.60, 0.66, 0.71, 0.78, 0.82}

func anotherTurn(number int) float64 {
	return turnShare[min(number, len(turnShare))-1]
}

// turnsMean is the expected number of turns of a conversation.
func turnsMean() float64 {
	mean, reached := 0.0, 1.0
	for _, p := range turnShare {
		mean += reached
		reached *= p
	}
	return mean + reached/(1-turnShare[len(turnShare)-1])
}

// tool is a prompt that many requests of one turn begin with.
type tool struct {
	share              float64 // of the requests
	promptBlocks       int     // of TokensPerBlock
	newBlocksMin, most int     // blocks behind the prompt, the last one begun
}

// model is what tells one kind from another.
type model struct {
	requests    int // in the default span
	tools       []tool
	outputScale float64 // against a conversation's
}

// The published figures of toolagent: 23,608 requests, 8,596 tokens in and 182
// out on average, 59 % of the references re-used; two fifths share a prompt of
// 12 blocks, a sixth one of 5 blocks, the others the first block. Those others
// are conversations here, which brings re-use to about 55 %.
func (k Kind) model() model {
	if k == ToolAgent {
		return model{
			requests:    23_608,
			tools:       []tool{{0.40, 12, 1, 4}, {0.18, 5, 2, 2}},
			outputScale: 0.5,
		}
	}
	return model{requests: ConversationRequests, outputScale: 1}
}

// requestsMean is the expected number of requests of a session.
func (s *model) requestsMean() float64 {
	sessions := 0.0 // for one request
	rest := 1.0
	for _, t := range s.tools {
		sessions += t.share
		rest -= t.share
	}
	return 1 / (sessions + rest/turnsMean())
}

package load

// Mode is what a request does with its blocks.
type Mode uint8

// Modes.
const (
	// LoadThenPut is what an inference engine does: it loads the longest prefix
	// of the chain that is there, computes the rest and puts that.
	LoadThenPut Mode = iota
	// LoadOnly reads all blocks.
	LoadOnly
	// PutOnly writes all blocks.
	PutOnly
)

// Request is one request of an inference engine to its KV store.
type Request struct {
	Mode    Mode
	StartNS int64 // intended, on the worker's clock; or AtOnce
	// InputTokens and OutputTokens are the request's lengths, 0 if unknown.
	InputTokens, OutputTokens int
	// Blocks is the chain, root first. It is the Chains' memory; a Feed fills it.
	Blocks  []uint64
	Session int // the Feed's own number, which comes back when the request has ended
}

// Feed gives requests in the order of their starts. Like a Source it belongs to
// one goroutine and never waits.
type Feed interface {
	// NextRequest fills in r, every field of it. Ready: the request may lie
	// ahead. Wait: ask again at r.StartNS, or if that is AtOnce after the next
	// EndRequest. End: no more.
	NextRequest(nowNS int64, r *Request) Answer
	// EndRequest tells that a request is over at endNS, which may lie ahead by the
	// time that its output takes.
	EndRequest(session int, endNS int64)
	// Err is why the requests ended early, nil if they did not.
	Err() error
}

// Load is the outcome of loading one request's prefix: what load-or-recompute
// judges.
type Load struct {
	Namespace int
	// Blocks is the length of the chain, Loaded how many of them, from the root,
	// were read and right.
	Blocks, Loaded int
	// Prefix are the blocks that were loaded, root first, of BlockBytes each.
	Prefix     []uint64
	BlockBytes int
	// LoadedBytes and LoadedTokens are theirs, InputTokens those of the request;
	// tokens are 0 if unknown.
	LoadedBytes               int64
	LoadedTokens, InputTokens int
	// StartNS is the request's intended start, or when its first read was handed
	// out if it has none. EndNS is when the last block of the prefix was there:
	// StartNS if there is none.
	StartNS, EndNS int64
}

// ChainConfig shapes the blocks and the pace of Chains.
type ChainConfig struct {
	BlockBytes int
	// TokensPerBlock is how many tokens a block holds; 0 if unknown.
	TokensPerBlock int
	Namespace      int
	// Slots, if not 0, is how many blocks a target without keys has places for,
	// block b lying at b modulo Slots. It cannot say what it holds, so the Chains
	// remember what they put where, in 8 bytes a slot.
	Slots uint64
	// PrefillNS is the time to compute one token of the input, DecodeNS one of
	// the output: blocks are put, and a request ends, so much later. Default 0: the
	// target alone sets the pace.
	PrefillNS, DecodeNS float64
	// RequestsMax bounds the requests under way. Default 256.
	RequestsMax int
	// OnLoad, if set, is called when the load of a request has ended, on the
	// worker's goroutine; l is valid during the call. Not for PutOnly.
	OnLoad func(l *Load)
}

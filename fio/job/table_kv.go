package job

import (
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/tiering/model"
	"github.com/spillway-kv/spillway/tiering/trace"
)

var formatOfTrace = []word[string]{{"mooncake", "mooncake"}, {"azure", "azure"}, {"mlperf", "mlperf"}}

// kvOptions are what KV blocks need and fio has not.
var kvOptions = []Option{
	{Name: "socket", Group: "KV blocks", Ours: true, Form: "PATH", Default: "where clients look",
		Help: "Socket of the daemon that ioengine=pool talks to.",
		set:  textTo(func(d *draft) *string { return &d.Socket })},
	{Name: "capacity", Group: "KV blocks", Ours: true, Form: "SIZE",
		Help: "Bytes of a store that has to be made.",
		set:  longTo(func(d *draft) *int64 { return &d.Capacity }, 1)},
	{Name: "namespaces", Group: "KV blocks", Ours: true, Form: "N", Default: "1",
		Help: "How many namespaces of store or pool the load is spread over.",
		set:  countTo(func(d *draft) *int { return &d.Namespaces }, 1, 4096)},
	{Name: "kv_model", Group: "KV blocks", Ours: true, Form: "NAME",
		Help: "The model whose KV the blocks hold: it sets the block size, in place of bs.",
		set:  textTo(func(d *draft) *string { return &d.Model })},
	{Name: "kv_precision", Group: "KV blocks", Ours: true, Form: strings.Join(model.Precisions(), "|"), Default: "bf16",
		Help: "Precision of that KV.",
		set:  into(func(d *draft) *model.Precision { return &d.precision }, model.ParsePrecision)},
	{Name: "block_tokens", Group: "KV blocks", Ours: true, Form: "N", Default: "64 with kv_model, else 512",
		Help: "Tokens of a block. For a trace a divisor of 512, which an id of it covers.",
		set:  countTo(func(d *draft) *int { return &d.BlockTokens }, 1, 1<<16)},
	{Name: "trace", Group: "KV blocks", Ours: true, Form: "FILE",
		Help: "Replay the requests of a trace in place of a pattern: load the longest prefix present, put the rest.",
		set:  textTo(func(d *draft) *string { return &d.Trace })},
	{Name: "trace_format", Group: "KV blocks", Ours: true, Form: listOf(formatOfTrace), Default: "mooncake",
		Help: "Mooncake's JSON lines; the lengths of Azure's traces, whose blocks never come again; or the I/O trace of MLPerf's KV-cache benchmark as CSV.",
		set:  wordTo(func(d *draft) *string { return &d.TraceFormat }, formatOfTrace)},
	{Name: "trace_speed", Group: "KV blocks", Ours: true, Form: "N", Default: "1",
		Help: "The trace's rhythm, N times as fast; 0 waits for nothing.",
		set:  into(func(d *draft) *float64 { return &d.TraceSpeed }, factor)},
	{Name: "chat", Group: "KV blocks", Ours: true, Form: "N", Default: "0, no chat",
		Help: "Conversations at a time, in place of a pattern: each turn loads what was said before and puts what is new. The next turn begins after a pause, when the one before has ended.",
		set:  countTo(func(d *draft) *int { return &d.Chat.Sessions }, 0, 1<<20)},
	{Name: "chat_kind", Group: "KV blocks", Ours: true, Form: listOf(chatKinds), Default: "conversation",
		Help: "People chatting, as in the Mooncake conversation trace; or programs that send few long prompts, as in its tool and agent trace.",
		set:  chatTo(wordTo(func(d *draft) *trace.Kind { return &d.Chat.Kind }, chatKinds))},
	{Name: "chat_rate", Group: "KV blocks", Ours: true, Form: "N", Unit: "conversations per second", Default: "0",
		Help: "Begin conversations at this rate, at random moments, and at most chat of them at a time; 0 begins one when another ends.",
		set:  chatTo(into(func(d *draft) *float64 { return &d.Chat.PerSecond }, factor))},
	{Name: "chat_think", Group: "KV blocks", Ours: true, Form: "N", Default: "1",
		Help: "Scales the pauses between turns, whose median is 155 s; 0 leaves them out.",
		set:  chatTo(into(func(d *draft) *float64 { return &d.Chat.Think }, factor))},
}

var chatKinds = []word[trace.Kind]{{"conversation", trace.Conversation}, {"toolagent", trace.ToolAgent}}

// chatTo notes that an option of chats was given.
func chatTo(set func(*draft, string) error) func(*draft, string) error {
	return func(d *draft, text string) error {
		d.chatSaid = true
		return set(d, text)
	}
}

// factorMax is far above what makes sense.
const factorMax = 1e6

// factor reads a number that scales something.
func factor(text string) (float64, error) {
	f, err := decimal(text)
	if err == nil && (f < 0 || f > factorMax) {
		err = fmt.Errorf("%q is outside 0 to %g", text, factorMax)
	}
	return f, err
}

package job

import (
	"fmt"
	"math"
	"strings"
	"time"
)

var timeOptions = []Option{
	{Name: "runtime", Aliases: []string{"timeout"}, Group: "Time", Form: "TIME", Unit: "seconds", Default: "0, no bound",
		Help: "End after this time, even if there is more to do.",
		set:  timeTo(func(d *draft) *time.Duration { return &d.Runtime }, time.Second)},
	{Name: "time_based", Group: "Time", Form: "0|1", flag: true, Default: "0",
		Help:    "Start over until runtime has passed.",
		Differs: "Without a runtime it is an error.",
		set:     flagTo(func(d *draft) *bool { return &d.TimeBased })},
	{Name: "ramp_time", Group: "Time", Form: "TIME", Unit: "seconds", Default: "0",
		Help: "Run so long before anything is counted; added to runtime.",
		set:  timeTo(func(d *draft) *time.Duration { return &d.RampTime }, time.Second)},
	{Name: "startdelay", Group: "Time", Form: "TIME[-TIME]", Unit: "seconds", Default: "0",
		Help: "Wait before the start; of a range each worker draws its own.",
		set:  into(func(d *draft) *[2]time.Duration { return &d.StartDelay }, delays)},
	{Name: "thinktime", Group: "Time", Form: "TIME", Unit: "microseconds", Default: "0",
		Help: "Stall after each completed operation.",
		set:  timeTo(func(d *draft) *time.Duration { return &d.ThinkTime }, time.Microsecond)},
	{Name: "thinktime_blocks", Group: "Time", Form: "N", Default: "1",
		Help: "How many operations lie between two stalls of thinktime.",
		set:  longTo(func(d *draft) *int64 { return &d.ThinkBlocks }, 1)},
}

func delays(text string) (both [2]time.Duration, err error) {
	least, most, ranged := strings.Cut(text, "-")
	if both[0], err = span(least, time.Second); err != nil {
		return both, err
	}
	both[1] = both[0]
	if ranged {
		both[1], err = span(most, time.Second)
	}
	if both[1] < both[0] {
		both[0], both[1] = both[1], both[0]
	}
	return both, err
}

var processWords = []word[bool]{{"linear", false}, {"poisson", true}}

var rateOptions = []Option{
	{Name: "rate", Group: "Rate", Form: "SIZE[,SIZE]", Unit: "bytes per second",
		Help: "Bandwidth of each worker, of reads and of writes. A rate makes an open loop: latency counts from the intended start.",
		set:  pairTo(func(d *draft) *[2]int64 { return &d.RateBytes }, 0, math.MaxInt64)},
	{Name: "rate_iops", Group: "Rate", Form: "N[,N]", Unit: "operations per second",
		Help: "Operations a second of each worker, of reads and of writes; an open loop like rate.",
		set:  pairTo(func(d *draft) *[2]int64 { return &d.RateIOPS }, 0, math.MaxInt32)},
	{Name: "rate_process", Group: "Rate", Form: listOf(processWords), Default: "linear",
		Help: "Whether the operations of a rate come evenly, or at random as many independent users send them.",
		set:  wordTo(func(d *draft) *bool { return &d.Poisson }, processWords)},
}

var formatOfTrace = []word[string]{{"mooncake", "mooncake"}, {"mlperf", "mlperf"}}

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
	{Name: "trace", Group: "KV blocks", Ours: true, Form: "FILE",
		Help: "Replay the requests of a trace in place of a pattern: load the longest prefix present, put the rest.",
		set:  textTo(func(d *draft) *string { return &d.Trace })},
	{Name: "trace_format", Group: "KV blocks", Ours: true, Form: listOf(formatOfTrace), Default: "mooncake",
		Help: "Mooncake's JSON lines, or the I/O trace of MLPerf's KV-cache benchmark as CSV.",
		set:  wordTo(func(d *draft) *string { return &d.TraceFormat }, formatOfTrace)},
	{Name: "trace_speed", Group: "KV blocks", Ours: true, Form: "N", Default: "1",
		Help: "The trace's rhythm, N times as fast; 0 waits for nothing.",
		set: into(func(d *draft) *float64 { return &d.TraceSpeed }, func(text string) (float64, error) {
			speed, err := decimal(text)
			if err == nil && (speed < 0 || speed > 1e6) {
				err = fmt.Errorf("%q is outside 0 to 1000000", text)
			}
			return speed, err
		})},
	{Name: "chat", Group: "KV blocks", Ours: true, Form: "N", Default: "0, no chat",
		Help: "Conversations at a time, in place of a pattern: each turn loads what was said before and puts what is new.",
		set:  countTo(func(d *draft) *int { return &d.Chat.Sessions }, 0, 1<<20)},
	{Name: "chat_model", Group: "KV blocks", Ours: true, Form: "NAME",
		Help: "The model whose KV the blocks hold, which sets their size.",
		set:  textTo(func(d *draft) *string { return &d.Chat.Model })},
	{Name: "chat_block_tokens", Group: "KV blocks", Ours: true, Form: "N", Default: "64",
		Help: "Tokens of a block.",
		set:  countTo(func(d *draft) *int { return &d.Chat.BlockTokens }, 1, 1<<16)},
	{Name: "chat_turns", Group: "KV blocks", Ours: true, Form: "N", Default: "5",
		Help: "Turns of a conversation, on average; then another one begins.",
		set:  countTo(func(d *draft) *int { return &d.Chat.Turns }, 1, 10_000)},
	{Name: "chat_system_prompts", Group: "KV blocks", Ours: true, Form: "N", Default: "4",
		Help: "How many system prompts there are; every conversation begins with one of them.",
		set:  countTo(func(d *draft) *int { return &d.Chat.SystemPrompts }, 1, 1<<20)},
	{Name: "chat_system_tokens", Group: "KV blocks", Ours: true, Form: "N", Default: "1024",
		Help: "Tokens of a system prompt.",
		set:  countTo(func(d *draft) *int { return &d.Chat.SystemTokens }, 0, 1<<24)},
	{Name: "chat_user_tokens", Group: "KV blocks", Ours: true, Form: "N", Default: "256",
		Help: "Tokens of a question, on average.",
		set:  countTo(func(d *draft) *int { return &d.Chat.UserTokens }, 1, 1<<24)},
	{Name: "chat_answer_tokens", Group: "KV blocks", Ours: true, Form: "N", Default: "256",
		Help: "Tokens of an answer, on average.",
		set:  countTo(func(d *draft) *int { return &d.Chat.AnswerTokens }, 0, 1<<24)},
	{Name: "chat_think", Group: "KV blocks", Ours: true, Form: "TIME", Unit: "seconds", Default: "10s",
		Help: "Time between an answer and the next question, on average.",
		set:  timeTo(func(d *draft) *time.Duration { return &d.Chat.Think }, time.Second)},
}

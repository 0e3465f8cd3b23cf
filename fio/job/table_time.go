package job

import (
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

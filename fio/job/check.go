package job

import (
	"errors"
	"fmt"
	"strings"
)

// The checks refuse jobs whose options contradict one another; single values were
// checked when they were read.

func checkTarget(d *draft) error {
	switch {
	case d.Engine == EnginePool && (d.Directory != "" || d.Filenames != nil):
		return errors.New("ioengine=pool takes socket, and neither directory nor filename")
	case d.Engine == EngineRaw && d.Filenames == nil && strings.ContainsAny(d.Name, "/\x00"):
		return errors.New("without filename= files are named after their job, and its name has a / in it; give filename=, or another name")
	case d.Engine == EngineStore && d.Directory == "":
		return errors.New("ioengine=store needs directory=PATH, the directory of the store")
	case d.Engine == EngineStore && d.Filenames != nil:
		return errors.New("ioengine=store takes directory, not filename")
	case d.Engine != EnginePool && d.Socket != "":
		return fmt.Errorf("socket belongs to ioengine=pool, and this job has ioengine=%v", d.Engine)
	case d.Engine != EngineStore && d.Capacity != 0:
		return fmt.Errorf("capacity belongs to ioengine=store, and this job has ioengine=%v", d.Engine)
	case d.invalidate && !d.Direct:
		return errors.New("invalidate is not done with direct=0: the page cache keeps what it has")
	case d.Offset.Percent == 100:
		return errors.New("offset=100% leaves nothing to work on")
	}
	return nil
}

func checkPattern(d *draft) error {
	switch {
	case d.Distribution.Shape != Uniform && !d.Random:
		return errors.New("random_distribution needs a random rw, such as randread")
	case d.VerifyOnly && !d.Writes:
		return errors.New("verify_only repeats the writes of a job and checks them: rw must contain writes")
	}
	return nil
}

func checkTime(d *draft) error {
	switch {
	case d.TimeBased && d.Runtime == 0:
		return errors.New("time_based needs a runtime")
	case d.VerifyOnly && d.TimeBased:
		return errors.New("verify_only does not go with time_based")
	case d.steadySaid && d.SteadyState.Duration == 0:
		return errors.New("steadystate does nothing without steadystate_duration")
	case d.SteadyState.Duration > 0 && d.SteadyState.Duration < 2*d.SteadyState.Interval:
		return fmt.Errorf("steadystate_duration must be at least %v, two intervals", 2*d.SteadyState.Interval)
	}
	return nil
}

func checkRate(d *draft) error {
	bytes, ios := d.RateBytes[Read]+d.RateBytes[Write] > 0, d.RateIOPS[Read]+d.RateIOPS[Write] > 0
	switch {
	case bytes && ios:
		return errors.New("rate and rate_iops exclude each other")
	case d.Poisson && !bytes && !ios:
		return errors.New("rate_process=poisson needs a rate or a rate_iops")
	}
	return nil
}

func checkLoad(d *draft) error {
	requests := d.Trace != "" || d.Chat.Sessions > 0
	switch {
	case d.Trace != "" && d.Chat.Sessions > 0:
		return errors.New("trace and chat exclude each other")
	case d.Chat.Sessions == 0 && (d.Chat.PerSecond > 0 || d.chatSaid):
		return errors.New("chat_kind, chat_rate and chat_think need chat=N")
	case d.Chat.Sessions > 0 && d.Runtime == 0 && d.NumberIOs == 0 && d.IOSize == Amount{}:
		return errors.New("a chat has no end: set runtime, number_ios or io_size")
	case requests && d.modeSaid:
		return errors.New("a trace and a chat say themselves what is read and written: leave out rw")
	case requests && d.IOSize.Percent > 0:
		return errors.New("a trace and a chat have no size of which io_size could be a share; give it in bytes")
	case d.Trace != "" && traceTokensDefault%d.BlockTokens != 0:
		return fmt.Errorf("block_tokens=%d does not divide the %d tokens of a trace's id", d.BlockTokens, traceTokensDefault)
	case requests && d.RateBytes[Read]+d.RateIOPS[Read]+d.RateBytes[Write]+d.RateIOPS[Write] > 0:
		return errors.New("a trace and a chat have their own arrivals: neither takes rate or rate_iops; use trace_speed or chat_rate")
	}
	return nil
}

func checkProof(d *draft) error {
	if d.Verify == CheckNone && d.VerifyOnly {
		return errors.New("verify_only needs verify, such as verify=crc32c")
	}
	return nil
}

package load

import (
	"errors"
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// Config is what a job's load needs to know beyond the job.
type Config struct {
	// SpaceBytes is the length of the range of one namespace, TotalBytes how much
	// this worker asks for in all, or Endless. Both are for patterns; traces and
	// chats end with the job's io_size or number_ios, if it has them.
	SpaceBytes, TotalBytes int64
	// Worker is which of the job's Workers this is, from 0.
	Worker, Workers int
	// Fresh is mixed into the seed of a job without randrepeat.
	Fresh uint64

	// BlockBytes and TokensPerBlock are the size of a block, of traces and chats.
	// Defaults: the job's smallest read, its BlockTokens or else TraceTokens.
	BlockBytes, TokensPerBlock int
	// TraceTokens is how many tokens an id of a trace covers. Default 512.
	TraceTokens int
	// PrefillNS and DecodeNS are the times of computing, as in ChainConfig.
	PrefillNS, DecodeNS float64
	// OnLoad is told of each request's load, on the worker's goroutine.
	OnLoad func(l *Load)
}

// Seed decides all that is random in one worker of a job.
func (c Config) Seed(j *job.Job) uint64 {
	seed := mix64(mix64(mix64(j.RandSeed)+uint64(j.Index)) + uint64(c.Worker))
	if !j.RandRepeat {
		seed ^= c.Fresh
	}
	return seed
}

// Work is the load of one worker of a job. Close it when the worker has ended.
type Work struct {
	Source
	chains []*Chains
	files  []io.Closer
}

// Err is why the load ended before its time: a trace that cannot be read. Ask
// after End.
func (w *Work) Err() error {
	var errs []error
	for _, c := range w.chains {
		errs = append(errs, c.Err())
	}
	return errors.Join(errs...)
}

// Close closes the traces.
func (w *Work) Close() error {
	var errs []error
	for _, f := range w.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// New makes the load of one worker of a job.
func New(j *job.Job, c Config) (*Work, error) {
	if j.Chat.Sessions > 0 && j.Runtime == 0 && j.NumberIOs == 0 && j.IOSize.Bytes == 0 {
		return nil, errors.New("a chat has no end: set runtime, number_ios or io_size")
	}
	c = c.withDefaults(j)
	w := &Work{}
	count := max(1, j.Namespaces)
	sources, weights := make([]Source, count), make([]float64, count)
	for i := range sources {
		var err error
		if sources[i], err = w.namespace(j, c, count, i); err != nil {
			w.Close()
			return nil, err
		}
		weights[i] = 1
	}
	w.Source = sources[0]
	if count > 1 {
		w.Source = NewMix(sources, weights, c.Seed(j))
	}
	if j.Trace != "" || j.Chat.Sessions > 0 {
		w.Source = &limit{w.Source, orEndless(j.NumberIOs), orEndless(j.IOSize.Bytes)}
	}
	if j.ThinkTime > 0 {
		w.Source = NewThink(w.Source, j)
	}
	return w, nil
}

func (c Config) withDefaults(j *job.Job) Config {
	if c.TraceTokens == 0 {
		c.TraceTokens = trace.TokensPerBlock
	}
	if c.TokensPerBlock == 0 {
		c.TokensPerBlock = j.BlockTokens
	}
	if c.TokensPerBlock == 0 {
		c.TokensPerBlock = c.TraceTokens
	}
	if c.BlockBytes == 0 {
		c.BlockBytes = int(j.Blocks[job.Read].MinBytes)
	}
	return c
}

func orEndless(n int64) int64 {
	if n == 0 {
		return Endless
	}
	return n
}

// namespace makes the load of namespace i of count: an equal part of all.
func (w *Work) namespace(j *job.Job, c Config, count, i int) (Source, error) {
	seed := c.Seed(j) + uint64(i)
	part := Part{Index: max(0, c.Worker)*count + i, Of: max(1, c.Workers) * count}
	switch {
	case j.Trace != "":
		feed, file, err := openTrace(j, c, part)
		if err != nil {
			return nil, err
		}
		w.files = append(w.files, file)
		return w.newChains(j, c, feed, i)
	case j.Chat.Sessions > 0:
		return w.newChains(j, c, NewChat(ChatConfig{
			Shape: trace.Config{
				Seed: seed, Kind: j.Chat.Kind, TokensPerBlock: c.TokensPerBlock, FirstID: uint64(part.Index+1) << 40,
			},
			Sessions:  int(partOf(int64(j.Chat.Sessions), part.Of, part.Index)),
			PerSecond: j.Chat.PerSecond / float64(part.Of),
			Think:     j.Chat.Think,
		}), i)
	}
	total := c.TotalBytes
	if total != Endless {
		total = partOf(total, count, i)
	}
	p, err := NewPattern(j, c.SpaceBytes, total, seed)
	if err != nil {
		return nil, err
	}
	if j.NumberIOs > 0 {
		p.opsLeft = partOf(j.NumberIOs, count, i)
	}
	if j.RateBytes != [2]int64{} || j.RateIOPS != [2]int64{} {
		return NewRated(p, j, count, seed), nil
	}
	return p, nil
}

// slotsMax bounds the memory for what a target without keys holds, to 512 MiB.
const slotsMax = 1 << 26

func (w *Work) newChains(j *job.Job, c Config, feed Feed, namespace int) (Source, error) {
	config := ChainConfig{
		BlockBytes: c.BlockBytes, TokensPerBlock: c.TokensPerBlock, Namespace: namespace,
		PrefillNS: c.PrefillNS, DecodeNS: c.DecodeNS, OnLoad: c.OnLoad,
	}
	if keyed := j.Engine == job.EngineStore || j.Engine == job.EnginePool; !keyed {
		slots := c.SpaceBytes / int64(c.BlockBytes)
		if slots < 1 || slots > slotsMax {
			return nil, fmt.Errorf("a range of %d bytes has room for %d blocks of %d bytes; requests of an engine need 1 to %d: change size or block_tokens",
				c.SpaceBytes, slots, c.BlockBytes, slotsMax)
		}
		config.Slots = uint64(slots)
	}
	s := NewChains(feed, config)
	w.chains = append(w.chains, s)
	return s, nil
}

// openTrace opens a job's trace.
func openTrace(j *job.Job, c Config, part Part) (Feed, io.Closer, error) {
	replay := ReplayConfig{Part: part, Speed: j.TraceSpeed, TraceTokens: c.TraceTokens, TokensPerBlock: c.TokensPerBlock}
	switch j.TraceFormat {
	case "mooncake", "":
		r, err := trace.Open(j.Trace)
		if err != nil {
			return nil, nil, err
		}
		return NewReplay(r, replay), r, nil
	case "azure":
		r, err := trace.OpenAzure(j.Trace)
		if err != nil {
			return nil, nil, err
		}
		return NewReplay(r, replay), r, nil
	case "mlperf":
		r, err := trace.OpenKVIO(j.Trace)
		if err != nil {
			return nil, nil, err
		}
		return NewKVIO(r, KVIOConfig{Part: part, Speed: j.TraceSpeed, BlockBytes: c.BlockBytes}), r, nil
	}
	return nil, nil, fmt.Errorf("trace %s: format %q is none of mooncake, azure, mlperf", j.Trace, j.TraceFormat)
}

// partOf is part i when a total is cut into count parts that differ by one at most.
func partOf(total int64, count, i int) int64 {
	n := int64(count)
	return total/n + min(1, max(0, total%n-int64(i)))
}

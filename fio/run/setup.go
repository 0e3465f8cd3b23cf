package run

import (
	"errors"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
	"github.com/spillway-kv/spillway/fio/result"
	"github.com/spillway-kv/spillway/fio/target"
)

// newWorker makes worker n of a job, with all the memory that it will use.
func newWorker(k *crew, n int) (_ *worker, err error) {
	j := k.job
	w := &worker{k: k, j: j, keyed: target.EngineOf(j.Engine).Caps.Keys,
		maker: payload.Maker{Check: checkOf(j.Verify), Seed: j.RandSeed, ZeroPercent: j.CompressPercent, SamePercent: j.DedupePercent}}
	if w.lane, err = k.target.Lane(n); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.lane.Close(), w.closeSource())
		}
	}()
	w.depth = w.lane.DepthMax()
	w.mail = newMailbox(w.depth)
	w.config = load.Config{SpaceBytes: w.lane.SpaceBytes(), TotalBytes: totalBytes(j, w.lane.SpaceBytes()), Worker: n, Workers: j.NumJobs, Fresh: uint64(time.Now().UnixNano())}
	if j.Trace != "" || j.Chat.Sessions > 0 {
		w.config.OnLoad = w.prefixLoad
	}
	if w.source, err = w.firstSource(); err != nil {
		return nil, err
	}
	for i := range w.depth {
		io, err := w.lane.NewIO(maxBytes(j), w.mail.put)
		if err != nil {
			return nil, err
		}
		io.SetBytes(maxBytes(j))
		payload.Noise(io.Data, j.RandSeed+uint64(n)<<32+uint64(i), j.CompressPercent)
		w.free = append(w.free, io)
	}
	w.batch, w.ended, w.fills = make([]*target.IO, 0, w.depth), make([]*target.IO, 0, w.depth), make([]*target.IO, 0, w.depth)
	w.recorder = k.r.c.Result.AddWorker(w.resultConfig())
	return w, nil
}

// prefixLoad counts the load of one request, and makes what it loaded young.
func (w *worker) prefixLoad(l *load.Load) {
	if t, ok := w.lane.(target.Toucher); ok && l.Loaded > 0 {
		t.Touch(uint16(l.Namespace), l.BlockBytes, l.Prefix)
	}
	computeNS := int64(0)
	if of := w.k.r.c.Compute; of != nil {
		computeNS = of(l.LoadedTokens).Nanoseconds()
	}
	w.recorder.PrefixLoad(result.PrefixLoad{Blocks: int64(l.Blocks), Loaded: int64(l.Loaded), Tokens: int64(l.LoadedTokens),
		Bytes: l.LoadedBytes, LatencyNS: l.EndNS - l.StartNS, ComputeNS: computeNS})
}

func (w *worker) resultConfig() result.WorkerConfig {
	j := w.j
	c := result.WorkerConfig{Job: j.Name, Group: j.Group, Grouped: j.GroupReporting, Depth: w.depth,
		BlockBytes: int64(maxBytes(j)), Target: inWords(w.k.target.Facts()),
		Percentiles: j.Percentiles, Slat: j.SlatPercentiles, Clat: j.ClatPercentiles, Lat: j.LatPercentiles,
		OpenLoop: OpenLoop(j), Requests: LoadsPrefixes(j), ContinueOnError: j.ContinueOnError != 0}
	for _, s := range j.Settings {
		c.Options = append(c.Options, result.Option{Name: s.Name, Value: s.Value})
	}
	if j.Reads || j.Verify != job.CheckNone {
		c.Directions = append(c.Directions, result.Read)
	}
	if j.Writes {
		c.Directions = append(c.Directions, result.Write)
	}
	return c
}

// OpenLoop says whether a job's ops have intended starts.
func OpenLoop(j *job.Job) bool {
	return j.RateBytes != [2]int64{} || j.RateIOPS != [2]int64{} || j.Trace != "" && j.TraceSpeed > 0 || j.Chat.Sessions > 0 && j.Chat.PerSecond > 0
}

// LoadsPrefixes says whether a job's reads are loads of whole prefixes, whose tokens are
// known: those of requests of an engine.
func LoadsPrefixes(j *job.Job) bool {
	return j.Trace != "" && j.TraceFormat != "mlperf" || j.Chat.Sessions > 0
}

// inWords is a target in one line, as in "raw, uring, direct, ext4".
func inWords(f target.Facts) string {
	parts := []string{f.Engine}
	if f.Device != "" {
		parts = append(parts, f.Device, "buffered", f.FileSystem)
		if f.Direct {
			parts[2] = "direct"
		}
	}
	return strings.Join(parts, ", ")
}

// checkOf is the payload's check of a job's.
func checkOf(c job.Check) payload.Check {
	return map[job.Check]payload.Check{job.CheckNone: 0, job.CheckCRC32C: payload.CRC32C, job.CheckSHA256: payload.SHA256,
		job.CheckXXHash: payload.XXHash, job.CheckPattern: payload.Pattern}[c]
}

// totalBytes is how much a worker is to transfer.
func totalBytes(j *job.Job, spaceBytes int64) int64 {
	switch {
	case j.TimeBased && j.Runtime > 0:
		return load.Endless
	case j.IOSize.Bytes > 0:
		return j.IOSize.Bytes
	case j.IOSize.Percent > 0:
		return spaceBytes * int64(j.IOSize.Percent) / 100
	default:
		return spaceBytes * int64(max(1, j.Namespaces))
	}
}

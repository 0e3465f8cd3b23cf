package load

import (
	"fmt"

	"github.com/spillway-kv/spillway/fio/job"
)

// PreconditionJobs puts a job in front of the others for each range that raw jobs
// use, which brings it to steady state. Each of the ranges is done once, all at the
// same time, before the first of the other jobs begins. The answer shares nothing
// with jobs but the slices that nobody changes.
func PreconditionJobs(jobs []job.Job) []job.Job {
	var all []job.Job
	seen := map[string]bool{}
	for i := range jobs {
		j := &jobs[i]
		where := fmt.Sprint(j.Directory, j.Filenames, j.Size, j.Offset)
		if j.Engine != job.EngineRaw || seen[where] {
			continue
		}
		seen[where] = true
		all = append(all, preconditionJob(j, len(all)))
	}
	shift := len(all)
	if shift == 0 {
		return jobs
	}
	for _, j := range jobs {
		j.Index += shift
		j.Group += shift
		j.Phase++
		if j.WaitFor >= 0 {
			j.WaitFor += shift
		}
		all = append(all, j)
	}
	return all
}

// preconditionJob makes the one for the range of j.
func preconditionJob(j *job.Job, index int) job.Job {
	const fillBytes, depth = 1 << 20, 32
	shuffled := j.Blocks[job.Read].MaxBytes
	if j.Writes {
		shuffled = j.Blocks[job.Write].MaxBytes
	}
	b := job.Blocks{MinBytes: min(shuffled, fillBytes), MaxBytes: max(shuffled, fillBytes), AlignBytes: shuffled}
	return job.Job{
		Name: "precondition-" + j.Name, File: j.File, Line: j.Line, Index: index, Group: index, NumJobs: 1, WaitFor: -1,
		Engine: j.Engine, Backend: j.Backend, Direct: j.Direct, Directory: j.Directory, Filenames: j.Filenames,
		Size: j.Size, Offset: j.Offset, Namespaces: 1,
		Precondition: true, Writes: true, SequentialRun: 1, Blocks: [2]job.Blocks{b, b}, Distribution: job.Distribution{Center: -1},
		RandSeed: j.RandSeed, RandRepeat: true, IODepth: depth, ThinkBlocks: 1,
		Percentiles: j.Percentiles, ClatPercentiles: j.ClatPercentiles,
	}
}

// preconditionConfig is that of such a job.
func preconditionConfig(j *job.Job, c Config) PreconditionConfig {
	return PreconditionConfig{
		SpaceBytes: c.SpaceBytes, Seed: c.Seed(j), BlockBytes: j.Blocks[job.Write].AlignBytes,
	}
}

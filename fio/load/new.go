package load

import "github.com/spillway-kv/spillway/fio/job"

// Config is what a job's load needs to know beyond the job.
type Config struct {
	SpaceBytes int64 // length of the range of one namespace
	TotalBytes int64 // to be asked for by this worker, or Endless
	Worker     int   // which of the job's workers, from 0
	// Fresh is mixed into the seed of a job without randrepeat.
	Fresh uint64
}

// Seed decides all that is random in one worker of a job.
func (c Config) Seed(j *job.Job) uint64 {
	seed := mix64(mix64(mix64(j.RandSeed)+uint64(j.Index)) + uint64(c.Worker))
	if !j.RandRepeat {
		seed ^= c.Fresh
	}
	return seed
}

// New makes the load of one worker of a job.
func New(j *job.Job, c Config) (Source, error) {
	source, err := newPatterns(j, c)
	if err == nil && j.ThinkTime > 0 {
		source = NewThink(source, j)
	}
	return source, err
}

// newPatterns makes a pattern for each namespace, with equal parts of the
// rates and of the amount.
func newPatterns(j *job.Job, c Config) (Source, error) {
	count := max(1, j.Namespaces)
	sources, weights := make([]Source, count), make([]float64, count)
	for i := range sources {
		total := c.TotalBytes
		if total != Endless {
			total = partOf(total, count, i)
		}
		seed := c.Seed(j) + uint64(i)
		p, err := NewPattern(j, c.SpaceBytes, total, seed)
		if err != nil {
			return nil, err
		}
		if j.NumberIOs > 0 {
			p.opsLeft = partOf(j.NumberIOs, count, i)
		}
		sources[i], weights[i] = p, 1
		if j.RateBytes != [2]int64{} || j.RateIOPS != [2]int64{} {
			sources[i] = NewRated(p, j, count, seed)
		}
	}
	if count == 1 {
		return sources[0], nil
	}
	return NewMix(sources, weights, c.Seed(j)), nil
}

// partOf is part i when a total is cut into count parts that differ by one at most.
func partOf(total int64, count, i int) int64 {
	n := int64(count)
	return total/n + min(1, max(0, total%n-int64(i)))
}

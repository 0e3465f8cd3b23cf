package main

import (
	"fmt"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/result"
)

// announce writes what fio's normal text begins with. With JSON standard output is
// one document, which it would break.
func (f *fioRun) announce(jobs []job.Job) {
	if !f.formats.Normal || f.formats.JSON || f.formats.Plus {
		return
	}
	var starts []result.Start
	for i := range jobs {
		j := &jobs[i]
		size := func(d int) [2]int64 { return [2]int64{j.Blocks[d].MinBytes, j.Blocks[d].MaxBytes} }
		starts = append(starts, result.Start{Job: j.Name, Group: j.Group, Pattern: patternOf(j),
			ReadBytes: size(job.Read), WriteBytes: size(job.Write), Engine: j.Engine.String(), Depth: j.IODepth, Workers: j.NumJobs})
	}
	if err := result.WriteStart(f.w, fioVersion(f.st), starts); err != nil {
		fmt.Fprintln(f.st.stderr, "the result could not be begun:", err)
	}
}

// patternOf is a job's rw as fio writes it, or what replaces it.
func patternOf(j *job.Job) string {
	switch {
	case j.Trace != "":
		return "trace"
	case j.Chat.Sessions > 0:
		return "chat"
	}
	random := map[bool]string{true: "rand"}[j.Random]
	switch {
	case !j.Writes:
		return random + "read"
	case !j.Reads:
		return random + "write"
	default:
		return random + "rw"
	}
}

package result

import (
	"bytes"
	"fmt"
	"io"
)

// Start is a job as fio's normal text announces it.
type Start struct {
	Job     string
	Group   int
	Pattern string // rw
	// ReadBytes and WriteBytes are the least and the greatest block.
	ReadBytes, WriteBytes [2]int64
	Engine                string
	Depth                 int
	Workers               int
}

// WriteStart writes what fio's normal text begins with: a line for each job, the
// version, and how many workers start.
func WriteStart(w io.Writer, version string, jobs []Start) error {
	var b bytes.Buffer
	workers := 0
	for _, j := range jobs {
		span := func(s [2]int64) string {
			return short(uint64(s[0]), figures, true, "B") + "-" + short(uint64(s[1]), figures, true, "B")
		}
		// Nothing trims, and fio writes the size of reads there then.
		fmt.Fprintf(&b, "%s: (g=%d): rw=%s, bs=(R) %s, (W) %s, (T) %s, ioengine=%s, iodepth=%d\n", j.Job, j.Group, j.Pattern,
			span(j.ReadBytes), span(j.WriteBytes), span(j.ReadBytes), j.Engine, j.Depth)
		if j.Workers > 1 {
			b.WriteString("...\n")
		}
		workers += j.Workers
	}
	threads := "threads"
	if workers == 1 {
		threads = "thread"
	}
	fmt.Fprintf(&b, "%s\nStarting %d %s\n\n", version, workers, threads)
	_, err := w.Write(b.Bytes())
	return err
}

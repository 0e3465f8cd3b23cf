package result

import "io"

// statusMax bounds the states that a document keeps.
const statusMax = 512

// Status is how far the jobs were at a time: sums since the begin, as in fio.
type Status struct {
	ElapsedMS int64       `json:"elapsed_ms"`
	Jobs      []StatusJob `json:"jobs"`
}

// StatusJob is one entry of a status.
type StatusJob struct {
	Name    string        `json:"jobname"`
	GroupID int           `json:"groupid"`
	Read    *StatusNumber `json:"read,omitempty"` // nil: nothing done yet
	Write   *StatusNumber `json:"write,omitempty"`
}

// StatusNumber is one direction of a status.
type StatusNumber struct {
	IOs     int64   `json:"total_ios"`
	Bytes   int64   `json:"io_bytes"`
	IOPS    Decimal `json:"iops"`
	BWBytes int64   `json:"bw_bytes"`
	MaxNS   int64   `json:"lat_max_ns"`
}

// Tick tells how the run goes (status-interval). As text it writes the whole
// result so far to w, as fio does. JSON stays one document, so there the state is
// kept for it, under "spillway": "status"; of many, every second one.
func (r *Run) Tick(w io.Writer, formats Formats) error {
	nowNS := r.NowNS()
	d := r.Document(nowNS)
	if formats.JSON || formats.Plus {
		r.keepStatus(d.status(nowNS / 1e6))
		return nil
	}
	return d.WriteText(w)
}

func (r *Run) keepStatus(s Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks++
	if (r.ticks-1)%r.ticksKept != 0 {
		return
	}
	if len(r.extra.Status) == statusMax {
		thin := make([]Status, 0, statusMax) // documents share the old one
		for i := 0; i < statusMax; i += 2 {
			thin = append(thin, r.extra.Status[i])
		}
		r.extra.Status = thin
		r.ticksKept *= 2
		if (r.ticks-1)%r.ticksKept != 0 {
			return
		}
	}
	r.extra.Status = append(r.extra.Status, s)
}

func (d *Document) status(elapsedMS int64) Status {
	s := Status{ElapsedMS: elapsedMS, Jobs: []StatusJob{}}
	number := func(of *Stats) *StatusNumber {
		if of == nil || of.IOs == 0 {
			return nil
		}
		return &StatusNumber{IOs: of.IOs, Bytes: of.Bytes, IOPS: of.IOPS, BWBytes: of.BWBytes, MaxNS: *of.Lat.Max}
	}
	for _, j := range d.Jobs {
		s.Jobs = append(s.Jobs, StatusJob{j.Name, j.GroupID, number(j.Read), number(j.Write)})
	}
	return s
}

package replay

import (
	"sync"
	"sync/atomic"

	"github.com/spillway-kv/spillway/engine"
)

// read is one block read. The runner fills the first group, exactly one reader
// the second; the runner looks at it after all readers have ended.
type read struct {
	key engine.Key
	id  uint64
	at  *buffer

	status    engine.Status
	latencyNS int64 // from the call to the verified answer; the comparison is not in it
	wrong     bool  // a hit with other bytes than the id's
	cause     error // of a miss that is no plain absence
	err       error // of the call
}

// read reads the blocks of one part of a chain that are present, Depth at a
// time, one block per Get, so that each latency is one block's.
func (r *runner) read(keys []engine.Key, ids []uint64, present []bool) error {
	r.reads = r.reads[:0]
	for i, key := range keys {
		if present[i] {
			r.reads = append(r.reads, read{key: key, id: ids[i], at: r.buffers.at(i)})
		}
	}
	if len(r.reads) == 0 {
		return nil
	}
	began := r.c.Now()
	var readers sync.WaitGroup
	var next atomic.Int64
	for range min(r.c.Depth, len(r.reads)) {
		readers.Go(func() {
			item := make([]engine.GetItem, 1)
			for i := next.Add(1) - 1; i < int64(len(r.reads)); i = next.Add(1) - 1 {
				r.readOne(&r.reads[i], item)
			}
		})
	}
	readers.Wait()
	r.result.ReadNS += r.c.Now().Sub(began).Nanoseconds()
	for i := range r.reads {
		if err := r.tally(&r.reads[i]); err != nil {
			return err
		}
	}
	return nil
}

// readOne runs on a reader's goroutine.
func (r *runner) readOne(d *read, item []engine.GetItem) {
	d.at.valid = false
	item[0] = engine.GetItem{Key: d.key, Dst: d.at.pieces}
	began := r.c.Now()
	d.err = r.ns.Get(item, engine.GetOptions{NoTouch: true})
	d.latencyNS = r.c.Now().Sub(began).Nanoseconds()
	d.status, d.cause = item[0].Status, item[0].Err
	if d.err != nil || d.status != engine.Hit {
		return
	}
	d.wrong = !Equal(d.at.pieces[0], d.id)
	d.at.id, d.at.valid = d.id, !d.wrong
}

func (r *runner) tally(d *read) error {
	if d.err != nil {
		return d.err
	}
	switch {
	case d.status == engine.Hit:
		r.result.Reads++
		r.result.Latency.Record(d.latencyNS)
		r.result.InFlightNS += d.latencyNS
		if d.wrong {
			r.result.WrongBytes++
		}
	case d.status == engine.Busy:
		r.result.BusyReads++
	default:
		r.result.MissedAfterMatch++
		if r.result.MissCause == nil {
			r.result.MissCause = d.cause
		}
	}
	return nil
}

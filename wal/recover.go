package wal

import (
	"errors"

	"github.com/spillway-kv/spillway/engine/device"
)

// Recovered is what Recover found.
type Recovered struct {
	// Last is the highest position that is taken: of the last record replayed,
	// lost in a gap, or known to the caller before. The next record is Last + 1.
	Last Position
	// DataSynced is the highest value that SetDataSynced had put on disk, at
	// most Last.
	DataSynced Position
	Files      int    // log files in the directory, spare ones included
	Records    uint64 // given to apply
	Bytes      uint64 // of their payloads
	// Tail says how the log ended; TailCause, unless clean, is a *CorruptError
	// with the place. Discarded counts sound frames behind an unsynced hole.
	Tail      Tail
	TailCause error
	Discarded int
	// Gaps are damage in the middle, in order.
	Gaps []Gap
}

// Recover reads the log in dev and calls apply for every surviving record with
// a position above from, in order, each once. Positions up to from are those
// that the caller's index has; damage there is ignored. The payload is valid
// only during the call. An error of apply ends the recovery and is returned.
//
// Survivors are a prefix of what was appended, at least up to what had been
// synced, unless the medium lost synced bytes: such a gap is reported, and
// replay goes on behind it. Unreadable places count as damage.
//
// Recover never writes. It refuses files of another store (ErrForeign) or
// another format version (ErrVersion) before it calls apply.
func Recover(dev device.Device, o Options, from Position, apply func(p Position, payload []byte) error) (Recovered, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Recovered{}, err
	}
	s, err := newScanner(dev, o)
	if err != nil {
		return Recovered{}, err
	}
	done := Recovered{Last: from}
	for {
		found, err := s.recover(done.Last, apply)
		changed, again := errors.AsType[*changedError](err)
		if !again {
			found.Records, found.Bytes = done.Records+found.Records, done.Bytes+found.Bytes
			found.Gaps = append(done.Gaps, found.Gaps...)
			return found, err
		}
		// What the scan had proven failed when it was read again: go on behind
		// the last record handed out, with a new scan that does not believe in that
		// frame. Each round takes a frame away, so there is an end.
		if s.faded == nil {
			s.faded = map[place]error{}
		}
		s.faded[place{changed.File, changed.Offset}] = changed.Cause
		done.Last = changed.applied
		done.Records, done.Bytes = done.Records+found.Records, done.Bytes+found.Bytes
		for _, gap := range found.Gaps {
			if gap.Before <= changed.applied {
				done.Gaps = append(done.Gaps, gap)
			}
		}
	}
}

// changedError is a frame that was proven by the scan and failed in the replay.
type changedError struct {
	CorruptError
	applied Position // last record handed out
}

// recover is one scan and one replay.
func (s *scanner) recover(from Position, apply func(p Position, payload []byte) error) (Recovered, error) {
	numbers, err := s.numbers()
	if err != nil {
		return Recovered{}, err
	}
	files := make([]*scanned, 0, len(numbers))
	for _, number := range numbers {
		found, err := s.scan(number, true)
		if err != nil {
			return Recovered{}, err
		}
		files = append(files, found)
	}
	supersede(files)
	var items []item
	for i, f := range files {
		for _, it := range f.items {
			it.file = i
			items = append(items, it)
		}
	}
	damaged := func(it *item) error {
		cause := it.cause
		if cause == nil {
			cause = errMissing
		}
		return &CorruptError{File: files[it.file].name, Offset: it.offset, Cause: cause}
	}
	r := judge(items, from, damaged)
	found := Recovered{Last: r.last, DataSynced: r.dataSynced, Files: len(files),
		Tail: r.tail, Discarded: r.discarded, Gaps: r.gaps}
	if r.tail != TailClean {
		found.TailCause = damaged(&items[r.tailAt])
	}
	return found, s.replay(files, r.apply, from, apply, &found)
}

// replay reads the chosen frames once more and hands their records out.
func (s *scanner) replay(files []*scanned, frames []item, from Position, apply func(Position, []byte) error, found *Recovered) error {
	for len(frames) > 0 {
		n := 1
		for n < len(frames) && frames[n].file == frames[0].file {
			n++
		}
		if err := s.replayFile(files[frames[0].file], frames[:n], from, apply, found); err != nil {
			return err
		}
		from = frames[n-1].last
		frames = frames[n:]
	}
	return nil
}

// replayFile replays frames of one file; from is the last record handed out.
func (s *scanner) replayFile(file *scanned, frames []item, from Position, apply func(Position, []byte) error, found *Recovered) (err error) {
	f, r, err := s.open(file.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for i := range frames {
		it := &frames[i]
		records, first, cause, err := s.records(r, file.number, it)
		if err != nil {
			return err
		}
		if cause != nil {
			return &changedError{CorruptError{file.name, it.offset, cause}, from}
		}
		for p := first; p <= it.last; p++ {
			var payload []byte
			payload, records = cutRecord(records)
			if p < it.first {
				continue
			}
			if err := apply(p, payload); err != nil {
				return err
			}
			found.Records++
			found.Bytes += uint64(len(payload))
		}
		from = it.last
	}
	return nil
}

// records fetches a frame that the scan had proven and proves it again; cause
// says why that failed. first is the position of its first record.
func (s *scanner) records(r *fileReader, number uint64, it *item) (records []byte, first Position, cause, err error) {
	again, length, err := s.examine(r, number, it.offset)
	if err != nil {
		return nil, 0, nil, err
	}
	if again.seen != seenFrame || again.last < it.last && !it.recycled {
		return nil, 0, errors.Join(errChanged, again.cause), nil
	}
	frame, damaged, err := r.view(it.offset, length)
	if err != nil || damaged != nil {
		return nil, 0, damaged, err
	}
	var h frameHeader
	h.parse(frame)
	if it.recycled {
		h.first = it.first
	}
	return frame[frameHeaderBytes : frameHeaderBytes+int(h.payloadBytes)], h.first, nil, nil
}

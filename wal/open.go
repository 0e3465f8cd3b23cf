package wal

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spillway-kv/spillway/engine/device"
)

// Open starts a new log file whose first record gets position next, and the
// writer goroutine. After Recover next is Recovered.Last + 1. The records of
// older files are kept until Trim, or Options.Trimmed, covers them; a caller
// whose index is durable trims up to next - 1 at once. Until the files in use
// fit in FilesMax again Append answers ErrUntrimmed.
//
// Open creates all FilesMax files, so that a log that runs needs no more space.
// If there is not enough of it, Open makes do with two. It refuses files of
// another store or format version. A crash at any moment of Open leaves a
// directory from which Recover reads the same records.
//
// The log uses dev but does not own it: close the log first.
func Open(dev device.Device, o Options, next Position) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if next == 0 {
		panic("wal: positions start at 1")
	}
	buffer, err := alignedUnits(dev, int(min(frameBytesMax, o.FileBytes)))
	if err != nil {
		return nil, err
	}
	l := &Log{dev: dev, opts: o, wake: make(chan struct{}, 1), done: make(chan struct{}), calm: true,
		nextOffset: unitBytes, last: next - 1, written: next - 1, synced: next - 1, barrier: next - 1}
	l.progress = sync.NewCond(&l.mu)
	l.w.buffer = buffer
	if err := l.start(next); err != nil {
		return nil, fmt.Errorf("wal: opening: %w", err)
	}
	go l.run()
	return l, nil
}

// start prepares the directory; see "Order of writes" in docs/format/wal.md.
func (l *Log) start(next Position) error {
	survey, err := takeSurvey(l.dev, l.opts, next)
	if err != nil {
		return err
	}
	if survey.nextNumber > numberMax/2 {
		return fmt.Errorf("%w: log number %d leaves no room for higher ones", ErrConfig, survey.nextNumber)
	}
	l.w.nextNumber = survey.nextNumber
	if err := syncAll(l.dev, survey.used); err != nil {
		return err
	}
	wanted := l.opts.FilesMax - len(survey.used)
	if survey.proof != nil {
		wanted-- // it becomes a spare once the new header is durable
	}
	made, short, err := l.w.makeSpares(l.dev, l.opts.FileBytes, survey.free, max(1, wanted))
	if err != nil {
		return err
	}
	if len(made) == 0 {
		return short
	}
	l.w.number, l.w.fileFirst = made[0], next
	l.w.file, err = startFile(l.dev, fileHeader{formatVersion, l.opts.StoreID, l.w.number, next}, l.w.buffer[:unitBytes])
	if err != nil {
		return err
	}
	l.files = append(survey.used, logFile{l.w.number, next, l.opts.FileBytes})
	l.spares, l.filesMax = made[1:], l.opts.FilesMax
	if survey.proof != nil {
		l.freed = append(l.freed, *survey.proof)
	}
	if short != nil {
		if err := l.makeDoLocked(short); err != nil {
			return errors.Join(err, l.w.file.Close())
		}
	}
	return nil
}

// survey is what Open finds in the directory.
type survey struct {
	used       []logFile // may hold records below next, oldest first
	free       []logFile // hold nothing
	proof      *logFile  // holds nothing, but its sound header may prove a hole
	nextNumber uint64    // above every number seen, in names and in headers
}

// takeSurvey reads the headers, and the frames of files without one.
func takeSurvey(dev device.Device, o Options, next Position) (survey, error) {
	sv := survey{nextNumber: 1}
	s, err := newScanner(dev, o)
	if err != nil {
		return sv, err
	}
	numbers, err := s.numbers()
	if err != nil {
		return sv, err
	}
	limit := next // a file holds records from its first position up to here
	for _, number := range slices.Backward(numbers) {
		found, err := s.scan(number, false)
		if err != nil {
			return sv, err
		}
		sv.nextNumber = max(sv.nextNumber, number+1, found.other+1)
		f := logFile{number, found.first, found.size}
		switch {
		case limit-1 <= o.Trimmed:
			sv.free = append(sv.free, f)
		case found.first != 0 && found.first < limit:
			sv.used = append(sv.used, f)
			limit = found.first
		case found.hidden && found.first == 0: // who knows what it holds
			f.first = limit
			sv.used = append(sv.used, f)
		case found.header == headerSound && sv.proof == nil:
			sv.proof = &f
		default:
			sv.free = append(sv.free, f)
		}
	}
	slices.Reverse(sv.used)
	slices.Reverse(sv.free)
	return sv, nil
}

// syncAll makes the records that a dead process left in the files durable: the
// header of the new file will promise them.
func syncAll(dev device.Device, files []logFile) error {
	for _, file := range files {
		f, err := dev.Open(fileName(file.number))
		if err != nil {
			return err
		}
		if err := errors.Join(syncFile(dev, f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

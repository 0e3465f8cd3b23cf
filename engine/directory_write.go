package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// directoryState is what a segment knows of its directory on disk. Guarded by
// Store.mu.
type directoryState struct {
	position uint64 // of the log when the newest whole one was begun; 0: none
	changes  int    // blocks put since then
	full     bool   // one was written after the segment had become full
	notUntil time.Time
}

// directoryWriter writes the directories of segments in the background. It
// holds Store.mu only for a few slots at a time and no other lock across I/O,
// so that puts and gets never wait for it.
type directoryWriter struct {
	full chan struct{} // a segment has become full
	quit chan struct{}
	done chan struct{}
}

const (
	directoryInterval = time.Second
	// directorySoon is how long after a segment has become full its directory is
	// written: when its last puts have ended, and the keys of all are still at hand.
	directorySoon = 50 * time.Millisecond
	// directoryPause is the least time between two directories that are written
	// only because of a deletion, and after one that failed.
	directoryPause = 10 * time.Second
	// directoryCloseTime bounds what Close spends on directories.
	directoryCloseTime = 10 * time.Second
	// directorySlots is how many slots are looked up under one hold of the lock.
	directorySlots = 512
	// directoryWritePages is how many pages one write covers at most.
	directoryWritePages = 64
)

var errDirectoryStopped = errors.New("the segment went or the store is closing")

func (w *directoryWriter) start(s *Store) {
	w.full = make(chan struct{}, 1)
	w.quit = make(chan struct{})
	w.done = make(chan struct{})
	go w.run(s)
}

// kick says that a segment has become full.
func (w *directoryWriter) kick() {
	select {
	case w.full <- struct{}{}:
	default:
	}
}

func (w *directoryWriter) stop() {
	close(w.quit)
	<-w.done
}

func (w *directoryWriter) run(s *Store) {
	defer close(w.done)
	tick := time.NewTicker(directoryInterval)
	defer tick.Stop()
	var outdated time.Time // when the last one was written because of a deletion
	soon := false
	for {
		select {
		case <-w.quit:
			return
		case <-w.full:
			if !soon {
				soon = true
				tick.Reset(directorySoon)
			}
		case now := <-tick.C:
			if soon {
				soon = false
				tick.Reset(directoryInterval)
			}
			old := now.Sub(outdated) >= directoryPause
			for _, g := range s.wantDirectories(now, old) {
				if old = s.writeDirectory(g, w.quit); old {
					outdated = now
				}
			}
		}
	}
}

// wantDirectories lists the segments whose directory should be written now: a
// segment that is full for the first time, or half of whose slots have changed,
// and, if old, one whose directory was made useless by a deletion.
func (s *Store) wantDirectories(now time.Time, old bool) (wanted []*segment) {
	deletion := s.lastDeletion()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health != nil || s.monitor.sick != nil {
		return nil
	}
	var stale *segment
	for _, g := range s.segments {
		d := &g.directory
		if g.leaving || now.Before(d.notUntil) {
			continue
		}
		switch {
		case 2*d.changes >= int(g.header.slots), g.free == 0 && !d.full && d.changes > 0:
			wanted = append(wanted, g)
		case d.position < deletion && d.position > 0 && g.free < g.usable():
			if stale == nil || d.position < stale.directory.position {
				stale = g
			}
		}
	}
	if old && stale != nil {
		wanted = append(wanted, stale)
	}
	return wanted
}

// writeDirectory writes one segment's directory. An error is logged and
// counted, nothing else.
func (s *Store) writeDirectory(g *segment, quit <-chan struct{}) (written bool) {
	run := directoryRun{s: s, g: g, quit: quit}
	err := run.write()
	if err == nil {
		return true
	}
	if errors.Is(err, errDirectoryStopped) || errors.Is(err, device.ErrClosed) {
		return false
	}
	s.mu.Lock()
	s.counters.DirectoryErrors++
	g.directory.notUntil = time.Now().Add(directoryPause)
	s.mu.Unlock()
	s.log.Warn("the directory of a segment could not be written; only a rebuild would miss it", "segment", g.header.number, "cause", err)
	return false
}

// writeLastDirectories is Close's: after it a clean store can be rebuilt from
// its segments alone, as far as time allows.
func (s *Store) writeLastDirectories() {
	deletion := s.lastDeletion()
	var changed []*segment
	s.mu.Lock()
	for _, g := range s.segments {
		if g.directory.changes > 0 || g.directory.position < deletion && g.free < g.usable() {
			changed = append(changed, g)
		}
	}
	if s.health != nil || s.monitor.sick != nil || s.index.trouble.failed.Load() {
		changed = nil
	}
	slices.SortFunc(changed, func(a, b *segment) int { return b.directory.changes - a.directory.changes })
	s.mu.Unlock()
	until := time.Now().Add(directoryCloseTime)
	var files []device.File
	for i, g := range changed {
		if time.Now().After(until) {
			s.log.Warn("no time was left to write all directories; a rebuild would know fewer blocks", "segments", len(changed)-i)
			break
		}
		if s.writeDirectory(g, nil) {
			files = append(files, g.file)
		}
	}
	if err := s.syncFiles(files); err != nil {
		s.log.Warn("directories could not be synced; only a rebuild would miss them", "cause", err)
	}
}

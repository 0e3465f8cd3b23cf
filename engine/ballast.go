package engine

import (
	"errors"
	"io/fs"
)

// The ballast is a file of nothing. When the file system is full, its room lets
// the index finish what it began, and lets a stopped store open again.
const (
	ballastName     = "BALLAST"
	ballastBytesMin = 64 << 10
	ballastBytesMax = 64 << 20
	// lowWaterBytes of free space is when the ballast goes.
	lowWaterBytes = 4 << 20
)

func (l layout) ballastBytes() int64 {
	return min(max(roundUp(l.capacityBytes/256, headerBytes), ballastBytesMin), ballastBytesMax)
}

// lowWater is the free space below which the file system counts as full.
func (l layout) lowWater() int64 { return min(lowWaterBytes, l.ballastBytes()/2) }

// keepBallast makes room on a full file system, and puts the ballast back when
// there is plenty. It reports whether the file system is full nevertheless.
func (s *Store) keepBallast() (full bool) {
	space, err := s.dev.Space()
	if err != nil || space.TotalBytes == 0 {
		return false // a file system without a size
	}
	low := space.FreeBytes < s.layout.lowWater()
	if low && !s.keep.ballastSought { // it may be there from an earlier run
		s.keep.ballast = true
	}
	s.keep.ballastSought = true
	switch {
	case low && s.keep.ballast:
		if err := s.dev.Remove(ballastName); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("the ballast could not be removed", "cause", err)
			return true
		}
		s.keep.ballast = false
		s.log.Warn("the file system is full: the ballast is gone, so that index and log can go on", "free_bytes", space.FreeBytes)
	case low:
		return true
	case !s.keep.ballast && space.FreeBytes > 4*s.layout.ballastBytes():
		s.keep.ballast = s.makeBallast()
	}
	return false
}

func (s *Store) makeBallast() bool {
	f, err := s.dev.Create(ballastName, s.layout.ballastBytes())
	if errors.Is(err, fs.ErrExist) {
		return true
	}
	if err != nil {
		s.log.Debug("no ballast", "cause", err)
		return false
	}
	if err := f.Close(); err != nil {
		s.log.Debug("ballast", "cause", err)
	}
	return true
}

// yieldSegment gives up the coldest segment on a file system that stays full,
// unless it is the last one or the index does not need the room.
func (s *Store) yieldSegment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.coldestToSpareLocked(); g != nil {
		s.log.Warn("the file system is full: the coldest segment goes", "segment", g.header.number)
		s.giveUpLocked(g)
	}
}

package engine

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// abandon releases what a failed open had built.
func (s *Store) abandon() error {
	var errs []error
	if s.wal != nil {
		errs = append(errs, s.wal.Close())
	}
	if s.apply.done != nil {
		s.apply.stop(false)
	}
	if s.index != nil {
		errs = append(errs, s.index.close())
	}
	return errors.Join(append(errs, s.releaseAll())...)
}

// releaseAll closes the files and gives the memory back.
func (s *Store) releaseAll() error {
	var errs []error
	for _, g := range s.segments {
		errs = append(errs, g.closeOnce())
	}
	for _, g := range s.removals {
		errs = append(errs, g.closeOnce())
	}
	errs = append(errs, s.closeDeletions(), s.dev.Close())
	// Stat, Release and FindNamespace are no calls that Close waits for.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.policies != nil {
		s.policies.Free()
	}
	if s.table != nil {
		s.table.Free()
	}
	if s.frames != nil {
		s.frames.Free()
	}
	s.recent.free()
	return errors.Join(errs...)
}

// Close waits for the calls and transfers in flight, makes everything durable
// and releases the directory. Calls begun later answer ErrClosed; so do the items
// of a put that would have to wait for room.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closing = true
	s.wakeLocked() // puts that wait for room wait in vain
	s.mu.Unlock()
	s.scrub.stop()
	s.calls.Wait()

	s.dirs.stop()
	close(s.keep.stop)
	s.keep.done.Wait()
	close(s.commit.stop)
	<-s.commit.done
	s.writeLastDirectories()
	if err := s.saveAges(true); err != nil {
		s.log.Warn("the ages of blocks were not saved; at the next open they count as new", "cause", err)
	}
	var errs []error
	if err := s.wal.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close the log: %w", err))
	}
	s.mu.Lock()
	cleanly := s.health == nil && len(errs) == 0
	s.mu.Unlock()
	s.apply.stop(cleanly)
	if err := s.index.close(); vfs.IsNoSpaceError(err) {
		s.log.Warn("the index was closed on a full file system; the log will be replayed", "cause", err.Error())
	} else if err != nil {
		errs = append(errs, fmt.Errorf("close the index: %w", err))
	}
	s.mu.Lock()
	if s.health != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrReadOnly, s.health))
	}
	s.mu.Unlock()
	return errors.Join(append(errs, s.releaseAll())...)
}

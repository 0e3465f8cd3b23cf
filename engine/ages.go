package engine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/table"
)

// What the eviction policies know is kept in the index at close and every agesInterval,
// so that a restart does not make all blocks equal (docs/format/index.md#ages). It only
// advises: a stop without a close costs the newest of it, damage costs all of it.
const (
	agesInterval = 5 * time.Minute
	agesChunk    = 1024 // records of the table in one entry
	ageBytes     = 8 + 4 + 1
	ageTickShift = 28 // of the age, in nanoseconds: 268 ms

	ageUses    = 1<<3 - 1 // bits of an age's last byte
	ageLast    = 1 << 3
	agePartial = 1 << 4
)

var (
	prefixAges  = []byte("ab")
	keyLearned  = []byte("al")
	errAgesStop = fmt.Errorf("ages: %w", ErrClosed)
)

// age is what is kept of one block, known by the position of its put.
type age struct {
	position uint64
	ticks    uint32 // since its latest use
	flags    uint32
}

func appendAge(b []byte, a age) []byte {
	b = binary.LittleEndian.AppendUint64(b, a.position)
	b = binary.LittleEndian.AppendUint32(b, a.ticks)
	return append(b, byte(a.flags))
}

// decodeAges reads the ages of one entry; false if it is damaged.
func decodeAges(value []byte, each func(age) error) (bool, error) {
	if len(value)%ageBytes != 0 || len(value) > agesChunk*ageBytes {
		return false, nil
	}
	for ; len(value) > 0; value = value[ageBytes:] {
		a := age{binary.LittleEndian.Uint64(value), binary.LittleEndian.Uint32(value[8:]), uint32(value[12])}
		if err := each(a); err != nil {
			return true, err
		}
	}
	return true, nil
}

func ageOf(p evict.Past, position uint64, nowNS int64) age {
	a := age{position: position, ticks: uint32(min(max(nowNS-p.UsedNS, 0)>>ageTickShift, 1<<32-1)), flags: uint32(min(p.References, ageUses))}
	if p.Last {
		a.flags |= ageLast
	}
	if p.Partial {
		a.flags |= agePartial
	}
	return a
}

// past is what a policy takes back, as of the opening of the store.
func (a age) past() evict.Past {
	return evict.Past{UsedNS: -int64(a.ticks) << ageTickShift, References: uint8(a.flags & ageUses), Last: a.flags&ageLast != 0, Partial: a.flags&agePartial != 0}
}

// saveAges writes all ages into the index, a piece in each hold of the lock. Unless it
// is the last time it ends when the store begins to close.
func (s *Store) saveAges(last bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health != nil || len(s.namespaces) == 0 {
		return nil
	}
	s.agesSaved = s.useClock
	if learned := s.policies.Learned(); learned != nil {
		if err := s.setUnlocked(keyLearned, append([]byte(s.agesPolicyLocked()+"\x00"), learned...)); err != nil {
			return err
		}
	}
	value := make([]byte, 0, agesChunk*ageBytes)
	for from := 0; from <= s.table.Used(); from += agesChunk {
		if s.closing && !last {
			return errAgesStop
		}
		value = value[:0]
		nowNS := time.Since(s.started).Nanoseconds()
		for ref := table.Ref(from); ref < table.Ref(from+agesChunk); ref++ {
			rec := s.table.Peek(ref)
			if rec == nil || rec.State() != statePresent {
				continue
			}
			if p := s.namespaces[rec.Namespace()-1].policy.Past(evict.Handle(ref)); p.References > 0 {
				value = appendAge(value, ageOf(p, rec.Position(), nowNS))
			}
		}
		key := binary.BigEndian.AppendUint32(append([]byte(nil), prefixAges...), uint32(from/agesChunk))
		if err := s.setUnlocked(key, value); err != nil {
			return err
		}
	}
	return nil
}

// agesPolicyLocked names the policy, so that another does not take over what this one
// learned.
func (s *Store) agesPolicyLocked() string { return s.namespaces[0].policy.Name() }

// setUnlocked writes one entry without the lock, which it takes again.
func (s *Store) setUnlocked(key, value []byte) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.index.trouble.guard(func() error { return s.index.db.Set(key, value, pebble.NoSync) })
}

// saveAgesNowAndThen is the keeper's part.
func (s *Store) saveAgesNowAndThen(now time.Time) {
	if s.agesAt.IsZero() {
		s.agesAt = now
	}
	s.mu.Lock()
	due := now.Sub(s.agesAt) >= agesInterval && s.useClock != s.agesSaved
	s.mu.Unlock()
	if !due {
		return
	}
	s.agesAt = now
	err := s.saveAges(false)
	if err == nil { // the index has no log of its own, and may not be flushed for hours
		err = s.index.trouble.guard(func() error {
			_, err := s.index.db.AsyncFlush()
			return err
		})
	}
	if err != nil {
		s.log.Debug("the ages of blocks were not saved", "cause", err)
	}
}

// isAges says whether an entry is one of those that saveAges writes.
func isAges(key, value []byte) bool {
	switch {
	case string(key) == string(keyLearned):
		return true
	case len(key) == len(prefixAges)+4 && string(key[:len(prefixAges)]) == string(prefixAges):
		sound, _ := decodeAges(value, func(age) error { return nil })
		return sound
	}
	return false
}

// readAges hands each age to add, and what was learned to the policies.
func (s *Store) readAges(add func(age) error) error {
	err := s.index.scan(prefixAges, func(_, value []byte) error {
		sound, err := decodeAges(value, add)
		if !sound {
			s.log.Warn("ages of blocks are damaged; they count as new")
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(s.namespaces) == 0 {
		return nil
	}
	return s.index.scan(keyLearned, func(_, value []byte) error {
		name := s.agesPolicyLocked() + "\x00"
		if len(value) < len(name) || string(value[:len(name)]) != name {
			return nil // of another policy
		}
		if err := s.policies.Learn(value[len(name):]); err != nil {
			s.log.Warn("what the eviction policy learned is lost; it learns anew", "cause", err)
		}
		return nil
	})
}

package node

import (
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// far are the keys whose blocks are not in the memory tier, which may be nil.
func (s *space) far(keys []engine.Key, tier *memory.Tier) []engine.Key {
	if tier == nil {
		return keys
	}
	versions := s.versions(keys)
	if versions == nil {
		return keys
	}
	far := make([]engine.Key, 0, len(keys))
	for i, held := range tier.Holds(versions) {
		if !held {
			far = append(far, keys[i])
		}
	}
	return far
}

// loadTime is how long loading blocks from their drives takes as far as was measured: on
// the slowest of them. 0 if none has been.
func (s *space) loadTime(keys []engine.Key) (longest time.Duration) {
	bytes := make([]int64, len(s.parts))
	for _, k := range keys {
		bytes[s.home(k.Group, k.Bytes)] += int64(s.blockBytes)
	}
	for i := range s.parts {
		if p := &s.parts[i]; bytes[i] > 0 {
			longest = max(longest, p.drive.loadTime(p.flow, s.blockBytes, bytes[i]))
		}
	}
	return longest
}

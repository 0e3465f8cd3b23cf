package node

import (
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// worth reports whether loading the blocks of a prefix is quicker than computing them,
// which takes compute: at the rates measured lately and behind what goes before them. If the
// longest prefix is not, no shorter one is: a block costs the same to load wherever
// it lies, and no more to compute the nearer it lies to the beginning.
func (s *space) worth(prefix []engine.Key, compute time.Duration) bool {
	return s.judge.Worth(time.Now(), len(prefix), s.loadTime(prefix), compute)
}

// loadTime is how long loading blocks takes as far as was measured: on the slowest of
// their drives. 0 if no drive has been.
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

package memory

import "encoding/binary"

var le = binary.LittleEndian

// Stat is a snapshot of a tier. Counters count blocks from its start.
type Stat struct {
	Mode       Mode    `json:"mode"`               // exclusive or inclusive
	TotalBytes int64   `json:"total_bytes"`        // of the tier
	Bytes      int64   `json:"bytes"`              // of blocks that are kept
	Blocks     int     `json:"blocks"`             // kept
	Hits       uint64  `json:"hits"`               // blocks answered from memory
	HitBytes   uint64  `json:"hit_bytes"`          // of those
	Misses     uint64  `json:"misses"`             // blocks that were present and not here
	Added      uint64  `json:"added"`              // blocks that came in
	Evicted    uint64  `json:"evicted"`            // blocks that made room for others
	Stale      uint64  `json:"stale"`              // blocks replaced by another put meanwhile
	Refused    uint64  `json:"refused"`            // blocks that found no room
	Decayed    uint64  `json:"decayed"`            // blocks whose bytes had changed in memory
	AheadAdded uint64  `json:"prefetched"`         // of Added, fetched ahead of their reader
	AheadUsed  uint64  `json:"prefetched_used"`    // of those, read
	AheadWaste uint64  `json:"prefetched_wasted"`  // of those, gone without having been read
	Precision  float64 `json:"prefetch_precision"` // used of used and wasted; 0 without any
	Coverage   float64 `json:"prefetch_coverage"`  // prefetched blocks of all blocks that were read; 0 without any
}

// Stat takes a snapshot.
func (t *Tier) Stat() Stat {
	t.mu.Lock()
	st := t.counts
	t.mu.Unlock()
	st.Mode, st.TotalBytes = t.mode, t.arena.Facts().Bytes
	if done := st.AheadUsed + st.AheadWaste; done > 0 {
		st.Precision = float64(st.AheadUsed) / float64(done)
	}
	if read := st.Hits + st.Misses; read > 0 {
		st.Coverage = float64(st.AheadUsed) / float64(read)
	}
	return st
}

// Package origin tells where the blocks of reads through a daemon came from: from this
// node, or from which others and by which transport. A daemon counts that itself; what
// belongs to a job is the difference of two looks at its counters, with what other clients
// did meanwhile in it.
package origin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// Counts are a daemon's counters at one moment.
type Counts struct {
	Instance  string `json:"instance"` // new at each start of the daemon
	UptimeMS  int64  `json:"uptime_ms"`
	Processor int64  `json:"cpu_ns"`
	Spaces    []struct {
		Hits       uint64 `json:"hits"`
		MemoryHits uint64 `json:"memory_hits"`
		RemoteHits uint64 `json:"remote_hits"`
	} `json:"namespaces"`
	Pool *struct {
		Name  string       `json:"name"`
		Peers []peerCounts `json:"peers"`
	} `json:"pool"` // nil: it is in none
}

// peerCounts are those of another node of the pool.
type peerCounts struct {
	Node      string `json:"node"` // ID
	Name      string `json:"name"`
	Member    bool   `json:"member"`
	Link      string `json:"link"`
	Hits      uint64 `json:"hits"`
	ReadBytes uint64 `json:"read_bytes"`
	Misses    uint64 `json:"misses"`
	Late      uint64 `json:"late"`
	Wrong     uint64 `json:"wrong"`
	Way       struct {
		Name      string `json:"name"`
		Why       string `json:"why"`
		Blocks    uint64 `json:"blocks"`
		Bytes     uint64 `json:"bytes"`
		Fallbacks uint64 `json:"fallbacks"`
		Failures  uint64 `json:"failures"`
	} `json:"way"` // absent before there were several
}

// Parse reads the state of a daemon, as its clients and its operators get it.
func Parse(state []byte) (c Counts, err error) {
	if err = json.Unmarshal(state, &c); err != nil {
		err = fmt.Errorf("the daemon's state: %w", err)
	}
	return c, err
}

// Read asks a daemon.
func Read(ctx context.Context, c *client.Client) (Counts, error) {
	state, err := c.Stats(ctx)
	if err != nil {
		return Counts{}, err
	}
	return Parse(state)
}

// Since is the processor time that the daemon used after before; 0 if it was started anew
// since, or does not tell.
func (c *Counts) Since(before *Counts) time.Duration {
	if c.Instance != before.Instance || c.Processor < before.Processor {
		return 0
	}
	return time.Duration(c.Processor - before.Processor)
}

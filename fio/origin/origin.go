package origin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Origin is where the blocks of reads came from, within a time. All clients of the daemon
// are in it.
type Origin struct {
	Daemon string `json:"daemon"`         // path of its socket
	Node   string `json:"node,omitempty"` // its name in its pool; absent: it is in none
	Blocks uint64 `json:"blocks"`         // that were hit
	Here   uint64 `json:"here"`           // of those, from this node
	Memory uint64 `json:"memory"`         // of those, from its memory
	Peers  []Peer `json:"peers,omitempty"`
	// Error says why nothing is known.
	Error string `json:"error,omitempty"`
}

// Peer is what another node of the pool gave. Blocks that came and were of no use any more
// (another copy was quicker, the time was over) are in RDMA and not in Blocks.
type Peer struct {
	Node      string `json:"node"`      // its name
	Blocks    uint64 `json:"blocks"`    // that were proven and answered
	Bytes     uint64 `json:"bytes"`     // of those
	RDMA      uint64 `json:"rdma"`      // blocks that came by RDMA
	TCP       uint64 `json:"tcp"`       // the rest
	Missed    uint64 `json:"missed"`    // it did not have them
	Late      uint64 `json:"late"`      // they did not come in time
	Wrong     uint64 `json:"wrong"`     // their bytes did not fit their checksum
	Fallbacks uint64 `json:"fallbacks"` // calls for blocks that went by TCP, though RDMA was wanted
	Failures  uint64 `json:"failures"`  // times that RDMA did not come up, or ended
	Way       string `json:"way"`       // in use at the end: tcp or rdma
	Why       string `json:"why,omitempty"`
}

// The transports, by name.
const (
	TCP  = "tcp"
	RDMA = "rdma"
)

// Between is what a daemon did from one look to the next.
func Between(path string, before, after *Counts) *Origin {
	o := &Origin{Daemon: path}
	if before.Instance != after.Instance {
		o.Error = "the daemon was started anew meanwhile: its counters began again"
		return o
	}
	for i := range after.Spaces {
		s := &after.Spaces[i]
		o.Blocks, o.Memory, o.Here = o.Blocks+s.Hits, o.Memory+s.MemoryHits, o.Here+s.Hits-s.RemoteHits
	}
	for i := range before.Spaces {
		s := &before.Spaces[i]
		o.Blocks, o.Memory, o.Here = o.Blocks-s.Hits, o.Memory-s.MemoryHits, o.Here-(s.Hits-s.RemoteHits)
	}
	if after.Pool == nil {
		return o
	}
	o.Node = after.Pool.Name
	was := map[string]*peerCounts{}
	if before.Pool != nil {
		for i := range before.Pool.Peers {
			was[before.Pool.Peers[i].Node] = &before.Pool.Peers[i]
		}
	}
	for i := range after.Pool.Peers {
		now, from := &after.Pool.Peers[i], &peerCounts{}
		if b := was[now.Node]; b != nil {
			from = b
		}
		if p := peerSince(now, from); p.Blocks+p.RDMA+p.Missed+p.Late+p.Wrong > 0 {
			o.Peers = append(o.Peers, p)
		}
	}
	slices.SortFunc(o.Peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return o
}

func peerSince(now, from *peerCounts) Peer {
	p := Peer{Node: now.Name, Blocks: now.Hits - from.Hits, Bytes: now.ReadBytes - from.ReadBytes, RDMA: now.Way.Blocks - from.Way.Blocks,
		Missed: now.Misses - from.Misses, Late: now.Late - from.Late, Wrong: now.Wrong - from.Wrong,
		Fallbacks: now.Way.Fallbacks - from.Way.Fallbacks, Failures: now.Way.Failures - from.Way.Failures, Way: now.Way.Name, Why: now.Way.Why}
	p.TCP = p.Blocks - min(p.Blocks, p.RDMA)
	if p.Way == "" {
		p.Way = TCP
	}
	return p
}

// Sum adds up what all other nodes gave.
func (o *Origin) Sum() (all Peer) {
	for _, p := range o.Peers {
		all.Blocks, all.Bytes, all.RDMA, all.TCP = all.Blocks+p.Blocks, all.Bytes+p.Bytes, all.RDMA+p.RDMA, all.TCP+p.TCP
		all.Missed, all.Late, all.Wrong, all.Fallbacks = all.Missed+p.Missed, all.Late+p.Late, all.Wrong+p.Wrong, all.Fallbacks+p.Fallbacks
	}
	return all
}

// String is all of it in one line.
func (o *Origin) String() string {
	if o.Error != "" {
		return "not known: " + o.Error
	}
	here := fmt.Sprintf("this node %d", o.Here)
	if o.Node != "" {
		here = fmt.Sprintf("%s (this node) %d", o.Node, o.Here)
	}
	if o.Memory > 0 {
		here += fmt.Sprintf(" (of memory %d)", o.Memory)
	}
	parts := []string{here}
	for i := range o.Peers {
		parts = append(parts, o.Peers[i].String())
	}
	return strings.Join(parts, "; ")
}

// String says what came from a node, and why not by RDMA if that was wanted.
func (p *Peer) String() string {
	text := fmt.Sprintf("%s %d", p.Node, p.Blocks)
	switch {
	case p.Blocks == 0:
	case p.TCP == 0:
		text += " by rdma"
	case p.RDMA == 0:
		text += " by tcp"
	default:
		text += fmt.Sprintf(" (%d by rdma, %d by tcp)", p.Blocks-p.TCP, p.TCP)
	}
	for _, n := range []struct {
		count uint64
		name  string
	}{{p.Missed, "missed"}, {p.Late, "late"}, {p.Wrong, "wrong"}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %d %s", n.count, n.name)
		}
	}
	if p.TCP > 0 && p.Why != "" {
		text += ": no rdma: " + p.Why
	}
	return text
}

package admin

import (
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

// peersShown is how many peers have series of their own, by name; pools are built for a
// few dozen nodes.
const peersShown = 128

// poolFacts are what the metrics of a pool are made of.
type poolFacts struct {
	stat      pool.Stat
	ports     int    // of RDMA, in use
	why       string // why there is no RDMA, if it is wanted
	members   member.Status
	transport tcp.Counts
}

var poolRows = []row[poolFacts]{
	{"pool_state", stateHelp, "state", "joining", func(f *poolFacts) float64 { return truth(f.stat.State == "joining") }},
	{"pool_state", stateHelp, "state", "active", func(f *poolFacts) float64 { return truth(f.stat.State == "active") }},
	{"pool_state", stateHelp, "state", "draining", func(f *poolFacts) float64 { return truth(f.stat.State == "draining") }},
	{"pool_state", stateHelp, "state", "leaving", func(f *poolFacts) float64 { return truth(f.stat.State == "leaving") }},
	{"pool_members", membersHelp, "health", "alive", func(f *poolFacts) float64 { return 1 + healthy(&f.members, member.Alive) }},
	{"pool_members", membersHelp, "health", "suspect", func(f *poolFacts) float64 { return healthy(&f.members, member.Suspect) }},
	{"pool_members", membersHelp, "health", "failed", func(f *poolFacts) float64 { return healthy(&f.members, member.Failed) }},
	{"pool_member_changes_total", changesHelp, "change", "joined", func(f *poolFacts) float64 { return float64(f.members.Counters.Joined) }},
	{"pool_member_changes_total", changesHelp, "change", "left", func(f *poolFacts) float64 { return float64(f.members.Counters.Left) }},
	{"pool_member_changes_total", changesHelp, "change", "failed", func(f *poolFacts) float64 { return float64(f.members.Counters.Failed) }},
	{"pool_member_changes_total", changesHelp, "change", "suspected", func(f *poolFacts) float64 { return float64(f.members.Counters.Suspected) }},
	{"pool_slowness", "How slow or badly connected this node finds itself: 0 is well, 7 is worst.", "", "", func(f *poolFacts) float64 { return float64(f.members.HealthScore) }},
	{"pool_gossip_refused_total", gossipHelp, "reason", "foreign", func(f *poolFacts) float64 { return float64(f.members.Counters.Foreign) }},
	{"pool_gossip_refused_total", gossipHelp, "reason", "key", func(f *poolFacts) float64 { return float64(f.members.Counters.KeyMismatch) }},
	{"pool_gossip_refused_total", gossipHelp, "reason", "malformed", func(f *poolFacts) float64 { return float64(f.members.Counters.Malformed) }},
	{"pool_gossip_refused_total", gossipHelp, "reason", "incompatible", func(f *poolFacts) float64 { return float64(f.members.Counters.Incompatible) }},
	{"pool_gossip_refused_total", gossipHelp, "reason", "conflict", func(f *poolFacts) float64 { return float64(f.members.Counters.Conflicts) }},
	{"pool_gossip_packets_total", "Packets of the gossip over UDP.", "direction", "in", func(f *poolFacts) float64 { return float64(f.members.Counters.PacketsIn) }},
	{"pool_gossip_packets_total", "Packets of the gossip over UDP.", "direction", "out", func(f *poolFacts) float64 { return float64(f.members.Counters.PacketsOut) }},
	{"pool_gossip_bytes_total", "Bytes of those packets.", "direction", "in", func(f *poolFacts) float64 { return float64(f.members.Counters.PacketBytesIn) }},
	{"pool_gossip_bytes_total", "Bytes of those packets.", "direction", "out", func(f *poolFacts) float64 { return float64(f.members.Counters.PacketBytesOut) }},
	{"pool_hints", "Blocks elsewhere whose places are remembered.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Hints) }},
	{"pool_leases_lent", "Leases that other nodes have here.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Lent) }},
	{"pool_matches_total", "Questions to all other nodes what they have.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Matches) }},
	{"pool_match_blocks_total", "Blocks that were asked for in them.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Asked) }},
	{"pool_match_blocks_found_total", "Of those, found.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Found) }},
	{"pool_put_blocks_total", poolPutHelp, "result", "stored", func(f *poolFacts) float64 { return float64(f.stat.Puts.Stored) }},
	{"pool_put_blocks_total", poolPutHelp, "result", "present", func(f *poolFacts) float64 { return float64(f.stat.Puts.Present) }},
	{"pool_put_blocks_total", poolPutHelp, "result", "late", func(f *poolFacts) float64 { return float64(f.stat.Puts.Late) }},
	{"pool_put_blocks_total", poolPutHelp, "result", "dropped", func(f *poolFacts) float64 { return float64(f.stat.Puts.Dropped) }},
	{"pool_put_runs_total", "Runs of new blocks, each with a home.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Puts.Runs) }},
	{"pool_put_rehomed_total", "Times that the home of a run could not be reached and another was found.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Puts.Rehomed) }},
	{"pool_put_returned_blocks_total", "Blocks stored here since no home of theirs could be reached.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Puts.Returned) }},
	{"pool_put_copies_missing_total", "Blocks put with fewer copies than there should be.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Puts.CopiesMissing) }},
	{"pool_taken_blocks_total", takenHelp, "result", "stored", func(f *poolFacts) float64 { return float64(f.stat.Puts.Taken) }},
	{"pool_taken_blocks_total", takenHelp, "result", "wrong", func(f *poolFacts) float64 { return float64(f.stat.Puts.TakenWrong) }},
	{"pool_taken_blocks_total", takenHelp, "result", "erased", func(f *poolFacts) float64 { return float64(f.stat.Puts.TakenErased) }},
	{"pool_taken_blocks_total", takenHelp, "result", "busy", func(f *poolFacts) float64 { return float64(f.stat.Puts.TakenBusy) }},
	{"pool_drain_left_blocks", "Blocks that a draining node has not gone through yet.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Moves.Drain.LeftBlocks) }},
	{"pool_drain_left_bytes", "Bytes of those.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Moves.Drain.LeftBytes) }},
	{"pool_drain_moved_bytes", "Bytes that this drain has sent to other nodes.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Moves.Drain.MovedBytes) }},
	{"pool_drain_done", "1 if the node has handed its blocks over and can be stopped.", "", "", func(f *poolFacts) float64 { return truth(f.stat.Moves.Drain.State == "done") }},
	{"pool_repaired_blocks_total", "Copies made anew of blocks that were lost elsewhere.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Moves.Repair.RestoredBlocks) }},
	{"pool_repair_failed_blocks_total", "Copies that could not be made; the next look tries again.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Moves.Repair.FailedBlocks) }},
	{"pool_hot_copies_total", "Blocks copied here as they were read often from others.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Moves.Hot.Copied) }},
	{"pool_erase_failed", "1 if nothing can be erased any more, as what was erased cannot be kept: look at the pool directory.", "", "", func(f *poolFacts) float64 { return truth(f.stat.Erase.Failed != "") }},
	{"pool_tombstones", "Deletions and drops, of all nodes, that this node can name to one that was away.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Erase.Tombstones) }},
	{"pool_tombstones_forgotten_total", "Of those, too old to be named any more: a node that was away for longer gives blocks up.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Erase.Forgotten) }},
	{"pool_erase_total", eraseHelp, "what", "blocks", func(f *poolFacts) float64 { return float64(f.stat.Erase.Deleted) }},
	{"pool_erase_total", eraseHelp, "what", "namespaces", func(f *poolFacts) float64 { return float64(f.stat.Erase.Dropped) }},
	{"pool_erase_total", eraseHelp, "what", "learned", func(f *poolFacts) float64 { return float64(f.stat.Erase.Taken) }},
	{"pool_erase_total", eraseHelp, "what", "namespaces_learned", func(f *poolFacts) float64 { return float64(f.stat.Erase.Raised) }},
	{"pool_erase_total", eraseHelp, "what", "namespaces_given_up", func(f *poolFacts) float64 { return float64(f.stat.Erase.Cleared) }},
	{"pool_erase_unconfirmed_total", "Members that did not confirm an erasure in time; they learn of it before they are asked again.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Erase.Missing) }},
	{"pool_erase_overfull_total", "Times that others told of more erasures than this node can remember: it gives up all its blocks each time.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Erase.Overfull) }},
	{"pool_erase_damages", "Times, ever, that what this node knew of erasures was damaged, and was learned anew.", "", "", func(f *poolFacts) float64 { return float64(f.stat.Erase.Damages) }},
	{"pool_calls_refused_total", "Calls of peers refused, as this node knew less of erasures than they, or they less than it.", "reason", "behind", func(f *poolFacts) float64 { return float64(f.stat.Erase.Behind) }},
	{"pool_calls_refused_total", "Calls of peers refused, as this node knew less of erasures than they, or they less than it.", "reason", "outdated", func(f *poolFacts) float64 { return float64(f.stat.Erase.Outdated) }},
	{"pool_transport", "1 for what carries blocks where both nodes have it.", "transport", "tcp", func(f *poolFacts) float64 { return truth(f.stat.Transport == "tcp") }},
	{"pool_transport", "1 for what carries blocks where both nodes have it.", "transport", "rdma", func(f *poolFacts) float64 { return truth(f.stat.Transport == "rdma") }},
	{"pool_rdma_missing", "1 if the configuration asks for RDMA and this node has none: spillway pool status says why.", "", "", func(f *poolFacts) float64 { return truth(f.why != "") }},
	{"pool_rdma_ports", "RDMA ports in use.", "", "", func(f *poolFacts) float64 { return float64(f.ports) }},
	{"pool_connections", "Data connections with other nodes.", "", "", func(f *poolFacts) float64 { return float64(f.transport.Connections) }},
	{"pool_links_lost_total", "Links that ended otherwise than in order.", "", "", func(f *poolFacts) float64 { return float64(f.transport.Lost) }},
	{"pool_dials_failed_total", "Links to other nodes that could not be made.", "", "", func(f *poolFacts) float64 { return float64(f.transport.DialsFailed) }},
	{"pool_calls_busy_total", "Calls of peers refused above a bound of their link.", "", "", func(f *poolFacts) float64 { return float64(f.transport.Busy) }},
	{"pool_calls_panicked_total", "Calls of peers that panicked here: a bug, the log has where.", "", "", func(f *poolFacts) float64 { return float64(f.transport.Panics) }},
	{"pool_place_faults_total", "Blocks from or to peers whose memory was gone.", "", "", func(f *poolFacts) float64 { return float64(f.transport.Faults) }},
	{"pool_data_refused_total", dataHelp, "reason", "foreign", func(f *poolFacts) float64 { return float64(f.transport.Foreign) }},
	{"pool_data_refused_total", dataHelp, "reason", "version", func(f *poolFacts) float64 { return float64(f.transport.Versions) }},
	{"pool_data_refused_total", dataHelp, "reason", "certificate", func(f *poolFacts) float64 { return float64(f.transport.Certificates) }},
	{"pool_data_refused_total", dataHelp, "reason", "plain", func(f *poolFacts) float64 { return float64(f.transport.Plain) }},
	{"pool_data_refused_total", dataHelp, "reason", "noise", func(f *poolFacts) float64 { return float64(f.transport.Noise) }},
	{"pool_data_refused_total", dataHelp, "reason", "denied", func(f *poolFacts) float64 { return float64(f.transport.Denied) }},
	{"pool_data_refused_total", dataHelp, "reason", "full", func(f *poolFacts) float64 { return float64(f.transport.Full) }},
}

const (
	stateHelp   = "1 for the state of this node in its pool, 0 for the others."
	membersHelp = "Nodes of the pool, this one among the alive."
	changesHelp = "Nodes that came, left, were lost, or did not answer for a while, as this node saw it."
	gossipHelp  = "Gossip that was refused: of another pool, with another key, damaged, of nodes without a common version, of a second node with a name."
	poolPutHelp = "Blocks of this node's clients that were put through the pool, by their answer."
	takenHelp   = "Blocks that other nodes sent here to be stored, by what became of them."
	eraseHelp   = "What was erased: blocks and namespaces through this node, what it learned from others (namespaces dropped there are namespaces_learned), and namespaces whose blocks it gave up since nobody could name what was deleted."
	dataHelp    = "Data connections that were refused: of another pool, without a common version, with a bad certificate, plain where TLS is on or the other way round, saying no hello, denied, above the bound."
)

func healthy(s *member.Status, h member.Health) (n float64) {
	for i := range s.Members {
		if s.Members[i].Health == h {
			n++
		}
	}
	return n
}

var peerRows = []row[pool.PeerStat]{
	{"peer_usable", "1 if the peer would be asked for blocks now.", "", "", func(p *pool.PeerStat) float64 { return truth(p.Usable) }},
	{"peer_link_up", "1 if there is a link to the peer.", "", "", func(p *pool.PeerStat) float64 { return truth(p.Link == "up") }},
	{"peer_breaker_open", "1 if the peer's circuit breaker is not closed: it is asked for nothing, or only tried.", "", "", func(p *pool.PeerStat) float64 { return truth(p.Breaker != "closed") }},
	{"peer_breaker_opened_total", "Times that the breaker opened.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Opened) }},
	{"peer_free_bytes", "What the peer says it takes without evicting.", "", "", func(p *pool.PeerStat) float64 { return float64(p.FreeBytes) }},
	{"peer_get_seconds", peerGetHelp, "percentile", "50", func(p *pool.PeerStat) float64 { return float64(p.P50NS) / 1e9 }},
	{"peer_get_seconds", peerGetHelp, "percentile", "95", func(p *pool.PeerStat) float64 { return float64(p.P95NS) / 1e9 }},
	{"peer_get_seconds", peerGetHelp, "percentile", "99", func(p *pool.PeerStat) float64 { return float64(p.P99NS) / 1e9 }},
	{"peer_in_flight_bytes", "Bytes under way from and to the peer.", "", "", func(p *pool.PeerStat) float64 { return float64(p.InFlightBytes) }},
	{"peer_put_queue_bytes", "Blocks that wait to be pushed to the peer, or are.", "", "", func(p *pool.PeerStat) float64 { return float64(p.PutQueueBytes) }},
	{"peer_matches_total", "Calls that asked the peer what it has.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Matches) }},
	{"peer_matches_late_total", "Of those, not answered in time.", "", "", func(p *pool.PeerStat) float64 { return float64(p.MatchesLate) }},
	{"peer_get_blocks_total", peerGetBlocksHelp, "result", "hit", func(p *pool.PeerStat) float64 { return float64(p.Hits) }},
	{"peer_get_blocks_total", peerGetBlocksHelp, "result", "miss", func(p *pool.PeerStat) float64 { return float64(p.Misses) }},
	{"peer_get_blocks_total", peerGetBlocksHelp, "result", "late", func(p *pool.PeerStat) float64 { return float64(p.Late) }},
	{"peer_get_blocks_total", peerGetBlocksHelp, "result", "refused", func(p *pool.PeerStat) float64 { return float64(p.Refused) }},
	{"peer_get_blocks_total", peerGetBlocksHelp, "result", "lost", func(p *pool.PeerStat) float64 { return float64(p.Lost) }},
	{"peer_get_blocks_total", peerGetBlocksHelp, "result", "wrong", func(p *pool.PeerStat) float64 { return float64(p.Wrong) }},
	{"peer_hedged_blocks_total", "Blocks asked of another copy since this peer was slow.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Hedged) }},
	{"peer_hedges_won_total", "Blocks that this peer gave as the second that was asked, and sooner.", "", "", func(p *pool.PeerStat) float64 { return float64(p.HedgesWon) }},
	{"peer_stale_hints_total", "Blocks remembered to be there that were not.", "", "", func(p *pool.PeerStat) float64 { return float64(p.StaleHints) }},
	{"peer_calls_skipped_total", "Calls not made, as the peer could not be used.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Skipped) }},
	{"peer_calls_failed_total", "Calls that failed or timed out.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Failures) }},
	{"peer_stored_blocks_total", "Blocks that the peer stored for this node.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Stored) }},
	{"peer_read_bytes_total", "Bytes of the blocks got from the peer.", "", "", func(p *pool.PeerStat) float64 { return float64(p.ReadBytes) }},
	{"peer_written_bytes_total", "Bytes of the blocks that the peer stored.", "", "", func(p *pool.PeerStat) float64 { return float64(p.WrittenBytes) }},
	{"peer_served_blocks_total", "Blocks sent to the peer when it asked.", "", "", func(p *pool.PeerStat) float64 { return float64(p.ServedBlocks) }},
	{"peer_taken_blocks_total", "Blocks stored here that came from the peer.", "", "", func(p *pool.PeerStat) float64 { return float64(p.TakenBlocks) }},
	{"peer_rdma_up", "1 if blocks come from the peer by RDMA now.", "", "", func(p *pool.PeerStat) float64 { return truth(p.Way.Name == "rdma") }},
	{"peer_rdma_blocks_total", rdmaBlocksHelp, "direction", "in", func(p *pool.PeerStat) float64 { return float64(p.Way.Blocks) }},
	{"peer_rdma_blocks_total", rdmaBlocksHelp, "direction", "out", func(p *pool.PeerStat) float64 { return float64(p.Way.SentBlocks) }},
	{"peer_rdma_bytes_total", rdmaBytesHelp, "direction", "in", func(p *pool.PeerStat) float64 { return float64(p.Way.Bytes) }},
	{"peer_rdma_bytes_total", rdmaBytesHelp, "direction", "out", func(p *pool.PeerStat) float64 { return float64(p.Way.SentBytes) }},
	{"peer_rdma_writes_total", "RDMA writes posted for blocks to the peer.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Way.Pieces) }},
	{"peer_rdma_fallbacks_total", "Calls for blocks that went to the peer by TCP though RDMA was wanted.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Way.Fallbacks) }},
	{"peer_rdma_fences_total", "Calls for blocks that were given up and whose memory came back by the peer's word.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Way.Fences) }},
	{"peer_rdma_destroyed_total", "Queue pairs to the peer destroyed as its word did not come in time, or after a fault.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Way.Destroyed) }},
	{"peer_rdma_connects_total", "Times that RDMA to the peer came up.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Way.Connects) }},
	{"peer_rdma_failures_total", "Times that RDMA to the peer did not come up, or ended by a fault.", "", "", func(p *pool.PeerStat) float64 { return float64(p.Way.Failures) }},
}

const (
	peerGetHelp       = "How long the peer took to answer gets, by percentile; 0: none yet."
	peerGetBlocksHelp = "Blocks asked of the peer, by what became of it; lost: on its way when that failed; wrong: the bytes did not fit their checksum, a miss."
	rdmaBlocksHelp    = "Blocks that came from the peer, or went to it, by RDMA."
	rdmaBytesHelp     = "Bytes of the blocks that came from the peer, or went to it, by RDMA."
)

func describePool(c *collector) {
	describe(c, poolRows)
	describe(c, peerRows, "peer")
	c.describe("peer_leg_failing", "1 if the peer does not answer this way: UDP or TCP of the gossip, data.", "peer", "leg")
}

// pool sends the metrics of a pool.
func (e emitter) pool(p Pool) {
	s := p.Status()
	f := poolFacts{s.Stat, len(s.Ports), s.TransportWhy, p.Membership(), p.Transport()}
	emit(e, poolRows, &f)
	shown := map[string]bool{} // a name is one node's, but for moments
	for i := range f.stat.Peers {
		if s := &f.stat.Peers[i]; s.Member && !shown[s.Name] && len(shown) < peersShown {
			shown[s.Name] = true
			emit(e, peerRows, s, s.Name)
		}
	}
	for i := range f.members.Members {
		m := &f.members.Members[i]
		if !shown[m.Name] || m.Health != member.Alive && m.Health != member.Suspect {
			continue
		}
		delete(shown, m.Name)
		for _, l := range m.Legs {
			e.put("peer_leg_failing", truth(l.Error != ""), m.Name, string(l.Leg))
		}
	}
}

package admin

import (
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// row is one number of a T: a counter if its name says so, a gauge otherwise. Rows
// of one name differ in the value of their label.
type row[T any] struct {
	name, help   string
	label, value string // empty: none
	of           func(*T) float64
}

// Names follow Prometheus: base units, _total for what only grows.
var nodeRows = []row[node.Stat]{
	{"connections", "Clients connected now.", "", "", func(s *node.Stat) float64 { return float64(s.Connections) }},
	{"connections_accepted_total", "Clients that came.", "", "", func(s *node.Stat) float64 { return float64(s.Accepted) }},
	{"connections_refused_total", "Clients refused for want of room.", "", "", func(s *node.Stat) float64 { return float64(s.Refused) }},
	{"connections_malformed_total", "Connections ended for breaking the protocol.", "", "", func(s *node.Stat) float64 { return float64(s.Malformed) }},
	{"requests_total", "Requests of all kinds.", "", "", func(s *node.Stat) float64 { return float64(s.Requests) }},
	{"requests_limited_total", "Requests refused at a bound of their connection.", "", "", func(s *node.Stat) float64 { return float64(s.Limited) }},
	{"requests_in_flight", "Requests under way, subscriptions to events included.", "", "", func(s *node.Stat) float64 { return sum(s.Clients, func(c *node.ClientStat) int { return c.Requests }) }},
	{"regions", "Memory regions that clients have registered.", "", "", func(s *node.Stat) float64 { return sum(s.Clients, func(c *node.ClientStat) int { return c.Regions }) }},
	{"region_bytes", "Memory of the regions that clients have registered.", "", "", func(s *node.Stat) float64 {
		return sum(s.Clients, func(c *node.ClientStat) int { return int(c.RegionBytes) })
	}},
	{"registered_bytes", "Memory that the pool's transport knows, as RDMA wants it.", "", "", func(s *node.Stat) float64 { return float64(s.Registered.Bytes) }},
	{"unregistered_regions", "Regions of clients, and parts of the daemon's own memory, that it does not know and would be quicker with.", "", "", func(s *node.Stat) float64 { return float64(s.Registered.Missing) }},
	{"client_leases", "Leases that clients hold.", "", "", func(s *node.Stat) float64 { return sum(s.Clients, func(c *node.ClientStat) int { return c.Leases }) }},
	{"place_faults_total", "Places of requests outside their region, or whose memory was gone.", "", "", func(s *node.Stat) float64 { return float64(s.Faults) }},
	{"match_keys_total", "Keys that matches asked for.", "", "", func(s *node.Stat) float64 { return float64(s.Matched) }},
	{"match_keys_present_total", "Keys that matches asked for and found.", "", "", func(s *node.Stat) float64 { return float64(s.MatchedHere) }},
	{"match_keys_declined_total", "Of the keys found, answered as absent because computing them was quicker.", "", "", func(s *node.Stat) float64 { return float64(s.Declined) }},
	{"storing_nothing", "1 if puts came in the last minute and every block of them was dropped.", "", "", func(s *node.Stat) float64 { return truth(s.StoringNothing) }},
	{"saved_tokens_total", "Tokens of prefix hits, where a namespace says how many tokens a block has.", "", "", func(s *node.Stat) float64 { return float64(savedTokens(s)) }},
}

var spaceRows = []row[node.SpaceStat]{
	{"get_blocks_total", getHelp, "result", "hit", func(s *node.SpaceStat) float64 { return float64(s.Hits) }},
	{"get_blocks_total", getHelp, "result", "miss", func(s *node.SpaceStat) float64 { return float64(s.Misses) }},
	{"get_blocks_total", getHelp, "result", "late", func(s *node.SpaceStat) float64 { return float64(s.Late) }},
	{"get_blocks_total", getHelp, "result", "busy", func(s *node.SpaceStat) float64 { return float64(s.Busy) }},
	{"get_memory_hit_blocks_total", "Blocks of gets that were hit in memory.", "", "", func(s *node.SpaceStat) float64 { return float64(s.MemoryHits) }},
	{"get_remote_hit_blocks_total", "Blocks of gets that came from other nodes of the pool.", "", "", func(s *node.SpaceStat) float64 { return float64(s.RemoteHits) }},
	{"prefix_hit_blocks_total", "Blocks of gets that were hit with all before them in the request hit.", "", "", func(s *node.SpaceStat) float64 { return float64(s.PrefixHits) }},
	{"put_blocks_total", putHelp, "result", "stored", func(s *node.SpaceStat) float64 { return float64(s.Stored) }},
	{"put_remote_stored_blocks_total", "Of the blocks of puts that were stored, those that other nodes of the pool have and this one has not.", "", "", func(s *node.SpaceStat) float64 { return float64(s.RemoteStored) }},
	{"put_blocks_total", putHelp, "result", "present", func(s *node.SpaceStat) float64 { return float64(s.Present) }},
	{"put_blocks_total", putHelp, "result", "dropped", func(s *node.SpaceStat) float64 { return float64(s.Dropped) }},
	{"put_blocks_total", putHelp, "result", "late", func(s *node.SpaceStat) float64 { return float64(s.LatePuts) }},
	{"match_blocks_declined_total", "Blocks that matches found and answered as absent because computing them was quicker.", "", "", func(s *node.SpaceStat) float64 { return float64(s.Declined) }},
	{"compute_token_seconds", "Time to compute a token of a prompt of 4,096, as the daemon knows it for clients that ask; 0: not known.", "", "", func(s *node.SpaceStat) float64 { return float64(s.ComputeTokenNS) / 1e9 }},
	{"put_blocks_refused_total", refusedHelp, "reason", "partial", func(s *node.SpaceStat) float64 { return float64(s.NotFull) }},
	{"put_blocks_refused_total", refusedHelp, "reason", "first_sight", func(s *node.SpaceStat) float64 { return float64(s.FirstSight) }},
	{"put_blocks_refused_total", refusedHelp, "reason", "write_budget", func(s *node.SpaceStat) float64 { return float64(s.OverBudget) }},
	{"put_blocks_refused_total", refusedHelp, "reason", "queue", func(s *node.SpaceStat) float64 { return float64(s.QueueFull) }},
	{"read_bytes_total", "Bytes of blocks that were hit.", "", "", func(s *node.SpaceStat) float64 { return float64(s.ReadBytes) }},
	{"written_bytes_total", "Bytes of blocks that were stored.", "", "", func(s *node.SpaceStat) float64 { return float64(s.WrittenBytes) }},
	{"namespace_blocks", "Blocks present.", "", "", func(s *node.SpaceStat) float64 { return float64(s.Blocks) }},
	{"namespace_slots", "Blocks that fit.", "", "", func(s *node.SpaceStat) float64 { return float64(s.Slots) }},
	{"namespace_quota_bytes", "Quota over all stores; 0: none.", "", "", func(s *node.SpaceStat) float64 { return float64(s.QuotaBytes) }},
}

const (
	getHelp     = "Blocks that gets asked for, by their answer."
	putHelp     = "Blocks that puts brought, by their answer."
	refusedHelp = "Of the dropped blocks those that the daemon chose not to write, by reason."
)

var storeRows = []row[engine.Stat]{
	{"store_health", healthHelp, "state", "ok", func(s *engine.Stat) float64 { return truth(s.Health == "ok") }},
	{"store_health", healthHelp, "state", "sick", func(s *engine.Stat) float64 { return truth(s.Health == "sick") }},
	{"store_health", healthHelp, "state", "read-only", func(s *engine.Stat) float64 { return truth(s.Health == "read-only") }},
	{"store_direct_io", "1 if transfers go past the page cache.", "", "", func(s *engine.Stat) float64 { return truth(s.DirectIO) }},
	{"store_capacity_bytes", "Bound of everything on disk.", "", "", func(s *engine.Stat) float64 { return float64(s.CapacityBytes) }},
	{"store_used_bytes", "On the file system: segments, index, log.", "", "", func(s *engine.Stat) float64 { return float64(s.UsedBytes) }},
	{"store_segments", "Segment files.", "", "", func(s *engine.Stat) float64 { return float64(s.Segments) }},
	{"store_blocks", "Blocks present.", "", "", func(s *engine.Stat) float64 { return float64(s.Blocks) }},
	{"store_slots", "Blocks that fit, over all namespaces.", "", "", func(s *engine.Stat) float64 { return float64(s.Slots) }},
	{"store_index_memory_bytes", "Memory of the index table.", "", "", func(s *engine.Stat) float64 { return float64(s.IndexBytes) }},
	{"store_log_bytes", "Log files on disk.", "", "", func(s *engine.Stat) float64 { return float64(s.LogBytes) }},
	{"store_frames_in_use", "Frames lent to transfers now.", "", "", func(s *engine.Stat) float64 { return float64(s.FramesInUse) }},
	{"store_leases", "Leases that have not ended.", "", "", func(s *engine.Stat) float64 { return float64(s.Leases) }},
	{"store_leased_blocks", "Blocks under a lease.", "", "", func(s *engine.Stat) float64 { return float64(s.LeasedBlocks) }},
	{"store_read_bytes_total", "Bytes of blocks read from the drive.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.ReadBytes) }},
	{"store_written_bytes_total", "Bytes of blocks written to the drive: its wear.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.WrittenBytes) }},
	{"store_evicted_blocks_total", "Blocks that made room for others.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.Evicted) }},
	{"store_deleted_blocks_total", "Blocks deleted by clients.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.Deleted) }},
	{"store_coalesced_reads_total", "Reads that shared the transfer of another.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.Coalesced) }},
	{"store_torn_blocks_total", "Blocks whose bytes failed their checksum though they were synced: damage.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.TornBlocks) }},
	{"store_lost_blocks_total", "Blocks newer than the last sync before an unclean stop that did not survive it.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.LostBlocks) }},
	{"store_stale_reads_total", "Reads whose block was replaced meanwhile: retried, harmless.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.StaleReads) }},
	{"store_read_errors_total", "I/O errors of reads.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.ReadErrors) }},
	{"store_write_errors_total", "I/O errors of writes.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.WriteErrors) }},
	{"store_quarantined_slots_total", "Slots that are not used again.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.QuarantinedSlots) }},
	{"store_sick_periods_total", "Times that the drive was found sick.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.SickPeriods) }},
	{"store_directory_errors_total", "Directories of segments that could not be written.", "", "", func(s *engine.Stat) float64 { return float64(s.Counters.DirectoryErrors) }},
}

const memoryBlocksHelp = "Blocks of the memory tier, by what happened to them: came in, made room for others, found no room, replaced meanwhile, changed in memory."

var memoryRows = []row[memory.Stat]{
	{"memory_total_bytes", "Memory of the memory tier.", "", "", func(s *memory.Stat) float64 { return float64(s.TotalBytes) }},
	{"memory_bytes", "Bytes of the blocks in memory.", "", "", func(s *memory.Stat) float64 { return float64(s.Bytes) }},
	{"memory_blocks", "Blocks in memory.", "", "", func(s *memory.Stat) float64 { return float64(s.Blocks) }},
	{"memory_hit_blocks_total", "Blocks answered from memory.", "", "", func(s *memory.Stat) float64 { return float64(s.Hits) }},
	{"memory_hit_bytes_total", "Bytes answered from memory.", "", "", func(s *memory.Stat) float64 { return float64(s.HitBytes) }},
	{"memory_miss_blocks_total", "Blocks that had to be read from a drive, as they were not in memory.", "", "", func(s *memory.Stat) float64 { return float64(s.Misses) }},
	{"memory_blocks_total", memoryBlocksHelp, "what", "added", func(s *memory.Stat) float64 { return float64(s.Added) }},
	{"memory_blocks_total", memoryBlocksHelp, "what", "evicted", func(s *memory.Stat) float64 { return float64(s.Evicted) }},
	{"memory_blocks_total", memoryBlocksHelp, "what", "refused", func(s *memory.Stat) float64 { return float64(s.Refused) }},
	{"memory_blocks_total", memoryBlocksHelp, "what", "stale", func(s *memory.Stat) float64 { return float64(s.Stale) }},
	{"memory_blocks_total", memoryBlocksHelp, "what", "decayed", func(s *memory.Stat) float64 { return float64(s.Decayed) }},
	{"prefetch_blocks_total", prefetchHelp, "fate", "used", func(s *memory.Stat) float64 { return float64(s.AheadUsed) }},
	{"prefetch_blocks_total", prefetchHelp, "fate", "wasted", func(s *memory.Stat) float64 { return float64(s.AheadWaste) }},
	{"prefetch_precision", "Blocks fetched ahead and then read, of those read or gone unread; 0 without any.", "", "", func(s *memory.Stat) float64 { return s.Precision }},
	{"prefetch_coverage", "Blocks fetched ahead, of all blocks that were read; 0 without any.", "", "", func(s *memory.Stat) float64 { return s.Coverage }},
}

const prefetchHelp = "Blocks fetched ahead into memory, by their fate: read, or gone without."

const fetchHelp = "Blocks that were to be fetched ahead: named by clients or the predictor, in memory already, in no store, queued, beyond the bound, read, given up."

var prefetchRows = []row[node.PrefetchStat]{
	{"prefetch_requests_total", fetchHelp, "what", "asked", func(s *node.PrefetchStat) float64 { return float64(s.Asked) }},
	{"prefetch_requests_total", fetchHelp, "what", "here", func(s *node.PrefetchStat) float64 { return float64(s.Here) }},
	{"prefetch_requests_total", fetchHelp, "what", "absent", func(s *node.PrefetchStat) float64 { return float64(s.Absent) }},
	{"prefetch_requests_total", fetchHelp, "what", "begun", func(s *node.PrefetchStat) float64 { return float64(s.Begun) }},
	{"prefetch_requests_total", fetchHelp, "what", "refused", func(s *node.PrefetchStat) float64 { return float64(s.Refused) }},
	{"prefetch_requests_total", fetchHelp, "what", "read", func(s *node.PrefetchStat) float64 { return float64(s.Read) }},
	{"prefetch_requests_total", fetchHelp, "what", "cancelled", func(s *node.PrefetchStat) float64 { return float64(s.Cancelled) }},
	{"prefetch_waiting_blocks", "Blocks that wait to be fetched ahead, or are under way.", "", "", func(s *node.PrefetchStat) float64 { return float64(s.Waiting) }},
	{"prefetch_unheard_requests_total", "Requests that the predictor has not heard of, as it was busy.", "", "", func(s *node.PrefetchStat) float64 { return float64(s.Unheard) }},
}

const healthHelp = "1 for the state that the store is in, 0 for the others."

var driveRows = []row[node.DriveStat]{
	{"store_queue_waiting", "Transfers that wait for their turn.", "class", "load", func(d *node.DriveStat) float64 { return float64(d.LoadsWaiting) }},
	{"store_queue_waiting", "Transfers that wait for their turn.", "class", "store", func(d *node.DriveStat) float64 { return float64(d.StoresWaiting) }},
	{"store_queue_running_bytes", "Bytes of transfers under way.", "class", "load", func(d *node.DriveStat) float64 { return float64(d.LoadBytes) }},
	{"store_queue_running_bytes", "Bytes of transfers under way.", "class", "store", func(d *node.DriveStat) float64 { return float64(d.StoreBytes) }},
	{"store_queue_running_bytes", "Bytes of transfers under way.", "class", "prefetch", func(d *node.DriveStat) float64 { return float64(d.PrefetchBytes) }},
	{"store_put_queue_bytes", "Bytes of puts that wait or run.", "", "", func(d *node.DriveStat) float64 { return float64(d.AdmittedBytes) }},
	{"store_put_queue_limit_bytes", "Bound of the bytes of puts that wait or run.", "", "", func(d *node.DriveStat) float64 { return float64(d.AdmittedMaxBytes) }},
	{"store_day_written_bytes", "Bytes of blocks written within the last day, or since the start.", "", "", func(d *node.DriveStat) float64 { return float64(d.DayBytes) }},
	{"store_day_budget_bytes", "Bytes that the write budget allows in a day; 0: no bound.", "", "", func(d *node.DriveStat) float64 { return float64(d.DayBudgetBytes) }},
	{"store_write_budget_left_bytes", "Bytes that the write budget allows at once, now; 0 without one, too.", "", "", func(d *node.DriveStat) float64 { return float64(d.BudgetLeftBytes) }},
	{"store_drive_writes_per_day", "Capacities of the store written per day at the pace of the last day; 0: not yet known.", "", "", func(d *node.DriveStat) float64 { return d.DrivesPerDay }},
	{"store_endurance_seconds", "Time until the drive's endurance is used up at that pace; 0: not known.", "", "", func(d *node.DriveStat) float64 { return d.DaysLeft * 86400 }},
	{"store_read_bytes_per_second", "Rate at which the drive gave blocks, as measured while it read; 0: not yet.", "", "", func(d *node.DriveStat) float64 { return d.ReadBytesPerSecond }},
	{"store_write_bytes_per_second", "Rate at which the drive took puts, as measured while it wrote; 0: not yet.", "", "", func(d *node.DriveStat) float64 { return d.WriteBytesPerSecond }},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func sum[T any](all []T, of func(*T) int) (n float64) {
	for i := range all {
		n += float64(of(&all[i]))
	}
	return n
}

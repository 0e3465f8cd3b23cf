package job

import "maps"

// Why groups of fio's options are refused, and what to use.
const (
	noTrim     = "there are no trims"
	noLogs     = "there are no log files; --output-format=json+ has all latency bins, --status-interval the course"
	noZones    = "zoned devices are not supported"
	noReplay   = "fio's I/O logs and blktraces are not replayed; use trace"
	noFiles    = "files are named with filename, one job for each shape"
	noCPU      = "place the process from outside, with taskset or numactl"
	noCgroup   = "place the process from outside, with systemd-run"
	noProcess  = "run the process as that user or at that priority from outside"
	noCommands = "no job runs commands; do it around spillway"
	noCache    = "measure past the page cache, with direct=1"
	noSync     = "writes go past the page cache; use ioengine=store to measure durable puts"
	noBatch    = "submissions and completions are batched as they come; use iodepth"
	noGoal     = "use --budget, and --sweep iodepth=... to find the queue depth"
	noMinimum  = "no job ends for being slow; use --budget"
	noClock    = "there is one clock, and it is cheap"
	noSwitch   = "all latencies are always measured"
	noPayload  = "use verify=pattern, buffer_compress_percentage or dedupe_percentage"
	noVerify   = "verify has one form, and ends the job at the first wrong block unless continue_on_error=verify"
	noFlow     = "use rate or rate_iops for each job"
	noServer   = "there is no server mode; run spillway on each machine"
	noMemory   = "buffers are pinned and aligned as the device wants them"
	noProtocol = "it belongs to an engine that is not supported"
)

// refused are the options that fio has and this package has not, each with what to use
// in its place, or why. Found by no option of the table.
var refused = gather(map[string][]string{
	noTrim: {"trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch", "num_range"},
	noLogs: {"write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "bwavgtime", "iopsavgtime", "log_entries", "log_avg_msec",
		"log_hist_msec", "log_hist_coarseness", "log_max_value", "log_offset", "log_prio", "log_issue_time", "log_compression", "log_compression_cpus", "log_store_compressed",
		"log_unix_epoch", "log_alternate_epoch", "log_alternate_epoch_clock_id", "log_window_value", "per_job_logs", "block_error_percentiles", "bandwidth-log", "latency-log", "inflate-log"},
	noZones:    {"zonemode", "zonesize", "zonecapacity", "zonerange", "zoneskip", "read_beyond_wp", "max_open_zones", "job_max_open_zones", "ignore_zone_limits", "zone_reset_threshold", "zone_reset_frequency", "recover_zbd_write_error", "write_zone_remainder"},
	noReplay:   {"write_iolog", "read_iolog", "read_iolog_chunked", "replay_no_stall", "replay_redirect", "replay_scale", "replay_align", "replay_time_scale", "replay_skip", "merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters", "merge-blktrace-only"},
	noFiles:    {"filename_format", "unique_filename", "opendir", "lockfile", "openfiles", "file_service_type", "filesize", "file_append", "fill_device", "fill_fs", "offset_align", "offset_increment", "filetype"},
	noCPU:      {"cpumask", "cpus_allowed", "cpus_allowed_policy", "cpumode", "cpuload", "cpuchunks", "numa_cpu_nodes", "numa_mem_policy", "idle-prof"},
	noCgroup:   {"cgroup", "cgroup_nodelete", "cgroup_weight"},
	noProcess:  {"uid", "gid", "nice", "prio", "prioclass", "priohint", "ioscheduler", "comm"},
	noCommands: {"exec_prerun", "exec_postrun", "trigger", "trigger-file", "trigger-timeout", "trigger-remote", "aux-path", "profile"},
	noCache:    {"fadvise_hint", "pre_read", "atomic", "uncached"},
	noSync:     {"fsync", "fdatasync", "write_barrier", "sync_file_range", "sync", "end_fsync", "end_syncfs", "fsync_on_close", "create_fsync", "write_hint"},
	noBatch: {"iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete", "iodepth_batch_complete_min", "iodepth_batch_complete_max", "iodepth_low",
		"serialize_overlap", "hipri", "hipri_percentage", "sqthread_poll", "sqthread_poll_cpu", "nonvectored", "nowait", "cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_bssplit", "userspace_reap", "force_async", "cmd_type"},
	noGoal:     {"latency_target", "latency_window", "latency_percentile", "latency_run", "max_latency"},
	noMinimum:  {"rate_min", "rate_iops_min", "rate_cycle", "rate_ignore_thinktime"},
	noClock:    {"clocksource", "gtod_cpu", "job_start_clock_id", "cpuclock-test"},
	noSwitch:   {"gtod_reduce", "disable_lat", "disable_clat", "disable_slat", "disable_bw_measurement", "stats", "disk_util"},
	noPayload:  {"zero_buffers", "scramble_buffers", "buffer_pattern", "buffer_compress_chunk", "dedupe_mode", "dedupe_working_set_percentage", "dedupe_global"},
	noVerify:   {"verify_interval", "verify_offset", "verify_pattern", "verify_pattern_interval", "verify_fatal", "verify_dump", "verify_async", "verify_async_cpus", "verify_backlog", "verify_backlog_batch", "experimental_verify", "verify_state_load", "verify_state_save", "verify_header_seed", "verify_write_sequence"},
	noFlow:     {"flow", "flow_id", "flow_sleep", "flow_watermark"},
	noServer:   {"server", "client", "daemonize", "remote-config"},
	noMemory:   {"mem", "iomem", "mem_align", "iomem_align", "hugepage-size", "lockmem", "alloc-size"},
	noProtocol: {"hostname", "port", "protocol", "bindname", "listen", "pool", "clustername", "rbdname", "clientname", "uri", "verb", "namenode", "spdk_nvme", "ns", "md_per_io_size", "pi_act", "pi_chk", "apptag", "apptag_mask"},

	"use time_based with a runtime":                                             {"loop"},
	"use thinktime and thinktime_blocks":                                        {"thinktime_spin", "thinktime_blocks_type", "thinktime_iotime"},
	"use randrw, or one random and one sequential job":                          {"percentage_random", "rw_sequencer", "bs_is_seq_rand"},
	"block sizes are multiples of the smallest one":                             {"bs_unaligned", "blocksize_unaligned"},
	"there is one random generator":                                             {"random_generator", "softrandommap", "sprandom"},
	"a target that is not there is made by jobs that write":                     {"allow_file_create", "create_only", "create_on_open", "create_serialize", "fallocate", "overwrite"},
	"a block device or a foreign file is written only with spillway's own flag": {"allow_mounted_write"},
	"remove the file after the run":                                             {"unlink", "unlink_each_loop"},
	"each job ends by itself; use continue_on_error":                            {"ignore_error", "error_dump", "exit_what", "exitall_on_error"},
	"use ramp_time":                         {"ramp_size"},
	"reads and writes are reported apart":   {"unified_rw_reporting"},
	"the text has four significant figures": {"significant_figures"},
	"rates are in bytes":                    {"unit_base"},
	"use --output-format":                   {"minimal", "append-terse", "terse-version"},
	"use --status-interval":                 {"eta", "eta-newline", "eta-interval"},
	"every warning is a note, and what could mislead is an error": {"warnings-fatal"},
	"use spillway fio --help":                                     {"cmdhelp", "enghelp"},
	"it tests fio itself":                                         {"crctest", "debug"},
	"the number of workers is not limited by shared memory":       {"max-jobs"},
	"options are the same for every workload":                     {"subjob_number"},
})

func gather(reasons map[string][]string) map[string]string {
	all := map[string]string{}
	for reason, names := range reasons {
		for _, name := range names {
			if all[name] != "" {
				panic("two reasons against " + name)
			}
			all[name] = reason
		}
	}
	return all
}

// Refused lists fio's options that are not supported, each with the reason or what
// to use in its place.
func Refused() map[string]string { return maps.Clone(refused) }

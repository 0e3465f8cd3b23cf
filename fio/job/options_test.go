package job_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// optionCase is one option with a value, and what becomes of it.
type optionCase struct {
	option, value string // no value: a bare flag
	with          string // further options of the job, one a line
	got           func(*job.Job) any
	want          any
	fio           string // what fio's own parser makes of the value, its out=; empty: not compared
}

const kib, mib = int64(1) << 10, int64(1) << 20

func size(bytes int64) job.Amount { return job.Amount{Bytes: bytes} }

// Fields that several cases look at.
func read(j *job.Job) any  { return j.Blocks[job.Read] }
func write(j *job.Job) any { return j.Blocks[job.Write] }
func sizes(j *job.Job) any {
	return [2]int64{j.Blocks[job.Read].MinBytes, j.Blocks[job.Write].MaxBytes}
}
func direct(j *job.Job) any      { return j.Direct }
func runtime(j *job.Job) any     { return j.Runtime }
func engine(j *job.Job) any      { return fmt.Sprint(j.Engine, j.Backend) }
func range_(j *job.Job) any      { return j.Size }
func names(j *job.Job) any       { return j.Filenames }
func skewed(j *job.Job) any      { return j.Distribution }
func survives(j *job.Job) any    { return j.ContinueOnError }
func proof(j *job.Job) any       { return j.Verify }
func percent(j *job.Job) any     { return j.Percentiles }
func mixed(j *job.Job) any       { return j.ReadPercent }
func steady(j *job.Job) any      { return j.SteadyState }
func chat(j *job.Job) any        { return j.Chat }
func mode(j *job.Job) any        { return [3]bool{j.Reads, j.Writes, j.Random} }
func startsAfter(j *job.Job) any { return j.StartDelay }
func nothing(*job.Job) any       { return nil }

func even(bytes int64) job.Blocks {
	return job.Blocks{MinBytes: bytes, MaxBytes: bytes, AlignBytes: bytes}
}

func steadyCase(criterion job.Criterion, limit float64, percent bool) job.Steady {
	return job.Steady{Criterion: criterion, Limit: limit, Percent: percent, Duration: 10 * time.Second, Interval: time.Second}
}

const (
	inChat   = "chat=8\nruntime=1"
	steadily = "steadystate_duration=10"
	sec      = time.Second
)

var optionCases = []optionCase{
	{"ioengine", "raw", "", engine, "raw auto", ""}, {"ioengine", "psync", "", engine, "raw psync", ""}, {"ioengine", "io_uring", "", engine, "raw io_uring", ""},
	{"ioengine", "store", "directory=/d", engine, "store auto", ""}, {"ioengine", "pool", "socket=/s", engine, "pool auto", ""}, {"ioengine", "null", "", engine, "null auto", ""},
	{"backend", "psync", "", engine, "raw psync", ""},
	{"direct", "0", "", direct, false, "0"}, {"direct", "1", "", direct, true, "1"}, {"buffered", "1", "", direct, false, "1"}, {"buffered", "0", "", direct, true, "0"},
	{"filename", "/a:/b", "", names, []string{"/a", "/b"}, ""}, {"filename", `/a\:b`, "", names, []string{"/a:b"}, ""},
	{"directory", `/d\:e`, "", func(j *job.Job) any { return j.Directory }, "/d:e", ""},
	{"size", "1m", "", range_, size(mib), "1048576"}, {"size", "0x1000", "", range_, size(4096), "4096"}, {"size", "10%", "", range_, job.Amount{Percent: 10}, ""},
	{"size", "64MiB", "", range_, size(64 * mib), ""}, {"size", "64MB", "", range_, size(64_000_000), ""}, {"size", "64", "", range_, size(64), "64"},
	{"size", "1.5GiB", "", range_, size(3 << 29), ""}, {"size", "4KIB", "", range_, size(4096), ""}, {"size", "2G", "", range_, size(2 << 30), "2147483648"}, {"size", "1t", "", range_, size(1 << 40), "1099511627776"},
	{"io_size", "4k", "", func(j *job.Job) any { return j.IOSize }, size(4096), "4096"}, {"offset", "8k", "", func(j *job.Job) any { return j.Offset }, size(8192), "8192"},
	{"numjobs", "4", "", func(j *job.Job) any { return j.NumJobs }, 4, "4"}, {"description", "some words", "", func(j *job.Job) any { return j.Description }, "some words", ""},

	{"rw", "read", "", mode, [3]bool{true, false, false}, ""}, {"rw", "write", "", mode, [3]bool{false, true, false}, ""}, {"rw", "randread", "", mode, [3]bool{true, false, true}, ""},
	{"rw", "randwrite", "", mode, [3]bool{false, true, true}, ""}, {"rw", "rw", "", mode, [3]bool{true, true, false}, ""}, {"rw", "readwrite", "", mode, [3]bool{true, true, false}, ""},
	{"rw", "randrw", "", mode, [3]bool{true, true, true}, ""}, {"rw", "randread:8", "", func(j *job.Job) any { return j.SequentialRun }, 8, ""},
	{"rw", "read:8k", "", func(j *job.Job) any { return j.SequentialSkip }, 8 * kib, ""},
	{"rwmixread", "70", "", mixed, 70, "70"}, {"rwmixwrite", "70", "", mixed, 30, "70"},
	{"bs", "64k", "", sizes, [2]int64{64 * kib, 64 * kib}, "65536"}, {"bs", "8k,32k", "", sizes, [2]int64{8 * kib, 32 * kib}, "8192 32768"},
	{"bs", "8k,", "", sizes, [2]int64{8 * kib, 4096}, "8192"}, {"bs", ",8k", "", sizes, [2]int64{4096, 8 * kib}, "8192"}, {"bs", "8k,16k,32k", "", sizes, [2]int64{8 * kib, 16 * kib}, "8192 16384 32768"},
	{"bsrange", "4k-64k", "", read, job.Blocks{MinBytes: 4 * kib, MaxBytes: 64 * kib, AlignBytes: 4 * kib}, ""}, {"bsrange", "64k:4k", "bs=1m", read, job.Blocks{MinBytes: 4 * kib, MaxBytes: 64 * kib, AlignBytes: 4 * kib}, ""},
	{"bsrange", "4k-8k,16k-32k", "", write, job.Blocks{MinBytes: 16 * kib, MaxBytes: 32 * kib, AlignBytes: 16 * kib}, ""},
	{"bssplit", "4k/10:64k/50:32k/40", "bsrange=1k-2k", read, job.Blocks{MinBytes: 4 * kib, MaxBytes: 64 * kib, AlignBytes: 4 * kib, Split: []job.Share{{Bytes: 4 * kib, Percent: 10}, {Bytes: 64 * kib, Percent: 50}, {Bytes: 32 * kib, Percent: 40}}}, ""},
	{"bssplit", "4k/50:1k/:32k/", "", write, job.Blocks{MinBytes: kib, MaxBytes: 32 * kib, AlignBytes: kib, Split: []job.Share{{Bytes: 4 * kib, Percent: 50}, {Bytes: kib, Percent: 25}, {Bytes: 32 * kib, Percent: 25}}}, ""},
	{"bssplit", "2k/50:4k/50,4k/90:8k/10", "", write, job.Blocks{MinBytes: 4 * kib, MaxBytes: 8 * kib, AlignBytes: 4 * kib, Split: []job.Share{{Bytes: 4 * kib, Percent: 90}, {Bytes: 8 * kib, Percent: 10}}}, ""},
	{"ba", "512", "rw=randread\nbs=8k", func(j *job.Job) any { return fmt.Sprint(j.Blocks[job.Read].AlignBytes, j.NoRandomMap) }, "512 true", "512"},
	{"ba", "512", "rw=read\nbs=8k", read, even(8 * kib), "512"},
	{"iodepth", "32", "", func(j *job.Job) any { return j.IODepth }, 32, "32"}, {"iodepth", "1k", "", func(j *job.Job) any { return j.IODepth }, 1024, "1024"}, {"iodepth", "32", "ioengine=psync", func(j *job.Job) any { return j.IODepth }, 32, "32"},
	{"io_submit_mode", "offload", "", func(j *job.Job) any { return j.Offload }, true, ""}, {"number_ios", "1k", "", func(j *job.Job) any { return j.NumberIOs }, kib, "1024"},
	{"random_distribution", "random", "rw=randread", skewed, job.Distribution{Center: -1}, ""}, {"random_distribution", "zipf", "rw=randread", skewed, job.Distribution{Shape: job.Zipf, Parameter: 1.1, Center: -1}, ""},
	{"random_distribution", "zipf:0.9", "rw=randread", skewed, job.Distribution{Shape: job.Zipf, Parameter: 0.9, Center: -1}, ""}, {"random_distribution", "pareto:0.3:0.25", "rw=randread", skewed, job.Distribution{Shape: job.Pareto, Parameter: 0.3, Center: 0.25}, ""},
	{"random_distribution", "normal:20", "rw=randread", skewed, job.Distribution{Shape: job.Normal, Parameter: 20, Center: -1}, ""}, {"random_distribution", "zipf", "rw=randread", func(j *job.Job) any { return j.NoRandomMap }, true, ""},
	{"random_distribution", "zoned:60/10:30/20:10/70", "rw=randread", skewed, job.Distribution{Shape: job.Zoned, Center: -1, Zones: []job.Zone{{AccessPercent: 60, SpacePercent: 10}, {AccessPercent: 30, SpacePercent: 20}, {AccessPercent: 10, SpacePercent: 70}}}, ""},
	{"norandommap", "", "", func(j *job.Job) any { return j.NoRandomMap }, true, ""}, {"randrepeat", "0", "", func(j *job.Job) any { return j.RandRepeat }, false, "0"},
	{"randseed", "17", "", func(j *job.Job) any { return j.RandSeed }, uint64(17), "17"}, {"randseed", "0x89", "", func(j *job.Job) any { return j.RandSeed }, uint64(0x89), "137"},
	{"buffer_compress_percentage", "50", "", func(j *job.Job) any { return j.CompressPercent }, 50, "50"}, {"dedupe_percentage", "30", "", func(j *job.Job) any { return j.DedupePercent }, 30, "30"},
	{"refill_buffers", "", "", func(j *job.Job) any { return j.RefillBuffers }, true, ""},

	{"runtime", "10", "", runtime, 10 * sec, "10000000"}, {"runtime", "2m", "", runtime, 2 * time.Minute, "120000000"}, {"runtime", "500ms", "", runtime, 500 * time.Millisecond, "500000"}, {"runtime", "500us", "", runtime, 500 * time.Microsecond, "500"},
	{"runtime", "1d", "", runtime, 24 * time.Hour, "86400000000"}, {"runtime", "3H", "", runtime, 3 * time.Hour, "10800000000"}, {"runtime", "7msec", "", runtime, 7 * time.Millisecond, "7000"}, {"runtime", "7usec", "", runtime, 7 * time.Microsecond, "7"}, {"runtime", "1.5", "", runtime, 1500 * time.Millisecond, ""},
	{"time_based", "", "runtime=1", func(j *job.Job) any { return j.TimeBased }, true, ""}, {"time_based", "0", "", func(j *job.Job) any { return j.TimeBased }, false, "0"},
	{"ramp_time", "5", "", func(j *job.Job) any { return j.RampTime }, 5 * sec, "5000000"}, {"startdelay", "2", "", startsAfter, [2]time.Duration{2 * sec, 2 * sec}, "2000000"}, {"startdelay", "2-5", "", startsAfter, [2]time.Duration{2 * sec, 5 * sec}, "2000000 5000000"}, {"startdelay", "500ms-1", "", startsAfter, [2]time.Duration{sec / 2, sec}, "500000 1000000"},
	{"thinktime", "5", "", func(j *job.Job) any { return j.ThinkTime }, 5 * time.Microsecond, "5"}, {"thinktime", "1ms", "", func(j *job.Job) any { return j.ThinkTime }, time.Millisecond, "1000"}, {"thinktime_blocks", "4", "thinktime=1", func(j *job.Job) any { return j.ThinkBlocks }, int64(4), "4"},

	{"rate", "10m,1m", "", func(j *job.Job) any { return j.RateBytes }, [2]int64{10 * mib, mib}, "10485760 1048576"}, {"rate", ",1m", "", func(j *job.Job) any { return j.RateBytes }, [2]int64{0, mib}, "1048576"}, {"rate", "1m", "", func(j *job.Job) any { return j.RateBytes }, [2]int64{mib, mib}, "1048576"},
	{"rate_iops", "500", "", func(j *job.Job) any { return j.RateIOPS }, [2]int64{500, 500}, "500"}, {"rate_iops", "1k,", "", func(j *job.Job) any { return j.RateIOPS }, [2]int64{1024, 0}, "1024"},
	{"rate_process", "poisson", "rate_iops=5", func(j *job.Job) any { return j.Poisson }, true, ""}, {"rate_process", "linear", "", func(j *job.Job) any { return j.Poisson }, false, ""},

	{"socket", "/s", "ioengine=pool", func(j *job.Job) any { return j.Socket }, "/s", ""}, {"capacity", "2g", "ioengine=store\ndirectory=/d", func(j *job.Job) any { return j.Capacity }, int64(2 << 30), ""}, {"namespaces", "3", "", func(j *job.Job) any { return j.Namespaces }, 3, ""},
	{"trace", "t.jsonl", "", func(j *job.Job) any { return j.Trace }, "t.jsonl", ""}, {"trace_format", "mlperf", "", func(j *job.Job) any { return j.TraceFormat }, "mlperf", ""}, {"trace_speed", "2.5", "", func(j *job.Job) any { return j.TraceSpeed }, 2.5, ""},
	{"trace_format", "azure", "", func(j *job.Job) any { return j.TraceFormat }, "azure", ""},
	{"kv_model", "Llama-3.1-8B", "", read, even(64 * 131072), ""}, {"kv_precision", "fp8", "kv_model=llama-3.1-8b", read, even(64 * 65536), ""}, {"block_tokens", "16", "kv_model=llama-3.1-8b", write, even(16 * 131072), ""},
	{"block_tokens", "128", "", func(j *job.Job) any { return j.BlockTokens }, 128, ""}, {"trace_speed", "0", "", func(j *job.Job) any { return j.BlockTokens }, 512, ""},
	{"chat", "8", inChat, chat, job.Chat{Sessions: 8, Think: 1}, ""}, {"chat_kind", "toolagent", inChat, chat, job.Chat{Sessions: 8, Think: 1, Kind: trace.ToolAgent}, ""},
	{"chat_rate", "2.5", inChat, chat, job.Chat{Sessions: 8, Think: 1, PerSecond: 2.5}, ""}, {"chat_think", "0.1", inChat, chat, job.Chat{Sessions: 8, Think: 0.1}, ""},

	{"verify", "0", "", proof, job.CheckNone, ""}, {"verify", "crc32c", "", proof, job.CheckCRC32C, ""}, {"verify", "sha256", "", proof, job.CheckSHA256, ""}, {"verify", "xxhash", "", proof, job.CheckXXHash, ""}, {"verify", "pattern", "", proof, job.CheckPattern, ""},
	{"verify", "crc32c", "", func(j *job.Job) any { return j.RefillBuffers }, true, ""},
	{"do_verify", "0", "", func(j *job.Job) any { return j.DoVerify }, false, "0"}, {"verify_only", "", "rw=write\nverify=crc32c", func(j *job.Job) any { return j.VerifyOnly }, true, ""},
	{"continue_on_error", "none", "", survives, job.Errors(0), ""}, {"continue_on_error", "read", "", survives, job.ReadErrors, ""}, {"continue_on_error", "write", "", survives, job.WriteErrors, ""}, {"continue_on_error", "io", "", survives, job.ReadErrors | job.WriteErrors, ""},
	{"continue_on_error", "verify", "", survives, job.VerifyErrors, ""}, {"continue_on_error", "all", "", survives, job.ReadErrors | job.WriteErrors | job.VerifyErrors, ""}, {"continue_on_error", "1", "", survives, job.ReadErrors | job.WriteErrors | job.VerifyErrors, ""}, {"continue_on_error", "0", "", survives, job.Errors(0), ""},

	{"group_reporting", "", "", func(j *job.Job) any { return j.GroupReporting }, true, ""}, {"percentile_list", "99.9:50", "", percent, []float64{50, 99.9}, ""}, {"clat_percentiles", "0", "", func(j *job.Job) any { return j.ClatPercentiles }, false, "0"},
	{"lat_percentiles", "1", "", func(j *job.Job) any { return j.LatPercentiles }, true, "1"}, {"slat_percentiles", "1", "", func(j *job.Job) any { return j.SlatPercentiles }, true, "1"},
	{"steadystate", "iops_slope:0.3%", steadily, steady, steadyCase(job.SteadyIOPSSlope, 0.3, true), ""}, {"steadystate", "iops:5", steadily, steady, steadyCase(job.SteadyIOPS, 5, false), ""}, {"steadystate", "bw:1m", steadily, steady, steadyCase(job.SteadyBandwidth, 1<<20, false), ""}, {"steadystate", "bw_slope:1%", steadily, steady, steadyCase(job.SteadyBandwidthSlope, 1, true), ""},
	{"steadystate_duration", "10", "", steady, steadyCase(job.SteadyIOPSSlope, 0.01, true), "10000000"}, {"steadystate_ramp_time", "3", "", func(j *job.Job) any { return j.SteadyState.RampTime }, 3 * sec, "3000000"}, {"steadystate_check_interval", "500ms", "", func(j *job.Job) any { return j.SteadyState.Interval }, sec / 2, ""},

	{"stonewall", "", "", nothing, nil, ""}, {"new_group", "", "", nothing, nil, ""}, {"wait_for", "first", "", func(j *job.Job) any { return j.WaitFor }, 0, ""}, // TestOrder says more
	{"thread", "", "", nothing, nil, ""}, {"thread", "1", "", nothing, nil, "1"}, {"fixedbufs", "", "", nothing, nil, ""}, {"registerfiles", "", "", nothing, nil, ""}, {"invalidate", "1", "", nothing, nil, "1"},
	{"loops", "1", "", nothing, nil, "1"}, {"nrfiles", "1", "", nothing, nil, "1"}, {"kb_base", "1024", "", nothing, nil, ""}, {"exitall", "0", "", nothing, nil, ""},
}

// line is the option as a job file has it.
func (c *optionCase) line() string {
	if c.value == "" {
		return c.option
	}
	return c.option + "=" + c.value
}

// TestOptions parses every option of the table; one without a case fails.
func TestOptions(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range optionCases {
		covered[c.option] = true
		t.Run(c.line(), func(t *testing.T) {
			run := parseText(t, fmt.Sprintf("[first]\n[j]\n%s\n%s\n", c.line(), c.with))
			if got := c.got(&run.Jobs[1]); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	for _, o := range job.Table() {
		if o.Scope == job.PerJob && !covered[o.Name] {
			t.Errorf("the option %s has no case", o.Name)
		}
		if (o.Form == "") != (o.Scope == job.PerRun && slices.Contains([]string{"readonly", "parse-only", "showcmd"}, o.Name)) || o.Help == "" || o.Help[len(o.Help)-1] != '.' {
			t.Errorf("the row of %s: form %q, help %q", o.Name, o.Form, o.Help)
		}
	}
}

// TestDefaults: a job without options is fio's, but for what the table says.
func TestDefaults(t *testing.T) {
	j := parseText(t, "[j]\n").Jobs[0]
	if !j.Reads || j.Writes || j.Random || j.Blocks[job.Read].MinBytes != 4096 || j.IODepth != 1 || j.NumJobs != 1 ||
		!j.Direct || j.RandSeed != 0x89 || !j.RandRepeat || j.ReadPercent != 50 || !j.ClatPercentiles || len(j.Percentiles) != 17 || !j.DoVerify || j.SteadyState.Duration != 0 || j.WaitFor != -1 {
		t.Errorf("%+v", j)
	}
}

// parseText parses one job file.
func parseText(t testing.TB, text string) *job.Run {
	t.Helper()
	run, err := job.Parse([]string{fileWith(t, text)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func fileWith(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.fio")
	writeFile(t, path, text)
	return path
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

package job_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/fio/job"
)

// malformed are job files with one fault each: the line that is named, and words
// that the error must have.
var malformed = []struct {
	text string
	line int // 0: the file as a whole
	say  string
}{
	{"[a]\niodpth=4\n", 2, "there is no option iodpth; the nearest is iodepth"},
	{"[a]\nrunime=4\n", 2, "the nearest is runtime"},
	{"[a]\nqwertzuiop=4\n", 2, "there is no option qwertzuiop"},
	{"[a]\nioengine=libaio\n", 2, "libaio is an engine of fio that is not supported; for files and devices use raw, io_uring or psync"},
	{"[a]\nioengine=stroe\n", 2, "the nearest is store"},
	{"[a]\nzonemode=zbd\n", 2, "fio's option zonemode is not supported: zoned devices are not supported"},
	{"[a]\nbs=4k\nlatency_target=10ms\n", 3, "fio's option latency_target is not supported: use --budget"},
	{"[a]\nrw=randtrim\n", 2, "trims are not supported"},
	{"[a]\nrw=randred\n", 2, `"randred" is not one of read write`},
	{"[a]\nrw=randread:0\n", 2, "outside 1 to"},
	{"[a]\nbs=4X\n", 2, `unknown suffix "X"`},
	{"[a]\nbs=\n", 2, "bs= has no value"},
	{"[a]\nbs\n", 2, "bs needs a value: SIZE[,SIZE]"},
	{"[a]\nbs=0\n", 2, "outside 1 to"},
	{"[a]\nbs=-1\n", 2, "negative"},
	{"[a]\nbs=0.5k,0.3\n", 2, "not a whole number"},
	{"[a]\nbs=1k,2k,3k,4k\n", 2, "more than three"},
	{"[a]\nbs=,\n", 2, "no value"},
	{"[a]\nbs=0xzz\n", 2, "hexadecimal"},
	{"[a]\nsize=101%\n", 2, "percentage from 1% to 100%"},
	{"[a]\nsize=9223372036854775808\n", 2, "more than 2^63-1"},
	{"[a]\nbsrange=4k\n", 2, "is not a range; write it like 4k-64k"},
	{"[a]\nbssplit=4k/60:8k/60\n", 2, "the shares sum to 120, not to 100"},
	{"[a]\nbssplit=4k/50\n", 2, "the shares sum to 50"},
	{"[a]\nbssplit=4k/x\n", 2, `"x" is not a share`},
	{"[a]\niodepth=0\n", 2, "outside 1 to 65536"},
	{"[a]\nnumjobs=0\n", 2, "outside 1 to 4096"},
	{"[a]\nruntime=10sec\n", 2, `unknown suffix "sec"; known are us ms s m h d`},
	{"[a]\nruntime=soon\n", 2, "is not a time"},
	{"[a]\nruntime=1d2h\n", 2, "is not a time"},
	{"[a]\nruntime=2000d\n", 2, "more than 1000d"},
	{"[a]\ntime_based\n", 1, "job a: time_based needs a runtime"},
	{"[a]\ntime_based=yes\n", 2, "neither 0 nor 1"},
	{"[a]\nthread=0\n", 2, "thread is accepted only as thread=1"},
	{"[a]\ndirect=2\n", 2, "neither 0 nor 1"},
	{"[a]\nrwmixread=101\n", 2, "outside 0 to 100"},
	{"[a]\nrw=randread\nrandom_distribution=zipf:1\n", 3, "theta must be over 0, and not 1"},
	{"[a]\nrw=randread\nrandom_distribution=pareto:1.5\n", 3, "between 0 and 1"},
	{"[a]\nrw=randread\nrandom_distribution=zipf:nan\n", 3, "is not a number"},
	{"[a]\nrw=randread\nrandom_distribution=zipf:1.2:7\n", 3, "outside 0 to 1"},
	{"[a]\nrw=randread\nrandom_distribution=zoned:60/10:30/20\n", 3, "both must be 100"},
	{"[a]\nrandom_distribution=zipf\n", 1, "job a: random_distribution needs a random rw"},
	{"[a]\npercentile_list=99:101\n", 2, "outside what is allowed"},
	{"[a]\npercentile_list=1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21\n", 2, "21 percentiles; at most 20"},
	{"[a]\nverify=md5\n", 2, "is not one of 0 crc32c"},
	{"[a]\nverify_only\nrw=write\n", 1, "verify_only needs verify"},
	{"[a]\nsteadystate=iops\n", 2, "has no limit; write it like iops:0.3%"},
	{"[a]\nsteadystate=lat:1ms\n", 2, "is not one of iops"},
	{"[a]\nsteadystate=iops:1%\n", 1, "does nothing without steadystate_duration"},
	{"[a]\nrate=1m\nrate_iops=5\n", 1, "rate and rate_iops exclude each other"},
	{"[a]\nrate_process=poisson\n", 1, "needs a rate"},
	{"[a]\nioengine=pool\ndirectory=/d\n", 1, "takes socket, and neither directory nor filename"},
	{"[a]\ninvalidate=1\ndirect=0\n", 1, "the page cache keeps what it has"},
	{"[a]\ndirectory=/a:/b\n", 2, "one directory, not a list"},
	{"[a]\nioengine=store\n", 1, "needs directory=PATH"},
	{"[a]\nsocket=/s\n", 1, "socket belongs to ioengine=pool, and this job has ioengine=raw"},
	{"[a]\nchat=4\n", 1, "a chat has no end: set runtime"},
	{"[a]\nchat=4\nruntime=1\ntrace=t\n", 1, "exclude each other"},
	{"[a]\nchat=4\nruntime=1\nrate_iops=5\n", 1, "a chat have their own arrivals"},
	{"[a]\ntrace=t\nrw=read\n", 1, "leave out rw"},
	{"[a]\nchat=4\nio_size=10%\n", 1, "give it in bytes"},
	{"[a]\nchat_rate=4\n", 1, "need chat=N"},
	{"[a]\nchat_think=-1\n", 2, "outside 0 to 1e+06"},
	{"[a]\ntrace=t\nblock_tokens=100\n", 1, "does not divide the 512 tokens"},
	{"[a]\nkv_model=lama-3.1-8b\n", 1, "kv_model"},
	{"[a]\nkv_model=llama-3.1-8b\nbs=4k\n", 1, "leave out bs"},
	{"[a]\nkv_precision=fp8\n", 1, "kv_precision needs kv_model"},
	{"[a]\nkv_model=llama-3.1-8b\nkv_precision=int3\n", 3, "is not a precision"},
	{"[a]\nkv_model=llama-3.1-8b\nblock_tokens=65536\n", 1, "use fewer block_tokens"},
	{"[a]\nwait_for=b\n[b]\n", 1, "no job of that name stands before it"},
	{"[a]\n[a]\n[b]\nwait_for=a\n", 3, "two jobs before it have that name"},
	{"[a]\noutput-format=json\n", 2, "an option of the whole run: give it as --output-format"},
	{"bs=4k\n[a]\n", 1, "before the first section"},
	{"[a\nbs=4k\n", 1, "does not end with ]"},
	{"[]\nbs=4k\n", 1, "a section without a name"},
	{"[globals]\n", 1, "fio takes every section that begins with global"},
	{"[a]\n=4k\n", 2, "no name before the ="},
	{"[a]\nbs 4k\n", 2, "write name=value"},
	{"[a]\nbs=4k rw=read\n", 2, "unknown suffix"},
	{"[a]\nbs=${SPILLWAY_NO_SUCH_VARIABLE}\n", 2, `the environment variable "SPILLWAY_NO_SUCH_VARIABLE" is not set`},
	{"[a]\nbs=${X\n", 2, "${ without }"},
	{"[a]\ninclude no-such-file\n", 2, "include no-such-file: no such file"},
	{"[a]\ninclude\n", 2, "include needs a file"},
	{"[global]\nbs=4Q\n", 2, "unknown suffix"},
	{"[global]\nbs=4k\n", 0, "there is no job"},
	{"", 0, "there is no section"},
	{"; only a comment\n", 0, "there is no section"},
}

// TestMalformed: one fault gives one error, with the place and what to do.
func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		path := fileWith(t, c.text)
		run, err := job.Parse([]string{path}, nil)
		if run != nil || err == nil {
			t.Errorf("%q is taken", c.text)
			continue
		}
		placed, ok := errors.AsType[*job.Error](err)
		if !ok || strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), path) > 1 {
			t.Errorf("%q: not one error with a place: %v", c.text, err)
			continue
		}
		if placed.Place.Line != c.line || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%q: line %d, want %d and %q: %v", c.text, placed.Place.Line, c.line, c.say, err)
		}
	}
}

// TestMalformedArguments is the same for the command line.
func TestMalformedArguments(t *testing.T) {
	own := []job.Flag{{Name: "budget", Value: true}}
	for args, say := range map[string]string{
		"":                                 "there is no job; give a job file, or --name",
		"--bs=4k":                          "there is no job",
		"--name":                           "--name needs a value",
		"--name=":                          "--name needs a name",
		"--nmae=x":                         "the nearest is name",
		"--budgt=3ms":                      "there is no option budgt; the nearest is budget",
		"--name=a --iodepth":               "--iodepth needs a value",
		"--name=a --iodepth=":              "iodepth= has no value",
		"-name=a":                          "options have two dashes",
		"-":                                "/dev/stdin",
		"--name=a --output-format=terse":   "is not one of normal json json+",
		"--name=a --eta=never":             "fio's option eta is not supported: use --status-interval",
		"--name=a --minimal":               "use --output-format",
		"--name=a --status-interval=1ms":   "at least 100ms",
		"--name=a --rw=write --readonly":   "--readonly forbids it",
		"/no/such/file.fio":                "/no/such/file.fio: no such file or directory",
		"--name=a --output=":               "--output needs a value",
		"--name=a --section=b":             "there is no job",
		"--name=a -- --name=b":             "options have two dashes",
		"--name=a --bs=4k --ioengine=mmap": "mmap is an engine of fio",
	} {
		_, err := job.Parse(strings.Fields(args), own)
		if err == nil || !strings.Contains(err.Error(), say) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", args, err, say)
		}
	}
}

// TestIncludeLoop: a file that includes itself is refused, at the bound.
func TestIncludeLoop(t *testing.T) {
	path := fileWith(t, "[a]\ninclude test.fio\n")
	loop := filepath.Join(filepath.Dir(path), "loop.inc")
	_, err := job.Parse([]string{path}, nil)
	if err == nil || !strings.Contains(err.Error(), "an included file has options only") {
		t.Errorf("a file with sections is included: %v", err)
	}
	writeFile(t, loop, "include loop.inc\n")
	writeFile(t, path, "[a]\ninclude loop.inc\n")
	if _, err := job.Parse([]string{path}, nil); err == nil || !strings.Contains(err.Error(), "include one another") {
		t.Errorf("a loop: %v", err)
	}
}

// TestIncludesAreBounded: files that include one another many times over end in an
// error, not in a wait.
func TestIncludesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 16 {
		name, text := fmt.Sprintf("%d.inc", i), strings.Repeat(fmt.Sprintf("include %s/%d.inc\n", dir, i+1), 8)
		switch i {
		case 0:
			name, text = "a.fio", "[a]\n"+text
		case 15:
			text = ""
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := job.Parse([]string{filepath.Join(dir, "a.fio")}, nil); err == nil || !strings.Contains(err.Error(), "files are included") {
		t.Error(err)
	}
}

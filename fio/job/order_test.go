package job_test

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/job"
)

// TestOrder: stonewall, new_group and wait_for become numbers as in fio.
func TestOrder(t *testing.T) {
	first := fileWith(t, "[a]\nstonewall\n[b]\n[c]\nstonewall\n[d]\nnew_group\nwait_for=b\n[e]\nstonewall=0\n")
	second := filepath.Join(filepath.Dir(first), "second.fio")
	writeFile(t, second, "[f]\n[g]\n")
	run, err := job.Parse([]string{"--name=z", first, second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range run.Jobs {
		got = append(got, fmt.Sprintf("%s:%d/%d/%d", j.Name, j.Phase, j.Group, j.WaitFor))
	}
	const want = "z:0/0/-1 a:1/1/-1 b:1/1/-1 c:2/2/-1 d:2/3/2 e:2/3/-1 f:3/4/-1 g:3/4/-1"
	if strings.Join(got, " ") != want {
		t.Errorf("name:phase/group/waitfor\n got %s\nwant %s", strings.Join(got, " "), want)
	}
}

// TestGlobals: [global] holds from its place on, is added to, and ends with its
// file; what stands before the first --name reaches the first file too.
func TestGlobals(t *testing.T) {
	first := fileWith(t, "[a]\n[global]\nrw=write\nbs=8k\n[b]\nbs=16k\n[global]\niodepth=2\n[c]\n")
	second := filepath.Join(filepath.Dir(first), "second.fio")
	writeFile(t, second, "[d]\n")
	run, err := job.Parse([]string{"--bs=32k", "--name=x", "--iodepth=7", "--name", "y", first, second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range run.Jobs {
		got = append(got, fmt.Sprintf("%s:%t/%d/%d", j.Name, j.Writes, j.Blocks[job.Read].MinBytes/1024, j.IODepth))
	}
	const want = "x:false/32/7 y:false/32/1 a:false/32/1 b:true/16/1 c:true/8/2 d:false/4/1"
	if strings.Join(got, " ") != want {
		t.Errorf("name:writes/KiB/iodepth\n got %s\nwant %s", strings.Join(got, " "), want)
	}
	if want := []job.Setting{{Name: "bs", Value: "32k"}, {Name: "rw", Value: "write"}, {Name: "bs", Value: "8k"}, {Name: "iodepth", Value: "2"}}; !reflect.DeepEqual(run.Global, want) {
		t.Errorf("global options %v", run.Global)
	}
	if want := []job.Setting{{Name: "bs", Value: "16k"}}; !reflect.DeepEqual(run.Jobs[3].Settings, want) {
		t.Errorf("options of b: %v", run.Jobs[3].Settings)
	}
}

// TestBeaten: an option of the command line that a file overrules is noted once; one that
// the file repeats or leaves out is not.
func TestBeaten(t *testing.T) {
	file := fileWith(t, "[global]\nblocksize=512k\niodepth=4\n[a]\nrw=randread\n[b]\nsize=1g\n")
	run, err := job.Parse([]string{"--bs=2m", file, "--iodepth=4", "--numjobs=2", "--readonly"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Notes) != 1 || run.Jobs[0].NumJobs != 2 {
		t.Fatalf("notes %q, %d workers; want one note, 2 workers", run.Notes, run.Jobs[0].NumJobs)
	}
	want := "command line: --bs=2m does not reach job a: blocksize=512k at " + file + ":2 rules"
	if !strings.HasPrefix(run.Notes[0], want) {
		t.Errorf("%q, want %q", run.Notes[0], want)
	}
	own, err := job.Parse([]string{"--bs=2m", "--name=a", "--bs=4m"}, nil)
	if err != nil || len(own.Notes) > 0 {
		t.Errorf("%q, %v; of the command line alone nothing is to be noted", own.Notes, err)
	}
}

// TestFile: comments, space, aliases, includes, variables, keywords.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.fio":      "; a comment\n# another\n\n[global]\n  blocksize = 8k ; here too\n\tinclude sub/more.inc\n[a job]\r\nsize=${MY_SIZE}m\nnumjobs=$ncpus\ntime_based\nruntime = 2m # so long\n",
		"sub/more.inc":  "rw=randread\ninclude other.inc\n",
		"sub/other.inc": "iodepth=3\n",
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	t.Setenv("MY_SIZE", "3")
	run, err := job.Parse([]string{filepath.Join(dir, "main.fio")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := run.Jobs[0]
	if j.Name != "a job" || j.Line != 7 || j.Blocks[job.Read].MinBytes != 8192 || j.IODepth != 3 || !j.Random || j.Size.Bytes != 3<<20 || j.NumJobs < 1 || !j.TimeBased || j.Runtime != 2*time.Minute {
		t.Errorf("%+v", j)
	}
	if want := (job.Setting{Name: "size", Value: "3m"}); j.Settings[0] != want {
		t.Errorf("settings %v", j.Settings)
	}
}

// TestRunOptions: those of the run, those of the caller, in any order between jobs.
func TestRunOptions(t *testing.T) {
	run, err := job.Parse([]string{"--output-format=json+,normal,json+", "--name=a", "--budget", "12ms", "--rw", "randread", "--output", "f", "--section=a", "--section=c",
		"--status-interval=500ms", "--quick", "--name=b", "--name=c", "--readonly"}, []job.Flag{{Name: "budget", Value: true}, {Name: "quick"}})
	if err != nil {
		t.Fatal(err)
	}
	o := run.Options
	if !reflect.DeepEqual(o.Formats, []job.Format{job.FormatJSONPlus, job.FormatNormal}) || o.Output != "f" || o.StatusInterval != 500*time.Millisecond || !o.Readonly {
		t.Errorf("%+v", o)
	}
	if !reflect.DeepEqual(run.Own, []string{"--budget=12ms", "--quick"}) {
		t.Errorf("the caller's: %q", run.Own)
	}
	if len(run.Jobs) != 2 || run.Jobs[0].Name != "a" || !run.Jobs[0].Random || run.Jobs[1].Name != "c" || run.Jobs[1].Index != 1 {
		t.Errorf("jobs %+v", run.Jobs)
	}
}

// TestCommandLine: a run written as a command line reads back as the same jobs.
func TestCommandLine(t *testing.T) {
	run := parseText(t, "[global]\nbs=8k\n[a]\nrw=randrw\ndescription=it's 'quoted'\n[b]\nstonewall\nnew_group\n")
	line := run.CommandLine()
	if want := `spillway fio --name=a --bs=8k --rw=randrw '--description=it'\''s '\''quoted'\''' --name=b --bs=8k --stonewall --new_group`; line != want {
		t.Errorf(" got %s\nwant %s", line, want)
	}
}

// flat is text without its line breaks.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestHelp: every option is explained, alone and among all; one that is not there is
// an error.
func TestHelp(t *testing.T) {
	run, err := job.Parse([]string{"--cmdhelp=bs"}, nil)
	if err != nil || run.Options.CommandHelp != "bs" {
		t.Fatalf("%+v, %v", run, err)
	}
	var all strings.Builder
	if err := job.Explain(&all, "all"); err != nil {
		t.Fatal(err)
	}
	for _, o := range job.Table() {
		var one strings.Builder
		if err := job.Explain(&one, o.Name); err != nil || !strings.Contains(flat(one.String()), flat(o.Help)) || !strings.Contains(flat(all.String()), flat(o.Help)) {
			t.Errorf("%s: %v, %s", o.Name, err, one.String())
		}
	}
	for name, say := range map[string]string{"iodpth": "the nearest is iodepth", "zonemode": "not supported"} {
		if err := job.Explain(io.Discard, name); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

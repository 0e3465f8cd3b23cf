package job

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

// FuzzFile reads any text as a job file: no panic, one error of one line, or jobs
// that hold what a Job promises and survive being written as a command line.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"[global]\nrw=randread\nbs=64k\n[a]\niodepth=4\n[b]\nstonewall\nnumjobs=2\n",
		"[a]\nbssplit=4k/50:8k/,16k\nrw=rw:4k\nrwmixwrite=30\nrate=1m,\n",
		"[a]\nrw=randrw\nrandom_distribution=zoned:60/10:40/90\npercentile_list=99.9:50\n",
		"[a]\nrw=randread\nrandom_distribution=pareto:.3:1\nstartdelay=1-500ms\n",
		"[a]\nsteadystate=bw_slope:0.3%\nss_dur=1m\nruntime=1h\ntime_based\n",
		"[a]\nioengine=pool\nsocket=/s\nchat=4\nkv_model=${X}\n[b]\nwait_for=a\n",
		"[a]\nioengine=store\ndirectory=/d\\:e\ncapacity=0x10\nverify=xxhash\ncontinue_on_error=verify\n",
		"include x\n[a", "[a]\ninclude self\n", "[a]\nbs=1.5GiB # c\n", "[]", "[a]\n=\n", "[a]\nbs=${}\n", "[a]\nsize=1%\noffset=99%\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := reader{
			open: func(path string) ([]byte, error) {
				switch path {
				case "job":
					return []byte(text), nil
				case "self":
					return []byte("include self\n"), nil
				}
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			},
			getenv: func(name string) (string, bool) { return "v", name == "X" },
		}
		run, err := parse([]string{"job"}, nil, r)
		if err != nil {
			if placed, ok := errors.AsType[*Error](err); !ok || placed.Place.File == "" || run != nil {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		for i := range run.Jobs {
			checkPromises(t, &run.Jobs[i], i)
		}
		checkCommand(t, run, r)
	})
}

// checkPromises holds a job to the comments of its fields.
func checkPromises(t *testing.T, j *Job, index int) {
	t.Helper()
	good := j.Index == index && j.NumJobs >= 1 && j.IODepth >= 1 && j.SequentialRun >= 1 && j.ThinkBlocks >= 1 && j.Namespaces >= 1 &&
		j.BlockTokens >= 1 && (j.Reads || j.Writes) && j.WaitFor < index && j.ReadPercent >= 0 && j.ReadPercent <= 100 && len(j.Percentiles) > 0 &&
		j.StartDelay[0] <= j.StartDelay[1] && (!j.TimeBased || j.Runtime > 0)
	for _, b := range j.Blocks {
		sum := 0.0
		for _, s := range b.Split {
			sum += s.Percent
		}
		good = good && b.MinBytes >= 1 && b.MinBytes <= b.MaxBytes && b.AlignBytes >= 1 && (b.Split == nil || sum > 99.99 && sum < 100.01)
	}
	if !good {
		t.Fatalf("%+v", j)
	}
}

// checkCommand reads the jobs back from their command line, unless they need quotes.
func checkCommand(t *testing.T, run *Run, r reader) {
	t.Helper()
	line := run.CommandLine()
	if strings.ContainsAny(line, "'\n\r\t\v\f") || strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
		return
	}
	again, err := parse(strings.Split(line, " ")[2:], nil, r)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for i, j := range again.Jobs {
		was := run.Jobs[i]
		was.File, was.Line, was.Settings, was.effective, was.walled = j.File, j.Line, j.Settings, j.effective, j.walled
		if !reflect.DeepEqual(was, j) {
			t.Fatalf("%s\n got %+v\nwant %+v", line, j, was)
		}
	}
}

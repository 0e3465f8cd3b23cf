package job_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/fio/job"
)

// realFio runs fio, or skips where there is none.
func realFio(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("fio is not installed")
	}
	out, err := exec.Command("fio", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("fio %q: %v\n%s", args, err, out)
	}
	return string(out)
}

var (
	handled = regexp.MustCompile(`handle_option=([^,]+), ptr=(.*)$`)
	gives   = regexp.MustCompile(`ret=0, out=(\d+)$`)
)

// TestFioMeaning gives fio's own parser all values that have a number of fio's beside
// them, one job each, and compares what it makes of them. TestOptions holds our side
// to the same cases.
func TestFioMeaning(t *testing.T) {
	var file strings.Builder
	var compared []optionCase
	for _, c := range optionCases {
		if c.fio != "" {
			compared = append(compared, c)
			fmt.Fprintf(&file, "[c%d]\n%s\n", len(compared), c.line())
		}
	}
	out := realFio(t, "--debug=parse", "--parse-only", fileWith(t, file.String()))
	var got []string // "option=value: numbers" in order
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if m := handled.FindStringSubmatch(line); m != nil && !strings.Contains(line, "__handle_option") {
			got = append(got, m[1]+"="+m[2]+":")
		} else if m := gives.FindStringSubmatch(line); m != nil && len(got) > 0 {
			got[len(got)-1] += " " + m[1]
		}
	}
	for _, c := range compared {
		value := c.value
		if value == "" {
			value = "(null)"
		}
		if want := c.option + "=" + value + ": " + c.fio; !slices.Contains(got, want) {
			t.Errorf("%s: fio does not make %s of it", c.line(), c.fio)
		}
	}
	if len(compared) < 50 {
		t.Errorf("only %d values compared", len(compared))
	}
}

// TestFioAccepts: fio takes every option and value of the cases that are not ours
// alone, a newer fio's excepted.
func TestFioAccepts(t *testing.T) {
	ours := map[string]bool{"steadystate_check_interval": true} // since fio 3.37
	for _, o := range job.Table() {
		ours[o.Name] = ours[o.Name] || o.Ours
	}
	var file strings.Builder
	file.WriteString("[first]\n")
	for i, c := range optionCases {
		own := ours[c.option] || c.option == "ioengine" && !slices.Contains([]string{"psync", "io_uring", "null"}, c.value)
		ring := c.option == "fixedbufs" || c.option == "registerfiles"
		if own || strings.Contains(c.with, "chat") || strings.Contains(c.with, "ioengine=store") {
			continue
		}
		fmt.Fprintf(&file, "[c%d]\n", i)
		if ring {
			file.WriteString("ioengine=io_uring\n")
		}
		fmt.Fprintf(&file, "%s\n%s\n", c.line(), strings.ReplaceAll(c.with, "ioengine=pool", ""))
	}
	realFio(t, "--parse-only", fileWith(t, file.String()))
}

// TestFioOptions: every option that this fio has is in the table or refused with a
// reason, and none is both.
func TestFioOptions(t *testing.T) {
	out := realFio(t, "--cmdhelp=all")
	seen := 0
	for line := range strings.Lines(out) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimSuffix(name, ":")
		if !ok || name == "name" {
			continue
		}
		seen++
		inTable := slices.ContainsFunc(job.Table(), func(o job.Option) bool { return o.Name == name || slices.Contains(o.Aliases, name) })
		why, refused := job.Refused()[name]
		if inTable == refused || refused && why == "" {
			t.Errorf("%s: in the table %t, refused %t", name, inTable, refused)
		}
	}
	if seen < 150 {
		t.Errorf("fio lists %d options only", seen)
	}
}

// TestFioDefaults compares the defaults of the table with fio's.
func TestFioDefaults(t *testing.T) {
	same := regexp.MustCompile(`(?m)^ *default: (.*)$`)
	for _, name := range []string{"rw", "bs", "iodepth", "numjobs", "rwmixread", "rwmixwrite", "randrepeat", "randseed", "rate_process", "io_submit_mode", "random_distribution",
		"clat_percentiles", "lat_percentiles", "slat_percentiles", "percentile_list", "verify", "do_verify", "continue_on_error", "steadystate", "thinktime", "startdelay", "thinktime_blocks"} {
		m := same.FindStringSubmatch(realFio(t, "--cmdhelp="+name))
		i := slices.IndexFunc(job.Table(), func(o job.Option) bool { return o.Name == name })
		if m == nil || job.Table()[i].Default != m[1] {
			t.Errorf("%s: ours %q, fio's %q", name, job.Table()[i].Default, m)
		}
	}
}

// TestFioCommand: fio reads a job file as the same list of options, job by job. Only
// fio names a stonewall between two files nowhere, and it writes all settings of
// [global] again and again.
func TestFioCommand(t *testing.T) {
	main := fileWith(t, "; comment\n[global]\nbs=8k ; here\ninclude more.inc\n[a]\niodepth=4\ntime_based\nruntime=5\n[global]\nrw=randread\n[b]\nsize=${SPILLWAY_SIZE}m\nblocksize_range=4k-8k\n[b]\nstonewall # barrier\n")
	writeFile(t, filepath.Join(filepath.Dir(main), "more.inc"), "direct=1\nfilename=/tmp/a:/tmp/b\n")
	t.Setenv("SPILLWAY_SIZE", "7")
	out := realFio(t, "--showcmd", main)
	run, err := job.Parse([]string{main}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimPrefix(run.CommandLine(), "spillway fio "), "--name=")[1:]
	for i, words := range got {
		got[i] = sorted(words)
	}
	// fio writes what [global] adds behind the job before it.
	fios := strings.Split(strings.TrimSpace(out), "--name=")
	globals := strings.TrimSpace(strings.TrimPrefix(fios[0], "fio"))
	for i, words := range fios[1:] {
		j := run.Jobs[i]
		own := len(j.Settings) + 1
		all := strings.Fields(words)
		want := sorted(all[0] + " " + globals + " " + strings.Join(all[1:own], " "))
		if want = strings.ReplaceAll(want, "--blocksize_range", "--bsrange"); got[i] != want {
			t.Errorf("job %d\n got %s\nwant %s", i, got[i], want)
		}
		if rest := strings.Join(all[own:], " "); rest != "" {
			globals = rest
		}
	}
	if len(got) != 3 || len(fios) != 4 {
		t.Errorf("%d jobs, fio has %d", len(got), len(fios)-1)
	}
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

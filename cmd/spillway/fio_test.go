package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSweepFiles: all depths of a sweep read the file that was laid out for the first, under
// the name that the job gives it.
func TestSweepFiles(t *testing.T) {
	dir := t.TempDir()
	o := process{t: t}.run("fio", "--name=read", "--directory="+dir, "--rw=randread", "--direct=0", "--size=1MiB", "--bs=64KiB", "--number_ios=10",
		"--sweep=iodepth=1,2,4", "--budget=1h")
	o.want(t, exitCannotJudge, "read iodepth=4: ", "")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "read.0.0" {
		t.Errorf("%v, %v; want the one file read.0.0", files, err)
	}
	if n := strings.Count(o.stdout, "IOPS="); n < 3 {
		t.Errorf("%d of 3 depths in\n%s", n, o.stdout)
	}
}

// TestParseOnly: what is good is said to be, with what to know beside; nothing runs.
func TestParseOnly(t *testing.T) {
	file := write(t, "two.fio", "[global]\nioengine=null\nsize=1m\nbs=4k\n[a]\n[b]\n")
	process{t: t}.run("fio", file, "--bs=8k", "--parse-only").want(t, exitPass, "", "2 jobs, no mistake found")
	process{t: t}.run("fio", file, "--bs=8k", "--parse-only").want(t, exitPass, "", "--bs=8k does not reach job a: bs=4k at "+file+":4 rules")
}

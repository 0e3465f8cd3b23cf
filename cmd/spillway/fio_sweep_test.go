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

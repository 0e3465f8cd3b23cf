package system

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// names lists what is in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestFioLeavesNothing: a job that is refused leaves no file, inside its directory or
// beside it, and a document that says the same as the exit code.
func TestFioLeavesNothing(t *testing.T) {
	dir := fioDir(t)
	inside := filepath.Join(dir, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"a name that leaves the directory", exitUsage, []string{"--name=../a", "--directory=" + inside, "--size=1M", "--rw=write"}},
		{"more than the file system has", exitError, []string{"--name=a", "--directory=" + inside, "--size=1000000T", "--rw=write"}},
		{"more than that, all workers together", exitError, []string{"--name=a", "--directory=" + inside, "--size=1000T", "--numjobs=1000", "--rw=randread"}},
		{"a length that no file has", exitError, []string{"--name=a", "--directory=" + inside, "--size=8000000T", "--rw=write"}},
		{"too many in flight", exitError, []string{"--name=a", "--ioengine=null", "--numjobs=4096", "--iodepth=65536", "--bs=1", "--size=1M", "--rw=read"}},
		{"too much memory", exitError, []string{"--name=a", "--directory=" + inside, "--numjobs=1000", "--iodepth=64", "--bs=64M", "--size=64M", "--rw=read"}},
		{"a page that cannot be written", exitError, []string{"--name=a", "--ioengine=null", "--size=1M", "--rw=read", "--report=" + inside}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fioJSON(t, c.code, c.args...)
			if after := names(t, dir); !slices.Equal(after, before) {
				t.Errorf("beside it: %v, were %v", after, before)
			}
			if left := names(t, inside); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestFioKeepsOutOfStores: raw neither writes a store's files nor adds to them.
func TestFioKeepsOutOfStores(t *testing.T) {
	dir := filepath.Join(fioDir(t), "store")
	fioJSON(t, exitPass, "--ioengine=store", "--directory="+dir, "--size=1M", "--bs=16k", "--name=w", "--rw=write")
	before := names(t, dir)
	for _, file := range append(slices.Clone(before), "new") {
		if file == "index" {
			continue
		}
		for _, rw := range []string{"write", "randread"} {
			if rw == "randread" && file != "new" {
				continue // a file that is there may be read
			}
			o := run(t, nil, "fio", "--json", "--name=a", "--filename="+filepath.Join(dir, file), "--size=1M", "--rw="+rw).want(t, exitError)
			decodeFio(t, o)
		}
	}
	if after := names(t, dir); !slices.Equal(after, before) {
		t.Errorf("the store has %v, had %v", after, before)
	}
	run(t, nil, "check", "--dir="+dir).want(t, exitPass)
}

// TestFioStirsWhatItRead: what a job without verify writes, from memory that it read
// into before, is not taken for damage by a job that verifies.
func TestFioStirsWhatItRead(t *testing.T) {
	dir := fioDir(t)
	common := []string{"--directory=" + dir, "--filename=file", "--size=1M", "--bs=16k"}
	fioJSON(t, exitPass, append(common, "--name=w", "--rw=write", "--verify=pattern")...)
	fioJSON(t, exitPass, append(common, "--name=m", "--rw=randrw", "--number_ios=256", "--norandommap=1")...)
	d := fioJSON(t, exitPass, append(common, "--name=r", "--rw=read", "--verify=pattern", "--continue_on_error=verify")...)
	if r := d.Jobs[0].Spillway.Read; r.Damaged != 0 || r.Unverified == 0 {
		t.Errorf("%d damaged, %d unverified", r.Damaged, r.Unverified)
	}
}

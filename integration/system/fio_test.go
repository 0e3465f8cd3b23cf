package system

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/result"
)

// Exit codes of a verdict.
const (
	exitOverBudget  = 3
	exitCannotJudge = 4
)

// fioDir is a directory with direct I/O, as fio is to be used.
func fioDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	o := run(t, nil, "fio", "--name=probe", "--directory="+dir, "--size=64k", "--rw=write", "--bs=4k")
	if strings.Contains(o.stderr, "direct I/O") {
		t.Skip(o.stderr)
	}
	o.want(t, exitPass)
	return dir
}

// fioJSON runs spillway fio and decodes what must be one document on standard
// output, and says how it ended there too.
func fioJSON(t *testing.T, code int, args ...string) *result.Document {
	t.Helper()
	return decodeFio(t, run(t, nil, append([]string{"fio", "--json"}, args...)...).want(t, code))
}

func decodeFio(t *testing.T, o outcome) *result.Document {
	t.Helper()
	if !json.Valid([]byte(o.stdout)) {
		t.Fatalf("standard output is not one JSON document:\n%s\n%s", o.stdout, o.stderr)
	}
	d, err := result.ReadJSON([]byte(o.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if d.Spillway == nil || d.Spillway.ExitCode != o.code {
		t.Errorf("the document does not have exit code %d: %+v", o.code, d.Spillway)
	}
	return d
}

// TestFioExitCodes: each way to end has its exit code, and a document.
func TestFioExitCodes(t *testing.T) {
	dir := fioDir(t)
	for _, engine := range []string{"raw", "psync", "store"} {
		t.Run(engine, func(t *testing.T) {
			common := []string{"--ioengine=" + engine, "--directory=" + filepath.Join(dir, engine), "--size=16M", "--bs=16k", "--name=fill", "--rw=write"}
			if engine != "store" {
				common = append(common, "--filename=file")
				if err := os.Mkdir(filepath.Join(dir, engine), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			read := append(append([]string{}, common...), "--name=read", "--stonewall", "--rw=randread", "--norandommap=1", "--iodepth=4")
			if engine != "store" {
				read = append(read, "--filename=file")
			}
			fioJSON(t, exitPass, append(read, "--number_ios=1000", "--budget=1h")...)
			fioJSON(t, exitOverBudget, append(read, "--number_ios=1000", "--budget=1us")...)
			d := fioJSON(t, exitCannotJudge, append(read, "--number_ios=200", "--budget=1h")...)
			if v := d.Spillway.Verdict; v == nil || v.Samples != 200 || v.P99NS == nil {
				t.Errorf("verdict %+v", v)
			}
		})
	}
	fioJSON(t, exitUsage, "--name=a", "--iodepht=4")
	fioJSON(t, exitUsage, "--name=a", "--ioengine=null", "--budget=soon")
	fioJSON(t, exitError, "--name=a", "--filename="+filepath.Join(dir, "missing"), "--rw=read")
	if _, err := os.Stat(filepath.Join(dir, "missing")); err == nil {
		t.Error("a read made the file")
	}
}

// TestFioDamage: flipped bytes end in damage, whatever the budget says.
func TestFioDamage(t *testing.T) {
	dir := fioDir(t)
	raw := []string{"--directory=" + dir, "--filename=file", "--size=1M", "--bs=16k", "--verify=crc32c"}
	fioJSON(t, exitPass, append(raw, "--name=w", "--rw=write")...)
	flip(t, filepath.Join(dir, "file"), 300_000)
	d := fioJSON(t, exitDamage, append(raw, "--name=r", "--rw=read", "--number_ios=2000", "--budget=1us", "--continue_on_error=verify")...)
	if n := d.Jobs[0].Spillway.Read.Damaged; n != 1 {
		t.Errorf("%d damaged reads, want 1", n)
	}

	storeDir := filepath.Join(dir, "store")
	store := []string{"--ioengine=store", "--directory=" + storeDir, "--size=1M", "--bs=16k"}
	fioJSON(t, exitPass, append(store, "--name=w", "--rw=write")...)
	segments, err := filepath.Glob(filepath.Join(storeDir, "seg-*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	for _, path := range segments {
		flip(t, path, 4096+100)
	}
	fioJSON(t, exitDamage, append(store, "--name=r", "--rw=read", "--continue_on_error=all")...)
}

// endless starts a job that reads for an hour, and returns once it has read for a
// while.
func endless(t *testing.T, args ...string) (cmd *exec.Cmd, wait func() outcome) {
	t.Helper()
	args = append([]string{"fio", "--output-format=json", "--time_based", "--runtime=1h", "--rw=randread"}, args...)
	cmd = exec.CommandContext(t.Context(), spillway, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(hangLimit)
	for !hasRead(cmd.Process.Pid) {
		if time.Now().After(limit) {
			t.Fatalf("it reads nothing: %s", stderr.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return cmd, func() outcome {
		killer := time.AfterFunc(hangLimit, func() { cmd.Process.Kill() })
		defer killer.Stop()
		cmd.Wait() // the exit code tells
		return outcome{args: args, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	}
}

// hasRead says whether a process has read a megabyte from a drive.
func hasRead(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "io"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(line, "read_bytes: "); ok {
			return len(strings.TrimSpace(n)) > 6
		}
	}
	return false
}

// TestFioInterrupted: at SIGINT and SIGTERM the statistics are printed.
func TestFioInterrupted(t *testing.T) {
	dir := fioDir(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd, wait := endless(t, "--name=r", "--directory="+dir, "--size=4M", "--bs=64k", "--iodepth=4", "--numjobs=2", "--budget=1h")
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		d := decodeFio(t, wait().want(t, exitError, "interrupted"))
		if d.Jobs[0].Read.IOs == 0 || d.Spillway.Error == "" {
			t.Errorf("%v: %d reads, error %q", signal, d.Jobs[0].Read.IOs, d.Spillway.Error)
		}
	}
}

// TestFioErrors: a medium that ends in the middle of a job is an error, and comes
// before the verdict.
func TestFioErrors(t *testing.T) {
	path := filepath.Join(fioDir(t), "file")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, wait := endless(t, "--name=r", "--filename="+path, "--bs=64k", "--budget=1us")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	d := decodeFio(t, wait().want(t, exitError))
	if j := d.Jobs[0]; j.Error == 0 || j.Spillway.Read.Failed == 0 || j.Read.IOs == 0 {
		t.Errorf("error %d, %d failed, %d reads", j.Error, j.Spillway.Read.Failed, j.Read.IOs)
	}
}

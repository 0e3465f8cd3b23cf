package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// holder is a spillway process that works on a store until it is told to end.
type holder struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// hold starts a replay on dir and returns when it holds the store.
func hold(t *testing.T, dir string) *holder {
	t.Helper()
	h := &holder{}
	h.cmd = exec.Command(spillway, onDir(dir, "replay", "--generate", "--for", "10m", "--speed", "50", "--json",
		"--capacity", "128MiB", "--block-bytes", "8KiB", "--quiet")...)
	h.cmd.Stdout, h.cmd.Stderr = &h.stdout, &h.stderr
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill() }) // it has ended unless the test failed
	want := fmt.Sprintf("pid %d (spillway)", h.cmd.Process.Pid)
	waitFor(t, "the store file", func() bool {
		_, err := os.Stat(filepath.Join(dir, "SPILLWAY"))
		text, _ := os.ReadFile(filepath.Join(dir, "LOCK")) // not there yet
		return err == nil && strings.Contains(string(text), want)
	})
	return h
}

// interrupt ends the holder as Ctrl-C does and returns its report.
func (h *holder) interrupt(t *testing.T) map[string]any {
	t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait() // the exit code tells
	if code := h.cmd.ProcessState.ExitCode(); code != exitError {
		t.Errorf("exit code %d after an interrupt, want %d: %s", code, exitError, h.stderr.String())
	}
	var v map[string]any
	if err := json.Unmarshal(h.stdout.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s%s", err, h.stdout.String(), h.stderr.String())
	}
	return v
}

// waitFor polls until something outside this process has happened.
func waitFor(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for limit := time.Now().Add(hangLimit); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("no %s in %v", what, hangLimit)
		}
	}
}

// TestSecondProcess: whichever way a second process reaches the directory, it
// is refused with the holder's name, and the holder goes on unharmed. When the
// holder is killed the store opens at once.
func TestSecondProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	h := hold(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	ways := map[string][]string{
		"directly":       onDir(dir, "stat"),
		"through a link": onDir(link, "get", "key"),
		"other settings": {"put", "--dir", dir, "--capacity", "64MiB", "--pad", "key"},
		"impatient":      onDir(dir, "stat", "--lock-wait", "1ms"),
		"another replay": onDir(dir, "replay", "--generate", "--requests", "1", "--quiet"),
	}
	if unmountable == "" {
		bound := t.TempDir()
		shell(t, "mount", "--bind", dir, bound)
		t.Cleanup(func() { shell(t, "umount", bound) })
		ways["a bind mount"] = onDir(bound, "stat")
	}
	outcomes := map[string]outcome{}
	var mu sync.Mutex
	var started sync.WaitGroup
	for name, args := range ways { // all at once: each retries for 5 s
		started.Go(func() {
			o, err := execute(t.Context(), []byte("data"), spillway, args...)
			mu.Lock()
			defer mu.Unlock()
			if outcomes[name] = o; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	started.Wait()
	for name, o := range outcomes {
		t.Log(name)
		o.want(t, exitError, "is in use by pid "+fmt.Sprint(h.cmd.Process.Pid)+" (spillway)", "--lock-wait")
	}
	report := h.interrupt(t)
	wantNumbers(t, report, "wrong_bytes", 0, "corrupt", 0, "dropped", 0, "read_errors", 0, "write_errors", 0)
	if report["requests"] == 0.0 {
		t.Error("the first process did nothing")
	}
	again := hold(t, dir)
	if err := again.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = again.cmd.Wait() // killed
	run(t, nil, onDir(dir, "stat")...).want(t, exitPass)
}

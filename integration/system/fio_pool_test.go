package system

import (
	"bytes"
	"os/exec"
	"testing"
	"time"
)

// startFio starts spillway fio and returns how to wait for its end.
func startFio(t *testing.T, args ...string) (cmd *exec.Cmd, wait func() outcome) {
	t.Helper()
	args = append([]string{"fio"}, args...)
	cmd = exec.CommandContext(t.Context(), spillway, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() outcome {
		killer := time.AfterFunc(hangLimit, func() { cmd.Process.Kill() })
		defer killer.Stop()
		cmd.Wait() // the exit code tells
		return outcome{args: args, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	}
}

// TestFioPool: what is put into a daemon comes back right, what was not is a miss, and
// chains are loaded and put.
func TestFioPool(t *testing.T) {
	d := newDaemon(t)
	d.start()
	pool := []string{"--ioengine=pool", "--socket=" + d.socket, "--bs=16k", "--verify=crc32c", "--iodepth=4", "--numjobs=2"}
	doc := fioJSON(t, exitPass, append(pool, "--name=w", "--rw=write", "--size=2M")...)
	if j := doc.Jobs[0]; j.Write.IOs != 128 || j.Read.IOs != 128 || j.Spillway.Read.Unverified != 0 {
		t.Errorf("%d writes, %d read back, %+v", j.Write.IOs, j.Read.IOs, j.Spillway.Read)
	}
	doc = fioJSON(t, exitPass, append(pool, "--name=r", "--rw=read", "--size=4M")...)
	if j := doc.Jobs[0]; j.Read.IOs != 128 || j.Spillway.Read.Missed != 128 || j.Read.Slat.N != 0 {
		t.Errorf("%d reads of %+v, %d submissions seen", j.Read.IOs, j.Spillway.Read, j.Read.Slat.N)
	}
	doc = fioJSON(t, exitPass, "--ioengine=pool", "--socket="+d.socket, "--name=chat", "--bs=4k", "--verify=crc32c", "--iodepth=100",
		"--chat=4", "--chat_think=0", "--number_ios=3000")
	j := doc.Jobs[0]
	if p := j.Spillway.Prefix; p == nil || p.Loads == 0 || p.Loaded > j.Read.IOs || j.Write.IOs == 0 || j.Spillway.Read.Unverified != 0 {
		t.Errorf("%d reads, %d writes, prefixes %+v", j.Read.IOs, j.Write.IOs, p)
	}
	d.stop()
}

// TestFioPoolKilled: a daemon that dies under the load is an error, told in the document.
func TestFioPoolKilled(t *testing.T) {
	d := newDaemon(t)
	d.start()
	_, wait := startFio(t, "--json", "--name=rw", "--ioengine=pool", "--socket="+d.socket, "--rw=randrw", "--bs=16k", "--size=4M", "--iodepth=4",
		"--norandommap=1", "--time_based", "--runtime=1h", "--budget=1h")
	c := d.dial(t)
	defer c.Close()
	for limit := time.Now().Add(hangLimit); ; time.Sleep(10 * time.Millisecond) {
		if st := d.stat(c); len(st.Stores) > 0 && st.Stores[0].Blocks > 50 {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the load puts nothing")
		}
	}
	d.kill()
	doc := decodeFio(t, wait().want(t, exitError))
	if j := doc.Jobs[0]; j.Error == 0 || j.Spillway.Read.Failed+j.Spillway.Write.Failed == 0 || j.Write.IOs == 0 {
		t.Errorf("error %d, read %+v, write %+v", j.Error, j.Spillway.Read, j.Spillway.Write)
	}
}

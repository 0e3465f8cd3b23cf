package system

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/result"
)

// TestFioPrefixVerdict: loads of whole prefixes are judged against computing them,
// with the exit codes of a verdict, and block reads are only reported then.
func TestFioPrefixVerdict(t *testing.T) {
	chat := []string{"--name=chat", "--ioengine=null", "--size=1G", "--bs=4k", "--iodepth=64", "--chat=8", "--chat_think=0"}
	for _, c := range []struct {
		ios     int
		prefill string
		code    int
		verdict fio.Judgement
		say     string
	}{
		{60_000, "1:1h", exitPass, fio.Pass, "lies under 1"},
		{60_000, "1k:1ns,8k:3ns", exitOverBudget, fio.Over, "lies over 1"},
		{2_000, "1:1h", exitCannotJudge, fio.CannotJudge, "too few"},
	} {
		d := fioJSON(t, c.code, append(chat, fmt.Sprintf("--number_ios=%d", c.ios), "--prefill="+c.prefill, "--budget=1us")...)
		g, p := d.Spillway.Loads, d.Jobs[0].Spillway.Prefix
		if g == nil || g.Verdict != c.verdict.String() || !strings.Contains(g.Reason, c.say) || p == nil || p.Compared == nil || p.Compared.Loads != g.Loads {
			t.Errorf("%+v: verdict %+v, prefixes %+v", c, g, p)
		}
		if v := d.Spillway.Verdict; v == nil || v.Verdict != result.NotJudged || v.P99NS == nil {
			t.Errorf("block reads %+v", v)
		}
	}
	// The roofline of a model and a GPU tells, too; without either, blocks are judged.
	d := fioJSON(t, exitCannotJudge, append(chat, "--number_ios=2000", "--model=Llama-3.1-8B", "--gpu=H100")...)
	if g := d.Spillway.Loads; g == nil || !strings.Contains(g.ComputeFrom, "Llama-3.1-8B") || g.Loads == 0 {
		t.Errorf("verdict %+v", g)
	}
	d = fioJSON(t, exitPass, "--name=chat", "--ioengine=null", "--size=1G", "--bs=4k", "--chat=8", "--chat_think=0", "--chat_rate=1000", "--number_ios=60000", "--budget=1h")
	if d.Spillway.Loads != nil || d.Spillway.Verdict == nil || d.Spillway.Estimate != nil {
		t.Errorf("%+v", d.Spillway)
	}
}

// TestFioSweep: each depth is a point, the largest one under the budget decides, and
// the page has it all and fetches nothing.
func TestFioSweep(t *testing.T) {
	dir := fioDir(t)
	page := filepath.Join(dir, "page.html")
	d := fioJSON(t, exitPass, "--directory="+dir, "--filename=file", "--size=4M", "--bs=16k", "--name=fill", "--rw=write", "--name=read", "--stonewall",
		"--rw=randread", "--norandommap=1", "--io_size=64M", "--number_ios=400", "--sweep=iodepth=1,2,4", "--budget=1h", "--report="+page)
	s := d.Spillway.Sweep
	if s == nil || len(s.Points) != 3 || s.DepthUnderBudget != 4 || s.Knee == 0 || s.Saturation == 0 {
		t.Fatalf("sweep %+v", s)
	}
	for i, p := range s.Points {
		if p.Depth != 1<<i || p.Samples != 400 || p.Verdict != fio.Pass.String() || p.IOPS <= 0 {
			t.Errorf("point %+v", p)
		}
	}
	if e := d.Spillway.Estimate; e == nil || !e.Swept || e.Drives != 1 {
		t.Errorf("estimate %+v", e)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!doctype html>", "At queue depth 4", "Throughput against depth", "read iodepth=2", "</html>"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if found := regexp.MustCompile(`(?:src|href)="[^d][^"]*"|url\(|@import|<script`).Find(html); found != nil {
		t.Errorf("the page fetches something: %s", found)
	}
}

// TestFioStatus: with JSON, states lie in the one document; the text begins as fio's does.
func TestFioStatus(t *testing.T) {
	job := []string{"--name=r", "--ioengine=null", "--size=1M", "--number_ios=10", "--rate_iops=10"}
	d := fioJSON(t, exitPass, append(job, "--status-interval=300ms")...)
	if all := d.Spillway.Status; len(all) < 2 || len(all[0].Jobs) != 1 || all[0].Jobs[0].Name != "r" || all[0].ElapsedMS >= all[1].ElapsedMS {
		t.Errorf("states %+v", all)
	}
	o := run(t, nil, append([]string{"fio"}, job...)...).want(t, exitPass)
	if !regexp.MustCompile(`^r: \(g=0\): rw=read, bs=.*, ioengine=null, iodepth=1\nspillway-.*\nStarting 1 thread\n\nr: \(groupid=0`).MatchString(o.stdout) {
		t.Errorf("it begins with:\n%.300s", o.stdout)
	}
}

// TestFioPrecondition: the file is written over before anything is measured. How long it
// takes until the rate is level is the drive's, so that the test does not wait for it.
func TestFioPrecondition(t *testing.T) {
	const fileBytes = 2 << 20
	dir := fioDir(t)
	cmd, wait := startFio(t, "--json", "--precondition", "--directory="+dir, "--filename=file", "--size=2M", "--bs=64k", "--name=r", "--rw=randread")
	for limit := time.Now().Add(hangLimit); writtenBytes(cmd.Process.Pid) < 3*fileBytes; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it writes nothing")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	d := decodeFio(t, wait().want(t, exitError, "interrupted"))
	if len(d.Jobs) != 0 {
		t.Errorf("%d entries: its writes are in the result", len(d.Jobs))
	}
	b, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil || len(b) != fileBytes {
		t.Fatal(len(b), err)
	}
	for at := 0; at < len(b); at += 4096 {
		if string(b[at:at+16]) == strings.Repeat("\x00", 16) {
			t.Fatalf("nothing was written at %d", at)
		}
	}
}

// writtenBytes is how much a process has written to drives.
func writtenBytes(pid int) (n int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		_, _ = fmt.Sscanf(line, "write_bytes: %d", &n)
	}
	return n
}

// TestFioKVIO: entries of MLPerf's I/O trace are written and read whole; those of other
// tiers are left out.
func TestFioKVIO(t *testing.T) {
	dir := fioDir(t)
	trace := filepath.Join(dir, "trace.csv")
	var lines strings.Builder
	lines.WriteString("Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n")
	for i := range 20 {
		fmt.Fprintf(&lines, "%d.5,Write,65536,Tier-2,entry-%d,Prefill\n", 1_700_000_000+i, i)
		fmt.Fprintf(&lines, "%d.6,Read,65536,Tier-2,entry-%d,Decode\n", 1_700_000_000+i, i)
		fmt.Fprintf(&lines, "%d.7,Read,65536,Tier-0,entry-%d,Decode\n", 1_700_000_000+i, i)
	}
	writeFile(t, trace, []byte(lines.String()))
	d := fioJSON(t, exitPass, "--ioengine=store", "--directory="+filepath.Join(dir, "store"), "--capacity=64M", "--bs=16k", "--verify=crc32c", "--name=t",
		"--trace="+trace, "--trace_format=mlperf", "--trace_speed=0", "--iodepth=4")
	j := d.Jobs[0]
	if j.Write.IOs != 80 || j.Read.IOs+j.Spillway.Read.Missed != 80 || d.Spillway.Loads != nil {
		t.Errorf("%d writes, %d reads, %+v", j.Write.IOs, j.Read.IOs, j.Spillway.Read)
	}
}

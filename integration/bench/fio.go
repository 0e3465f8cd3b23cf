package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spillway-kv/spillway/fio/spread"
	"github.com/spillway-kv/spillway/integration/bench/work"
)

func findFio() error {
	if _, err := exec.LookPath("fio"); err != nil {
		return errors.New("fio is not installed; install the package fio (apt-get install fio, dnf install fio)")
	}
	return nil
}

// plain is the file that fio works on: whole, written, synced.
func plain(dir string, sizeBytes int64) (path string, err error) {
	path = filepath.Join(dir, "plain")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	data := make([]byte, 1<<20)
	work.Scramble(data, 1)
	for written := int64(0); written < sizeBytes && err == nil; written += int64(len(data)) {
		data[0]++
		_, err = f.Write(data[:min(int64(len(data)), sizeBytes-written)])
	}
	return path, errors.Join(err, f.Sync(), f.Close())
}

// fioMemory gives fio what our side has: its allocator asks for huge pages (glibc
// 2.35). With io_uring its buffers and its file are registered too.
const fioMemory = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"

// fioRun is one run of fio, or of what takes fio's options and prints its JSON.
type fioRun struct {
	command    []string // of the one that runs; fio if empty
	file       string
	sizeBytes  int64
	engine     string // psync: one thread per call at once; io_uring: one queue; null of spillway fio
	rw         string // randread, randwrite, randrw with 70 % reads
	blockBytes int
	depth      int
	runtime    time.Duration
	seed       int
	operations int // stop after so many; 0: with the time
}

func (f *fioRun) args() []string {
	args := []string{"--name=bench"}
	if f.file != "" {
		args = append(args, "--filename="+f.file, "--direct=1")
	}
	args = append(args, fmt.Sprintf("--size=%d", f.sizeBytes), fmt.Sprintf("--bs=%d", f.blockBytes),
		"--rw="+f.rw, "--rwmixread=70", "--ioengine="+f.engine, "--thread", "--group_reporting", "--randrepeat=0", fmt.Sprintf("--randseed=%d", f.seed), "--norandommap",
		"--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99:99.9", "--output-format=json")
	switch f.engine {
	case "psync":
		args = append(args, fmt.Sprintf("--numjobs=%d", f.depth))
	case "io_uring":
		args = append(args, fmt.Sprintf("--iodepth=%d", f.depth), "--fixedbufs=1", "--registerfiles=1")
	default:
		args = append(args, fmt.Sprintf("--iodepth=%d", f.depth))
	}
	if f.operations > 0 {
		return append(args, fmt.Sprintf("--number_ios=%d", f.operations))
	}
	return append(args, "--time_based", fmt.Sprintf("--runtime=%d", f.runtime/time.Second))
}

type fioSide struct {
	IOPS    float64 `json:"iops"`
	Total   float64 `json:"total_ios"`
	Runtime float64 `json:"runtime"` // ms
	Latency struct {
		Percentile map[string]float64 `json:"percentile"`
	} `json:"lat_ns"`
}

// run runs fio. CPU time is the process's, less startup: what a run of one
// operation costs.
func (f *fioRun) run(ctx context.Context, startup float64) (s work.Sample, err error) {
	var stderr bytes.Buffer
	command := f.command
	if len(command) == 0 {
		command = []string{"fio"}
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], f.args()...)...)
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), fioMemory)
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("%v: %w: %s", cmd, err, stderr.String())
	}
	s, err = parseFio(out)
	if err != nil {
		return s, fmt.Errorf("%w: %s", err, stderr.String())
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.CPUSeconds = max(used.Seconds()-startup, 0)
	return s, nil
}

func parseFio(out []byte) (s work.Sample, err error) {
	var result struct {
		Jobs []struct{ Read, Write fioSide } `json:"jobs"`
	}
	start := bytes.IndexByte(out, '{') // warnings may stand before it
	if start < 0 {
		return s, fmt.Errorf("fio printed no JSON: %q", out)
	}
	if err := json.Unmarshal(out[start:], &result); err != nil {
		return s, fmt.Errorf("fio's JSON: %w", err)
	}
	if len(result.Jobs) != 1 || result.Jobs[0].Read.Total+result.Jobs[0].Write.Total == 0 {
		return s, fmt.Errorf("fio did nothing: %q", out)
	}
	read, write := result.Jobs[0].Read, result.Jobs[0].Write
	main := read
	if read.Total == 0 {
		main = write
	}
	s = work.Sample{Ops: read.Total + write.Total, Seconds: max(read.Runtime, write.Runtime) / 1000, IOPS: read.IOPS + write.IOPS,
		P50NS: main.Latency.Percentile["50.000000"], P99NS: main.Latency.Percentile["99.000000"], P999NS: main.Latency.Percentile["99.900000"]}
	if read.Total > 0 && write.Total > 0 {
		s.Values = map[string]float64{"read_iops": read.IOPS, "write_iops": write.IOPS, "write_p99_ns": write.Latency.Percentile["99.000000"]}
	}
	return s, nil
}

// startup is the CPU time of fio around its operations, all its threads and
// buffers included: the median of runs of one operation.
func startup(ctx context.Context, f fioRun) (float64, error) {
	f.operations = 1 // of each thread
	var all []float64
	for range 3 {
		s, err := f.run(ctx, 0)
		if err != nil {
			return 0, err
		}
		all = append(all, s.CPUSeconds)
	}
	return spread.Median(all), nil
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func findFio() error {
	if _, err := exec.LookPath("fio"); err != nil {
		return errors.New("fio is not installed; install the package fio (apt-get install fio, dnf install fio)")
	}
	return nil
}

// sample is what one run measured.
type sample struct {
	IOPS  float64 `json:"iops"`
	P50NS float64 `json:"p50_ns"`
	P99NS float64 `json:"p99_ns"`
}

// writeFile makes the plain file that fio reads: whole, written, synced.
func writeFile(dir string, sizeBytes int64) (path string, err error) {
	path = filepath.Join(dir, "plain")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	data := make([]byte, 1<<20)
	for written := int64(0); written < sizeBytes && err == nil; written += int64(len(data)) {
		fill(data, uint64(written))
		_, err = f.Write(data[:min(int64(len(data)), sizeBytes-written)])
	}
	return path, errors.Join(err, f.Sync(), f.Close())
}

// runFio reads whole blocks at random, past the page cache.
func runFio(c config, file, engine string, depth int, seed int) (sample, error) {
	args := []string{"--name=read", "--filename=" + file, fmt.Sprintf("--size=%d", c.sizeBytes), fmt.Sprintf("--bs=%d", c.blockBytes),
		"--rw=randread", "--direct=1", "--ioengine=" + engine, "--thread", "--group_reporting", "--time_based",
		fmt.Sprintf("--runtime=%d", c.runtime/time.Second), "--randrepeat=0", fmt.Sprintf("--randseed=%d", seed), "--norandommap", "--output-format=json"}
	if engine == "psync" { // one read at a time per thread
		args = append(args, fmt.Sprintf("--numjobs=%d", depth))
	} else {
		args = append(args, fmt.Sprintf("--iodepth=%d", depth))
	}
	var stderr bytes.Buffer
	cmd := exec.Command("fio", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("fio: %w: %s", err, stderr.String())
	}
	var result struct {
		Jobs []struct {
			Read struct {
				IOPS  float64 `json:"iops"`
				Total int     `json:"total_ios"`
				Clat  struct {
					Percentile map[string]float64 `json:"percentile"`
				} `json:"clat_ns"`
			} `json:"read"`
		} `json:"jobs"`
	}
	start := bytes.IndexByte(out, '{') // warnings may stand before it
	if start < 0 {
		return sample{}, fmt.Errorf("fio printed no JSON: %s", out)
	}
	if err := json.Unmarshal(out[start:], &result); err != nil {
		return sample{}, fmt.Errorf("fio's JSON: %w", err)
	}
	if len(result.Jobs) != 1 || result.Jobs[0].Read.Total == 0 {
		return sample{}, fmt.Errorf("fio read nothing: %s%s", out, stderr.String())
	}
	read := result.Jobs[0].Read
	return sample{read.IOPS, read.Clat.Percentile["50.000000"], read.Clat.Percentile["99.000000"]}, nil
}

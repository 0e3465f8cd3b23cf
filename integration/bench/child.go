package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/spillway-kv/spillway/integration/bench/work"
)

// childArg, as the only argument, makes this program do one job.
const childArg = "child-job"

// call does a job in a child process.
func call(ctx context.Context, j work.Job) (s work.Sample, err error) {
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return s, err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, childArg)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("child: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("child's answer %q: %w", out, err)
	}
	return s, nil
}

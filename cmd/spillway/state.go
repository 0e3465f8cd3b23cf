package main

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/doctor"
)

// state is everything a command takes from or gives to the process around it,
// so that tests run commands within their own process.
type state struct {
	args      []string // without the program's name
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	stdinTTY  bool
	stderrTTY bool
	now       func() time.Time
	// interrupt derives a context that ends when the user asks to stop; a second
	// request ends the process. stop undoes it.
	interrupt func(context.Context) (ctx context.Context, stop context.CancelFunc)
	buildInfo func() (*debug.BuildInfo, bool)
	machine   doctor.Machine // what doctor looks at
	gpus      gpuSources     // what gpu looks at
}

func processState() *state {
	return &state{
		args:      os.Args[1:],
		stdin:     os.Stdin,
		stdout:    os.Stdout,
		stderr:    os.Stderr,
		stdinTTY:  isTerminal(os.Stdin),
		stderrTTY: isTerminal(os.Stderr),
		now:       time.Now,
		interrupt: onSignal,
		buildInfo: debug.ReadBuildInfo,
		machine:   doctor.This(),
		gpus:      theseGPUs(),
	}
}

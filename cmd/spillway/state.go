package main

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
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
	stdoutTTY bool
	stderrTTY bool
	now       func() time.Time
	// interrupt derives a context that ends when the user asks to stop; a second
	// request ends the process. stop undoes it.
	interrupt func(context.Context) (ctx context.Context, stop context.CancelFunc)
	// hangups tells each time that the user asks to read configuration again. stop
	// undoes it.
	hangups   func() (asked <-chan struct{}, stop func())
	getenv    func(string) string
	buildInfo func() (*debug.BuildInfo, bool)
	machine   doctor.Machine // what doctor looks at
	gpus      gpuSources     // what gpu looks at
	fabric    fabric.Fabric  // the RDMA devices of daemons; nil: this machine's
}

func processState() *state {
	return &state{
		args:      os.Args[1:],
		stdin:     os.Stdin,
		stdout:    os.Stdout,
		stderr:    os.Stderr,
		stdinTTY:  isTerminal(os.Stdin),
		stdoutTTY: isTerminal(os.Stdout),
		stderrTTY: isTerminal(os.Stderr),
		now:       time.Now,
		interrupt: onSignal,
		hangups:   onHangup,
		getenv:    os.Getenv,
		buildInfo: debug.ReadBuildInfo,
		machine:   doctor.This(),
		gpus:      theseGPUs(),
	}
}

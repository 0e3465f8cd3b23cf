package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// endSignals end the benchmark; what it made goes first.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// settle waits until what was written below dir is on the drive, so that one
// run does not write into the next.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

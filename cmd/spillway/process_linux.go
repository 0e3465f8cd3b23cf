package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// onSignal ends the context at the first SIGINT or SIGTERM and gives the
// signals their ordinary, deadly meaning back.
func onSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// What the system says when there is no room or no leave to write.
var (
	errReadOnlyFS = error(syscall.EROFS)
	errFullFS     = error(syscall.ENOSPC)
	errDiskQuota  = error(syscall.EDQUOT)
)

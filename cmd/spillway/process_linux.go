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

// onHangup tells of each SIGHUP, of several at once perhaps only once.
func onHangup() (asked <-chan struct{}, stop func()) {
	signals, told, quit, ended := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				select {
				case told <- struct{}{}:
				default:
				}
			case <-quit:
				return
			}
		}
	}()
	return told, func() {
		signal.Stop(signals)
		close(quit)
		<-ended
	}
}

// What the system says when there is no room or no leave to write.
var (
	errReadOnlyFS = error(syscall.EROFS)
	errFullFS     = error(syscall.ENOSPC)
	errDiskQuota  = error(syscall.EDQUOT)
)

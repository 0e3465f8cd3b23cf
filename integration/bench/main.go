// Command bench measures one store against the bars of docs/benchmarks.md:
// against fio, against one file per block, and against itself at other sizes.
// Runs alternate, each in a process of its own, so that each ratio is of
// neighbours in time; fio against itself shows how far two equal runs lie apart
// on this drive.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/spillway-kv/spillway/integration/bench/work"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		end(work.Serve(context.Background(), os.Stdin, os.Stdout))
		return
	}
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		end(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), endSignals...)
	defer stop()
	end(run(ctx, c, os.Stdout))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Command loadgen keeps a store under load until it is killed, and tells every
// operation on standard output (package load has the lines).
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/integration/load"
)

func main() {
	var o engine.Options
	var c load.Config
	flag.StringVar(&o.Dir, "dir", "", "the store's directory")
	flag.Int64Var(&o.CapacityBytes, "capacity", 0, "capacity in bytes")
	flag.Int64Var(&o.SegmentBytes, "segment", 0, "segment size in bytes")
	flag.Uint64Var(&c.Seed, "seed", 1, "seed")
	flag.Uint64Var(&c.Base, "base", 0, "versions begin above this")
	flag.IntVar(&c.Workers, "workers", 4, "goroutines")
	flag.IntVar(&c.BlockBytes, "block", 64<<10, "bytes of a block")
	flag.IntVar(&c.KeysPerWorker, "keys", 64, "keys of a goroutine")
	flag.BoolVar(&c.Pressure, "pressure", false, "the keys do not fit")
	flag.Parse()
	o.BufferedIO, o.AnyFileSystem = true, true
	s, err := engine.Open(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		fmt.Println("E 0 0 0", err)
		return
	}
	load.Run(s, c, os.Stdout)
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
	}
}

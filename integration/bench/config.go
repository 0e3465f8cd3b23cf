package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/integration/bench/work"
)

// config is the command line, and what follows from -quick.
type config struct {
	dir      string
	json     string
	docs     string
	spillway string
	trace    string
	only     []string
	quick    bool
	tiny     bool
	pairs    int
	runtime  time.Duration
	depths   []int

	sizeBytes   int64 // read from, each of store, plain file and files
	ramBytes    int64 // of the drive in memory, for half of sizeBytes twice
	entries     int   // of the large index
	steps       []int // numbers of blocks at which memory is looked at
	replayBytes int64
}

func parse(args []string) (c config, err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	depths := set.String("depths", "1,16,32", "numbers of calls at once")
	mebibytes := set.Int64("size", 1024, "MiB that are read from, on each side")
	only := set.String("only", "", "items to run, separated by commas: "+strings.Join(itemNames(), ", "))
	set.StringVar(&c.dir, "dir", ".", "a folder on the drive; a temporary one in it is used")
	set.StringVar(&c.json, "json", "", "write the results to this file")
	set.StringVar(&c.docs, "docs", "", "write bench/latest.json, bench/*.svg and the tables of benchmarks.md in this folder; not with -quick")
	set.StringVar(&c.spillway, "spillway", "bin/spillway", "the binary, for the replay")
	set.StringVar(&c.trace, "trace", "", "the trace to replay; generated chats if empty")
	profiles := set.String("profiles", "", "write a CPU profile of each of our runs into this folder, for go tool pprof; slows them a little")
	set.BoolVar(&c.quick, "quick", false, "3 pairs, short runs, small sizes: shows that all works, proves nothing")
	set.BoolVar(&c.tiny, "tiny", false, "as -quick, with the smallest sizes and 1 pair")
	set.IntVar(&c.pairs, "pairs", 15, "rounds of each comparison")
	set.DurationVar(&c.runtime, "runtime", time.Second, "length of one run, in whole seconds")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	if *profiles != "" {
		folder, err := filepath.Abs(*profiles)
		if err != nil {
			return c, err
		}
		if err := os.Setenv(work.ProfileEnv, folder); err != nil { // for the children
			return c, err
		}
	}
	c.sizeBytes, c.entries, c.steps, c.replayBytes = *mebibytes<<20, 1_000_000, []int{1_000_000, 4_000_000}, 4<<30
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	c.shrink(given)
	c.ramBytes = 3*c.sizeBytes/2 + 256<<20
	for _, text := range strings.Split(*depths, ",") {
		depth, err := strconv.Atoi(text)
		if err != nil || depth < 1 || depth > 1024 {
			return c, fmt.Errorf("-depths: %q is not a number from 1 to 1024", text)
		}
		c.depths = append(c.depths, depth)
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
	}
	return c, c.check(set.Args())
}

// shrink applies -quick and -tiny to what was not given.
func (c *config) shrink(given map[string]bool) {
	if !c.quick && !c.tiny {
		return
	}
	pairs, size, entries := 3, int64(256<<20), 200_000
	if c.tiny {
		pairs, size, entries = 1, 64<<20, 20_000
	}
	if !given["pairs"] {
		c.pairs = pairs
	}
	if !given["size"] {
		c.sizeBytes = size
	}
	c.entries, c.steps, c.replayBytes = entries, []int{entries, 4 * entries}, 512<<20
	c.docs = ""
}

func (c *config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected %q; see -help", rest)
	case c.pairs < 1:
		return fmt.Errorf("-pairs %d: want at least 1", c.pairs)
	case c.runtime < time.Second || c.runtime%time.Second != 0:
		return fmt.Errorf("-runtime %v: fio knows whole seconds", c.runtime)
	case c.sizeBytes < 64<<20:
		return fmt.Errorf("-size %d: want at least 64 MiB", c.sizeBytes>>20)
	}
	for _, name := range c.only {
		if !slices.Contains(itemNames(), name) {
			return fmt.Errorf("-only %q: the items are %s", name, strings.Join(itemNames(), ", "))
		}
	}
	return nil
}

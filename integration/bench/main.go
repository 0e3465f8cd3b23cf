// Command bench compares block reads of the store with fio's reads of a plain
// file on the same file system. Runs alternate (store, fio, fio again), so that
// each ratio is of neighbours in time, and fio against itself shows how far two
// equal runs lie apart on this drive.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// config is the command line.
type config struct {
	dir        string
	json       string
	spillway   string
	sizeBytes  int64
	blockBytes int
	pairs      int
	runtime    time.Duration
	depths     []int
	engines    []string
}

func main() {
	c, err := parse()
	if err == nil {
		err = run(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() (c config, err error) {
	depths := flag.String("depths", "16,1", "numbers of reads at once")
	engines := flag.String("engines", "psync,io_uring", "fio's engines")
	mebibytes := flag.Int64("size", 1024, "MiB that are read from")
	kibibytes := flag.Int("block", 64, "KiB of a block")
	flag.StringVar(&c.dir, "dir", ".", "a folder on the drive; a temporary one in it is used")
	flag.StringVar(&c.json, "json", "", "also write the results to this file")
	flag.StringVar(&c.spillway, "spillway", "", "the binary, for the latencies of a replay; none if empty")
	flag.IntVar(&c.pairs, "pairs", 15, "rounds of each comparison")
	flag.DurationVar(&c.runtime, "runtime", 2*time.Second, "length of one run; fio knows whole seconds")
	flag.Parse()
	c.sizeBytes, c.blockBytes = *mebibytes<<20, *kibibytes<<10
	c.engines = strings.Split(*engines, ",")
	for _, text := range strings.Split(*depths, ",") {
		depth, err := strconv.Atoi(text)
		if err != nil || depth < 1 {
			return c, fmt.Errorf("depth %q is not a number above 0", text)
		}
		c.depths = append(c.depths, depth)
	}
	if flag.NArg() > 0 || c.pairs < 1 || c.runtime < time.Second || c.sizeBytes < int64(c.blockBytes) {
		return c, fmt.Errorf("see -help: %d pairs of %v, %d MiB in blocks of %d KiB, and %q", c.pairs, c.runtime, *mebibytes, *kibibytes, flag.Args())
	}
	return c, nil
}

// run prepares a file and a store of equal size, compares, and reports.
func run(c config) (err error) {
	if err := findFio(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.dir, ".demo-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(os.Stderr, "bench: writing %d MiB twice\n", c.sizeBytes>>20)
	file, err := writeFile(dir, c.sizeBytes)
	if err != nil {
		return err
	}
	s, err := newSubject(dir, c.sizeBytes, c.blockBytes)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := s.store.Close(); err == nil {
			err = closeErr
		}
	}()
	r := &report{Facts: factsOf(dir, s.store.Stat()), Config: shown(c)}
	for _, depth := range c.depths {
		for _, engine := range c.engines {
			p, err := compare(c, s, file, engine, depth)
			if err != nil {
				return err
			}
			r.Comparisons = append(r.Comparisons, p)
		}
	}
	if r.Replay, err = replay(c, dir); err != nil {
		return err
	}
	return r.write(c.json)
}

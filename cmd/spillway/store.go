package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spillway-kv/spillway/engine"
)

// The limits of a block, as the engine has them; checked before a store is made.
const (
	blockBytesMin = 4096
	blockBytesMax = 64 << 20
)

// storeFlags choose and open a store.
type storeFlags struct {
	Dir           string        `required:"" placeholder:"DIR" complete:"dir" help:"The store's directory; no other process may have it open."`
	BufferedIO    bool          `name:"buffered-io" help:"Allow buffered I/O where the file system has no direct I/O."`
	AnyFilesystem bool          `name:"any-filesystem" help:"Allow file systems other than ext4 and XFS."`
	LockWait      time.Duration `default:"5s" help:"How long to retry a directory in use."`
	IOEngine      string        `name:"ioengine" enum:"auto,uring,psync" default:"auto" placeholder:"NAME" help:"How transfers are made: auto, uring or psync."`
}

// createFlags are for the commands that make the store if there is none.
type createFlags struct {
	Capacity byteSize `placeholder:"SIZE" help:"Most the store may take on disk, everything counted; needed for a new store. For an old one it changes the capacity; a smaller one drops the coldest blocks."`
}

// check refuses a new store without a capacity; Open decides about the rest.
func (f *createFlags) check(dir string) error {
	if f.Capacity == 0 && isEmpty(dir) {
		return usagef("give --capacity, such as 100GiB", "%s holds no store yet, and a new one needs a capacity", dir)
	}
	return nil
}

// isEmpty says whether dir is missing or holds nothing.
func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

// options are the engine's. capacity 0 keeps what the store has.
func (f *storeFlags) options(st *state, asJSON bool) engine.Options {
	return engine.Options{
		Dir:       f.Dir,
		MustExist: true,
		// An operator's command must not use up what a rebuild needs.
		RefuseLostIndex: true,
		BufferedIO:      f.BufferedIO,
		AnyFileSystem:   f.AnyFilesystem,
		IOEngine:        f.IOEngine,
		LockWait:        max(f.LockWait, time.Nanosecond),
		Logger:          warnings(st.stderr, asJSON),
	}
}

// warnings logs what the user must know, in one line each.
func warnings(w io.Writer, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelWarn}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// withStore opens the store, runs work and closes the store whatever happens.
func withStore(o engine.Options, work func(*engine.Store) error) error {
	s, err := engine.Open(o)
	if err != nil {
		return err
	}
	err = work(s)
	if closeErr := s.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("closing the store: %w", closeErr))
	}
	return err
}

func checkBlockBytes(n int64) error {
	if n < blockBytesMin || n > blockBytesMax {
		return usagef("choose another size", "a block of %d bytes: a block holds %d to %d bytes", n, blockBytesMin, blockBytesMax)
	}
	return nil
}

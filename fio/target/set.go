package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/job"
)

// Options are those of a Set.
type Options struct {
	// Foreign allows targets that hold something else; they may be destroyed.
	Foreign bool
	// Progress is told, now and then, how far long work before the jobs is. May be
	// nil.
	Progress func(what string, doneBytes, totalBytes int64)
	// Logger receives the warnings of stores and clients. Default: discard.
	Logger *slog.Logger
}

// Set opens the targets of one run and keeps what several jobs share: a store
// can be open only once, and stays open between the jobs of a run. It belongs to
// one goroutine.
type Set struct {
	jobs   []job.Job
	o      Options
	stores map[string]*sharedStore
}

// NewSet makes a Set for the jobs of a run.
func NewSet(jobs []job.Job, o Options) *Set {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	return &Set{jobs: jobs, o: o, stores: map[string]*sharedStore{}}
}

// Open opens the target of one of the jobs. Errors match ErrJob, ErrForeign,
// fs.ErrNotExist, or are the target's.
func (s *Set) Open(ctx context.Context, j *job.Job) (Target, error) {
	e := EngineOf(j.Engine)
	if err := checkJob(e, j); err != nil {
		return nil, err
	}
	t, err := e.open(ctx, s, j)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.Name, err)
	}
	return t, nil
}

// Close closes what the jobs shared.
func (s *Set) Close() error {
	var all error
	for dir, shared := range s.stores {
		if err := shared.store.Close(); err != nil {
			all = errors.Join(all, fmt.Errorf("closing the store in %s: %w", dir, err))
		}
	}
	clear(s.stores)
	return all
}

// checkJob refuses what the engine does not know before anything is touched.
func checkJob(e Engine, j *job.Job) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("job %s: ioengine=%v %w: %s", j.Name, e.Kind, ErrJob, fmt.Sprintf(format, args...))
	}
	c := e.Caps
	switch {
	case j.Verify != job.CheckNone && !c.Moves:
		return bad("it moves no bytes that could be verified")
	case j.Directory == "" && c.Directory && !(c.Filenames && len(j.Filenames) > 0):
		return bad("it needs directory=")
	case len(j.Filenames) > 0 && !c.Filenames && c.Directory:
		return bad("it has no files to name; leave filename= out")
	case c.Keys && (j.Size.Percent > 0 || j.Offset.Percent > 0):
		return bad("shares of a target are for files; give size= and offset= in bytes")
	}
	return nil
}

// isStore says whether dir holds a store.
func isStore(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, engine.StoreFileName))
	return err == nil
}

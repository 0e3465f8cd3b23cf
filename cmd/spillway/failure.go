package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/cmd/spillway/replay"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// failure is an error as the user sees it: what is wrong, what to do, and how
// the process ends.
type failure struct {
	code    exitCode
	message string
	remedy  string // may be empty
	cause   error
}

func (f *failure) Error() string {
	if f.remedy == "" {
		return f.message
	}
	return f.message + "; " + f.remedy
}

func (f *failure) Unwrap() error { return f.cause }

// errorReport is the JSON of an error, on stderr.
type errorReport struct {
	Type    string `json:"type"`             // error
	Code    int    `json:"code"`             // the exit code
	Message string `json:"message"`          // what is wrong
	Remedy  string `json:"remedy,omitempty"` // what to do about it
}

// print writes one sentence, or one JSON object.
func (f *failure) print(w io.Writer, asJSON bool) {
	if !asJSON {
		fmt.Fprintln(w, "spillway: "+f.Error())
		return
	}
	// A stderr that cannot be written leaves nobody to tell.
	_ = json.NewEncoder(w).Encode(errorReport{"error", int(f.code), f.message, f.remedy})
}

// remedies gives each known cause its exit code and its remedy; the first that
// matches holds. Causes that are not listed end in exitError.
var remedies = []struct {
	cause  error
	code   exitCode
	remedy string
}{
	{engine.ErrConfig, exitUsage, "correct the option"},
	{node.ErrOptions, exitUsage, "correct the configuration"},
	{engine.ErrKey, exitUsage, "give a shorter or longer key"},
	{engine.ErrSize, exitUsage, "give exactly one block"},
	{engine.ErrNotAStore, exitError, "give the directory of a store; to make one, give an empty or a new directory with --capacity"},
	{engine.ErrVersion, exitError, "use the version of spillway that wrote it, or another directory"},
	{engine.ErrInUse, exitError, "stop that process, or wait for it (--lock-wait; lock_wait of a [[store]] in the daemon's configuration); a daemon tells what it has: spillway top, spillway ns hot --admin"},
	{engine.ErrNotFound, exitError, "spillway ns list shows the namespaces"},
	{engine.ErrCorrupt, exitDamage, "spillway check lists the damage and --rebuild makes a damaged index anew; else remove the directory: blocks can be computed again"},
	{engine.ErrIndexLost, exitDamage, "spillway check --rebuild makes a new index from what the segments hold; to give the blocks up, remove the directory"},
	{engine.ErrReadOnly, exitError, "look at the drive and at the system's log, then open the store again"},
	{engine.ErrSick, exitError, "look at the drive and at the system's log; a store in use goes on by itself when the drive is well"},
	{engine.ErrNoSpace, exitError, "free room on the file system, or give a --capacity and a quota that fit"},
	{errReadOnlyFS, exitError, "mount the file system for writing, or give another directory"},
	{errFullFS, exitError, "free room on the file system, or give a smaller size or capacity"},
	{errDiskQuota, exitError, "raise the user's disk quota, or give a smaller size or capacity"},
	{fs.ErrPermission, exitError, "run as a user who may write there, or give another directory"},
	{errors.ErrUnsupported, exitError, "the flags that allow it are --buffered-io and --any-filesystem"},
	{fs.ErrNotExist, exitError, "check the path"},
	{replay.ErrInterrupted, exitError, "the results cover what was done so far"},
}

// explain turns any error of a command into what the user sees.
func explain(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var inTrace *trace.Error
	if errors.As(err, &inTrace) {
		return &failure{code: exitError, message: err.Error(), remedy: "correct the trace: JSON lines in the Mooncake format, plain or zstd", cause: err}
	}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		return &failure{code: exitUsage, message: err.Error(), remedy: "docs/configuration.md lists every key", cause: err}
	}
	var socket *node.SocketError
	if errors.As(err, &socket) {
		return &failure{code: exitError, message: err.Error(), remedy: socket.Remedy, cause: err}
	}
	var path *fs.PathError
	if errors.As(err, &path) && path.Op == "mkdir" && errors.Is(err, fs.ErrNotExist) {
		return &failure{code: exitError, message: err.Error(), remedy: "check the path; the directory above a new store must be there", cause: err}
	}
	for _, r := range remedies {
		if errors.Is(err, r.cause) {
			return &failure{code: r.code, message: err.Error(), remedy: r.remedy, cause: err}
		}
	}
	return &failure{code: exitError, message: err.Error(), cause: err}
}

// gravest joins errors into one that ends with the exit code that comes first
// in exitTable; nil if all are nil.
func gravest(errs ...error) error {
	var f *failure
	for _, err := range errs {
		if err == nil {
			continue
		}
		next := explain(err)
		if f == nil {
			f = next
			continue
		}
		if next.code.rank() < f.code.rank() {
			f, next = next, f
		}
		f = &failure{code: f.code, message: f.message + "; " + next.message, remedy: f.remedy, cause: errors.Join(f.cause, next.cause)}
	}
	if f == nil {
		return nil
	}
	return f
}

// usagef is a failure of the command line that the parser cannot see.
func usagef(remedy, format string, args ...any) *failure {
	return &failure{code: exitUsage, message: fmt.Sprintf(format, args...), remedy: remedy}
}

package doctor

import (
	"strings"

	"github.com/spillway-kv/spillway/fio/units"
)

// Level is how grave a finding is.
type Level string

// The levels.
const (
	OK   Level = "ok"   // as a store wants it
	Warn Level = "warn" // a store works, slower or less safe
	Bad  Level = "bad"  // a store does not open here, or breaks its promises; or what the configuration asks for is not to be had
)

// Check is one finding.
type Check struct {
	Name   string `json:"check"`            // what was looked at
	Level  Level  `json:"level"`            // ok, warn or bad
	Found  string `json:"found"`            // what is there
	Means  string `json:"means"`            // what it means for a store
	Remedy string `json:"remedy,omitempty"` // the command that mends it; absent with ok
}

// Plan is what the user means to do with the directory.
type Plan struct {
	CapacityBytes int64     // of the store to come; 0: unknown
	RDMA          *RDMAPlan // nil: not to be used
}

// Examine judges the facts, in the order in which one would look.
func Examine(f *Facts, plan Plan) []Check {
	var all []Check
	for _, check := range []func(*Facts, Plan) []Check{
		directory, store, fileSystem, mountOptions, directIO, fileFeatures, space, openFiles,
		kernel, uring, lockedMemory, hugePages, drives, affinity, examineRDMA,
	} {
		all = append(all, check(f, plan)...)
	}
	return all
}

func one(name string, level Level, found, means, remedy string) []Check {
	return []Check{{name, level, found, means, remedy}}
}

// shell quotes a word for a shell where it must be.
func shell(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func limit(n uint64) string {
	if n == unlimited {
		return "unlimited"
	}
	return units.Bytes(int64(min(n, 1<<62)))
}

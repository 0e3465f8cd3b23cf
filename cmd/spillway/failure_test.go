package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// TestExplain: every cause a user can meet has its code and its remedy.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   exitCode
		remedy string
	}{
		{engine.ErrConfig, exitUsage, "option"},
		{engine.ErrNotAStore, exitError, "new directory"},
		{engine.ErrVersion, exitError, "version"},
		{engine.ErrInUse, exitError, "--lock-wait"},
		{engine.ErrReadOnly, exitError, "drive"},
		{engine.ErrNoSpace, exitError, "--capacity"},
		{engine.ErrCorrupt, exitDamage, "again"},
		{engine.ErrNotFound, exitError, "ns list"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, exitError, "mount"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOSPC}, exitError, "free room"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EDQUOT}, exitError, "quota"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, exitError, "write there"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, exitError, "path"},
		{errors.ErrUnsupported, exitError, "--buffered-io"},
		{&trace.Error{File: "f", Line: 3, Reason: "bad"}, exitError, "correct the trace"},
		{errors.New("anything"), exitError, ""},
		{usagef("do it well", "wrong"), exitUsage, "do it well"},
	} {
		got := explain(fmt.Errorf("context: %w", c.err))
		if got.code != c.code || !strings.Contains(got.remedy, c.remedy) {
			t.Errorf("%v: code %d, remedy %q; want %d, %q", c.err, got.code, got.remedy, c.code, c.remedy)
		}
	}
}

func TestGravest(t *testing.T) {
	damage, over := &failure{code: exitDamage, message: "damage"}, &failure{code: exitOverBudget, message: "over"}
	for _, c := range []struct {
		errs []error
		code exitCode
		say  string
	}{
		{[]error{nil, over, damage}, exitDamage, "damage; over"},
		{[]error{damage, errors.New("broken")}, exitError, "broken; damage"},
		{[]error{errors.New("broken"), nil, over}, exitError, "broken; over"},
	} {
		err := gravest(c.errs...)
		if f := explain(err); f.code != c.code || f.message != c.say {
			t.Errorf("%v: code %d, %q", c.errs, f.code, f.message)
		}
	}
	if err := gravest(nil, nil); err != nil {
		t.Errorf("nothing wrong: %v", err)
	}
}

// TestBadUsage: each wrong command line ends in exit code 2, one line and no
// store.
func TestBadUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	file := write(t, "trace", smallTrace)
	for _, c := range []struct{ args, want string }{
		{"", "expected one of"},
		{"frobnicate", "frobnicate"},
		{"ns", "expected one of"},
		{"replay --dir D T --nonsense", "unknown flag --nonsense"},
		{"replay T", "missing flags: --dir"},
		{"replay --dir D --capacity 1GiB", "neither a trace nor --generate"},
		{"replay --dir D --capacity 1GiB --generate T", "both a trace and --generate"},
		{"replay --dir D --capacity 1GiB T T", "unexpected argument"},
		{"replay --dir D T", "capacity"},
		{"replay --dir D --capacity 0 T", "must be more than 0"},
		{"replay --dir D --capacity=-1 T", "negative"},
		{"replay --dir D --capacity 4X T", `unknown suffix "X"`},
		{"replay --dir D --capacity 1k T", "apacity"},
		{"replay --dir D --capacity 1GiB --block-bytes 0 T", "must be more than 0"},
		{"replay --dir D --capacity 1GiB --block-bytes 4095 T", "a block holds 4096 to 67108864 bytes"},
		{"replay --dir D --capacity 1GiB --block-bytes 65MiB T", "a block holds 4096 to 67108864 bytes"},
		{"replay --dir D --capacity 1GiB --budget 0 T", "budget"},
		{"replay --dir D --capacity 1GiB --budget 30 T", "write it like 30ms"},
		{"replay --dir D --capacity 1GiB --budget 2h T", "must lie between"},
		{"replay --dir D --capacity 1GiB --budget=-3ms T", "must lie between"},
		{"replay --dir D --capacity 1GiB --speed 0 T", "neither max nor a number above 0"},
		{"replay --dir D --capacity 1GiB --speed fast T", "neither max nor a number above 0"},
		{"replay --dir D --capacity 1GiB --speed NaN T", "neither max nor a number above 0"},
		{"replay --dir D --capacity 1GiB --requests=-1 T", "--requests -1 is negative"},
		{"replay --dir D --capacity 1GiB --for=-1s T", "--for -1s is negative"},
		{"replay --dir D --capacity 1GiB --depth 0 T", "--depth 0: it must lie between 1 and 1024"},
		{"replay --dir D --capacity 1GiB --depth 100000 T", "it must lie between 1 and 1024"},
		{"put --dir D", "expected"},
		{"get --dir D", "expected"},
		{"ls --dir D --limit x", "--limit"},
		{"ns drop --dir D", "expected"},
		{"ns quota --dir D n", "expected"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = map[string]string{"D": dir, "T": file}[args[i]] + strings.Trim(args[i], "DT")
		}
		if len(args) > 0 && args[0] == "replay" {
			args = append(args, "--buffered-io", "--any-filesystem")
		}
		got := process{t: t}.run(args...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr (want %q):\n%s", c.args, got.code, got.stdout, c.want, got.stderr)
		}
		got = process{t: t}.run(append(args, "--json")...)
		if e := object(t, got.stderr, "error"); e["code"] != 2.0 {
			t.Errorf("%s --json: %v", c.args, e)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Fatalf("%s: the directory was made (%v)", c.args, err)
		}
	}
}

// TestBadDirectory: what is wrong with the directory is said in one sentence,
// and nothing in it changes.
func TestBadDirectory(t *testing.T) {
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "letter.txt"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := write(t, "trace", smallTrace)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"foreign, read":   {anywhere(foreign, "stat"), "give an empty or a new directory"},
		"foreign, write":  {anywhere(foreign, "replay", "--capacity", "256MiB", trace), "give an empty or a new directory"},
		"absent, read":    {anywhere(filepath.Join(t.TempDir(), "no"), "stat"), "no"},
		"absent parent":   {anywhere(filepath.Join(t.TempDir(), "no", "no"), "replay", "--capacity", "256MiB", trace), "no"},
		"a file":          {anywhere(filepath.Join(foreign, "letter.txt"), "stat"), "letter.txt"},
		"absent trace":    {anywhere(filepath.Join(t.TempDir(), "no"), "replay", "--capacity", "256MiB", "/no/trace"), "/no/trace"},
		"trace is folder": {anywhere(filepath.Join(t.TempDir(), "no"), "replay", "--capacity", "256MiB", foreign), "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			got := process{t: t}.run(c.args...).want(t, exitError, "", c.want)
			if strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("more than a sentence:\n%s", got.stderr)
			}
		})
	}
	entries, err := os.ReadDir(foreign)
	if err != nil || len(entries) != 1 {
		t.Errorf("the foreign directory now holds %v, %v", entries, err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir, _ := newStore(t)
	s, err := engine.Open(engine.Options{Dir: dir, BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sh(t, dir, "stat", "--lock-wait", "1ms").want(t, exitError, "", fmt.Sprint(os.Getpid()))
	sh(t, dir, "stat", "--lock-wait", "0s").want(t, exitError, "", "--lock-wait")
}

// TestOtherFileSystem: a file system that is not allowed names the flags that
// allow it.
func TestOtherFileSystem(t *testing.T) {
	var facts unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &facts); err != nil || facts.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no tmpfs here")
	}
	parent, err := os.MkdirTemp("/dev/shm", "spillway-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "store")
	process{t: t, stdin: "x"}.run("put", "--dir", dir, "--pad", "--capacity", "32MiB", "k").want(t, exitError, "", "--any-filesystem")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made (%v)", err)
	}
}

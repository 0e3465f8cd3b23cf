package system

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spillway-kv/spillway/engine"
)

// failing takes a file system away under a store that is being written.
type failing struct {
	kind, options string
	tools         []string
	fail          func(t *testing.T, d *disk)
}

func failures() map[string]failing {
	return map[string]failing{
		"XFS shutdown": {"xfs", "", []string{"xfs_io"}, func(t *testing.T, d *disk) {
			shell(t, "xfs_io", "-x", "-c", "shutdown", d.dir)
		}},
		"ext4 read-only": {"ext4", "errors=remount-ro", []string{"findmnt"}, func(t *testing.T, d *disk) {
			trigger := filepath.Join("/sys/fs/ext4", d.device(t), "trigger_fs_error")
			if err := os.WriteFile(trigger, []byte("test"), 0o200); err != nil {
				t.Skip(err)
			}
		}},
	}
}

// TestFailingFileSystem: after the file system stops taking writes nothing is
// acknowledged any more, the store says that it is read-only or the drive sick
// (whichever it notices first), and closes. Once the file system is mounted
// again every block acknowledged as durable is there.
func TestFailingFileSystem(t *testing.T) {
	for name, f := range failures() {
		t.Run(name, func(t *testing.T) {
			requireTools(t, f.tools...)
			d := newDisk(t, f.kind, 320, f.options)
			dir := filepath.Join(d.dir, "store")
			s, c := openChain(t, dir, 96<<20)
			durable := engine.PutOptions{Durability: engine.Durable}
			if n, err := c.put(300, durable); n != 300 {
				t.Fatalf("%d of 300 stored: %v", n, err)
			}
			before := c.failWhileWriting(f, d)
			stored := len(c.stored)
			n, err := c.put(20, durable)
			if n != 0 || !errors.Is(err, engine.ErrReadOnly) && !errors.Is(err, engine.ErrSick) {
				t.Errorf("%d durable puts acknowledged after the failure: %v", n, err)
			}
			if n, err := c.put(20, engine.PutOptions{}); n != 0 || err == nil {
				t.Errorf("%d relaxed puts acknowledged after the failure: %v", n, err)
			}
			c.stored = c.stored[:stored]
			st := s.Stat()
			if st.Health == "ok" || st.HealthCause == "" {
				t.Errorf("health %q, cause %q", st.Health, st.HealthCause)
			}
			t.Logf("%d acknowledged before, %d while it failed; %s", before, stored-before, st.HealthCause)
			c.get(c.stored) // misses are fine, wrong bytes are not
			closeReadOnly(t, s)

			d.again(t)
			checkAcknowledged(t, dir, f.kind, c)
		})
	}
}

// failWhileWriting writes durably on a goroutine and takes the file system
// away meanwhile. Returns how many blocks were stored before that began.
func (c *chain) failWhileWriting(f failing, d *disk) (before int) {
	c.t.Helper()
	before = len(c.stored)
	var progress atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			n, _ := c.put(1, engine.PutOptions{Durability: engine.Durable})
			if n == 0 {
				return
			}
			progress.Add(1)
		}
	}()
	waitFor(c.t, "puts", func() bool { return progress.Load() >= 20 })
	f.fail(c.t, d)
	<-ended
	return before
}

// closeReadOnly closes a store that has failed: it says so, and does not hang.
func closeReadOnly(t *testing.T, s *engine.Store) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	waitFor(t, "end of Close", func() bool { return len(closed) == 1 })
	if err := <-closed; err == nil {
		t.Error("a failed store closed without an error")
	}
}

// checkAcknowledged asks a new process for every stored block.
func checkAcknowledged(t *testing.T, dir, kind string, c *chain) {
	t.Helper()
	s, again := openChain(t, dir, 0)
	for n, key := range c.stored {
		switch {
		case again.get([]uint64{key}) == 1:
		case n == len(c.stored)-1 && kind == "xfs":
			// Plain pwrite and fdatasync show the same (4 of 80 runs, Linux 6.18): an
			// fdatasync that is under way when XFS is shut down can answer success
			// without having reached the medium.
			t.Logf("the last durable block, whose sync was under way at the shutdown, is gone")
		default:
			t.Errorf("durable block %d of %d is gone", n+1, len(c.stored))
		}
	}
	if n := s.Stat().Counters; n.TornBlocks != 0 || n.LostBlocks != 0 || n.QuarantinedSlots != 0 {
		t.Errorf("torn %d, lost %d, quarantined %d", n.TornBlocks, n.LostBlocks, n.QuarantinedSlots)
	}
	again.next = c.next
	if n, err := again.put(50, engine.PutOptions{Durability: engine.Durable}); n != 50 {
		t.Errorf("%d of 50 stored: %v", n, err)
	}
	mustClose(t, s)
}

// TestFailingFileSystemCommand: the replay of a store that fails ends with the
// documented code and says why.
func TestFailingFileSystemCommand(t *testing.T) {
	for name, f := range failures() {
		t.Run(name, func(t *testing.T) {
			requireTools(t, f.tools...)
			d := newDisk(t, f.kind, 320, f.options)
			dir := filepath.Join(d.dir, "store")
			h := hold(t, dir)
			waitFor(t, "second segment", func() bool { // the first is in use
				found, _ := filepath.Glob(filepath.Join(dir, "seg-*")) // the pattern is well formed
				return len(found) > 1
			})
			f.fail(t, d)
			ended := make(chan struct{})
			go func() {
				_ = h.cmd.Wait() // the exit code tells
				close(ended)
			}()
			waitFor(t, "end of the replay", func() bool {
				select {
				case <-ended:
					return true
				default:
					return false
				}
			})
			o := outcome{args: h.cmd.Args, code: h.cmd.ProcessState.ExitCode(), stdout: h.stdout.String(), stderr: h.stderr.String()}
			// Reads alone may have failed first: then the drive counts as sick.
			said := "read-only"
			if strings.Contains(o.stderr, "drive is sick") {
				said = "drive is sick"
			}
			wantNumbers(t, o.want(t, exitError, said).object(t), "wrong_bytes", 0, "corrupt", 0)
			d.again(t)
			run(t, nil, "stat", "--dir", dir).want(t, exitPass)
		})
	}
}

// TestReadOnlyMount: a store on a file system mounted read-only cannot be
// opened, and a new one cannot be made; both say so.
func TestReadOnlyMount(t *testing.T) {
	d := newDisk(t, "ext4", 200, "")
	dir := filepath.Join(d.dir, "store")
	run(t, block(1, 4096), "put", "--dir", dir, "--capacity", "64MiB", "key").want(t, exitPass)
	shell(t, "mount", "-o", "remount,ro", d.dir)
	for _, args := range [][]string{
		{"get", "--dir", dir, "key"}, {"stat", "--dir", dir}, {"put", "--dir", dir, "--pad", "key"},
		{"put", "--dir", filepath.Join(d.dir, "new"), "--capacity", "64MiB", "--pad", "key"},
	} {
		run(t, []byte("data"), args...).want(t, exitError, "read-only file system", "mount the file system for writing")
	}
	shell(t, "mount", "-o", "remount,rw", d.dir)
	run(t, nil, "get", "--dir", dir, "key").want(t, exitPass)
}

// TestWithoutDirectIO: ramfs has neither direct I/O nor attributes nor
// fallocate. The error names the directory and the remedy; where the user
// permits it the store works, with one line for each feature that is missing.
func TestWithoutDirectIO(t *testing.T) {
	dir := filepath.Join(ramfs(t), "store")
	put := []string{"put", "--dir", dir, "--capacity", "64MiB", "key"}
	run(t, block(1, 4096), put...).want(t, exitError, dir, "ramfs", "--any-filesystem")
	run(t, block(1, 4096), append(put, "--any-filesystem")...).want(t, exitError, dir, "direct I/O", "--buffered-io")
	if left, err := os.ReadDir(dir); err == nil && len(left) > 1 {
		t.Errorf("refused, and yet there are %v", left)
	}
	o := run(t, block(1, 4096), append(put, anywhere...)...).want(t, exitPass, "page cache", "extended attributes", "fallocate", "punch")
	for _, feature := range []string{"page cache", "extended attributes", "fallocate", "hole punching"} {
		if n := countLines(o.stderr, feature); n != 1 {
			t.Errorf("%d lines about %s:\n%s", n, feature, o.stderr)
		}
	}
	if got := run(t, nil, onDir(dir, "get", "key")...).want(t, exitPass); got.stdout != string(block(1, 4096)) {
		t.Error("other bytes came back")
	}
	v := run(t, nil, onDir(dir, "replay", "--generate", "--requests", "200", "--quiet", "--json")...).want(t, exitPass).object(t)
	wantNumbers(t, v, "wrong_bytes", 0, "corrupt", 0, "dropped", 0, "requests", 200)
	if v["direct_io"] != false {
		t.Errorf("direct_io is %v", v["direct_io"])
	}
}

package doctor

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/iouring"
	"github.com/spillway-kv/spillway/engine/machine"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fakeTree unpacks a file of testdata: what follows "-- path --" is the
// content of path, "-- path -> target --" is a link. DIR is the directory that
// is looked at.
func fakeTree(t *testing.T, name, dir string) (root string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	path, content := "", ""
	flush := func() {
		target, link := "", false
		if path, target, link = strings.Cut(path, " -> "); path == "" {
			return
		}
		full := filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(full), 0o700)
		if err == nil && link {
			err = os.Symlink(target, full)
		} else if err == nil {
			err = os.WriteFile(full, []byte(strings.ReplaceAll(content, "/DIR", dir)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(string(text)) {
		if p, isPath := strings.CutPrefix(strings.TrimSpace(line), "-- "); isPath {
			flush()
			path, content = strings.TrimSuffix(p, " --"), ""
			continue
		}
		content += line
	}
	flush()
	return root
}

// healthy answers the calls as a good machine would.
func healthy(root string) Machine {
	return Machine{System: machine.System{Root: root},
		Probe: func(string) (device.Probed, error) {
			return device.Probed{Allowed: true, Facts: device.Facts{FileSystem: "xfs", Direct: true, MemAlignBytes: 512, OffsetAlignBytes: 4096,
				Xattrs: true, Preallocate: true}}, nil
		},
		Uring:  func() error { return nil },
		Holder: func(string) (string, bool, error) { return "", false, nil },
		Space:  func(string) (device.Space, error) { return device.Space{TotalBytes: 1 << 40, FreeBytes: 1 << 39}, nil },
	}
}

// TestMachines compares the findings on whole machines with golden files.
func TestMachines(t *testing.T) {
	for name, machine := range map[string]func(*Machine){
		"server": func(*Machine) {},
		"poor": func(m *Machine) {
			m.Uring = func() error { return fmt.Errorf("io_uring_setup: %w", syscall.EPERM) }
			m.Probe = func(string) (device.Probed, error) {
				return device.Probed{Allowed: true, NoDirect: errors.New("direct I/O does not work here (EINVAL)"), Facts: device.Facts{FileSystem: "ext4",
					MemAlignBytes: 4096, OffsetAlignBytes: 4096, Notes: []string{"fallocate is not available (EOPNOTSUPP): new files are filled", "hole punching is not available (EOPNOTSUPP): freed ranges are overwritten"}}}, nil
			}
			m.Space = func(string) (device.Space, error) { return device.Space{TotalBytes: 1 << 36, FreeBytes: 1 << 30}, nil }
		},
		"container": func(m *Machine) {
			m.Uring = func() error { return fmt.Errorf("io_uring_setup: %w", syscall.ENOSYS) }
			m.Probe = func(string) (device.Probed, error) {
				return device.Probed{Facts: device.Facts{FileSystem: "overlayfs", Direct: true, MemAlignBytes: 512, OffsetAlignBytes: 4096, Xattrs: true, Preallocate: true}}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			m := healthy(fakeTree(t, name, dir))
			machine(&m)
			facts := m.Gather(dir)
			var b strings.Builder
			for _, c := range Examine(&facts, Plan{CapacityBytes: 100 << 30}) {
				line, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				b.WriteString(strings.ReplaceAll(string(line), dir, "DIR") + "\n")
				if (c.Level == OK) != (c.Remedy == "") || c.Found == "" || c.Means == "" {
					t.Errorf("incomplete: %+v", c)
				}
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("differs from %s (go test -update writes it anew):\n%s", golden, b.String())
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
				t.Errorf("the directory holds %v, %v", entries, err)
			}
		})
	}
}

// TestFindings changes one fact of the healthy server at a time.
func TestFindings(t *testing.T) {
	root := fakeTree(t, "server", "/dir")
	for _, c := range []struct {
		name   string
		change func(f *Facts)
		check  string
		level  Level
		text   string // in found, means or remedy
	}{
		{"healthy", func(*Facts) {}, "drive", OK, "ACME"},
		{"no directory", func(f *Facts) { f.DirErr = fs.ErrPermission }, "directory", Bad, "permission denied"},
		{"not writable", func(f *Facts) { f.ProbeErr = fs.ErrPermission }, "directory", Bad, "sudo chown"},
		{"read-only", func(f *Facts) { f.ProbeErr = syscall.EROFS }, "directory", Bad, "read-only file system"},
		{"to come", func(f *Facts) { f.Missing = 1 }, "directory", OK, "is not there yet"},
		{"parent missing", func(f *Facts) { f.Missing, f.Asked = 2, "/a b/c" }, "directory", Bad, "mkdir -p '/a b'"},
		{"stranger", func(f *Facts) { f.Stranger = "photo.jpg" }, "store", Bad, `"photo.jpg" and no store file`},
		{"orphans", func(f *Facts) { f.Segments = 3 }, "store", Bad, "3 segments and 0 log files without"},
		{"store", func(f *Facts) {
			f.Store = &engine.StoreFileFacts{StoreID: "ab", CapacityBytes: 1 << 30, SegmentBytes: 1 << 24}
		}, "store", OK, "nobody has it open"},
		{"store in use", func(f *Facts) {
			f.Store, f.Holder = &engine.StoreFileFacts{StoreID: "ab", SegmentBytes: 1}, "pid 7 (spillway)"
		}, "store", OK, "in use by pid 7 (spillway)"},
		{"store damaged", func(f *Facts) {
			f.Store = &engine.StoreFileFacts{Flaws: []engine.Flaw{{Offset: 8, Text: "checksum", Damage: true}}}
		}, "store", Bad, "SPILLWAY at offset 8: checksum"},
		{"no index", func(f *Facts) { f.Store, f.Segments = &engine.StoreFileFacts{}, 3 }, "store", Bad, "--rebuild"},
		{"store of another version", func(f *Facts) { f.Store = &engine.StoreFileFacts{Flaws: []engine.Flaw{{Text: "version 9"}}} }, "store", Bad, "version 9"},
		{"not a store", func(f *Facts) { f.StoreErr = engine.ErrNotAStore }, "store", Bad, "not a spillway store"},
		{"in memory", func(f *Facts) { f.Probed.InMemory = true }, "file system", Bad, "nothing is offloaded"},
		{"other file system", func(f *Facts) { f.Probed.Allowed = false }, "file system", Bad, "--any-filesystem"},
		{"large sectors", func(f *Facts) { f.Probed.Facts.OffsetAlignBytes = 16384 }, "direct I/O", Bad, "units of 4096"},
		{"no xattr", func(f *Facts) { f.Probed.Facts.Xattrs = false }, "extended attributes", Warn, "is lost"},
		{"no fallocate", func(f *Facts) { f.Probed.Facts.Preallocate = false }, "fallocate", Warn, "filled with zeros"},
		{"barrier=0", func(f *Facts) { f.Mount.Options = []string{"barrier=0"} }, "mount", Bad, "remount,barrier=1 /dir"},
		{"too full for a new store", func(f *Facts) { f.Space.FreeBytes = 5 << 30 }, "space", Bad, "--capacity 5120MiB"},
		{"too full for a store", func(f *Facts) {
			f.Store, f.UsedBytes, f.Space.FreeBytes = &engine.StoreFileFacts{SegmentBytes: 1 << 30, CapacityBytes: 100 << 30}, 50<<30, 5<<30
		}, "space", Warn, "may grow by 50 GiB"},
		{"full but done growing", func(f *Facts) {
			f.Store, f.UsedBytes, f.Space.FreeBytes = &engine.StoreFileFacts{SegmentBytes: 1 << 30, CapacityBytes: 100 << 30}, 100<<30, 0
		}, "space", OK, "may grow by 0 B"},
		{"few files", func(f *Facts) { f.FilesHard = 128 }, "open files", Bad, "nofile 65536"},
		{"old kernel", func(f *Facts) { f.Kernel = "5.5.1" }, "kernel", Warn, "older than 5.6"},
		{"older kernel", func(f *Facts) { f.Kernel = "4.19.0" }, "kernel", Warn, "older than 5.6"},
		{"odd kernel", func(f *Facts) { f.Kernel = "" }, "kernel", Warn, "could not be read"},
		{"ring refused by sysctl", func(f *Facts) { f.Uring, f.UringDisabled = syscall.EPERM, "1" }, "io_uring", Warn, "sysctl -w kernel.io_uring_disabled=0"},
		{"ring refused by seccomp", func(f *Facts) { f.Uring, f.Seccomp = syscall.EPERM, "2" }, "io_uring", Warn, "seccomp=unconfined"},
		{"ring missing", func(f *Facts) { f.Uring = syscall.ENOSYS }, "io_uring", Warn, "built without it"},
		{"ring too old", func(f *Facts) { f.Uring = iouring.ErrOld }, "io_uring", Warn, "too old"},
		{"no memory for a ring", func(f *Facts) { f.Uring = syscall.ENOMEM }, "io_uring", Warn, "memlock unlimited"},
		{"ring fails", func(f *Facts) { f.Uring = syscall.EMFILE }, "io_uring", Warn, "dmesg"},
		{"soft limit", func(f *Facts) { f.LockedSoft = 8 << 20 }, "locked memory", Warn, "ulimit -l 65536"},
		{"hard limit", func(f *Facts) { f.LockedSoft, f.LockedHard = 8<<20, 8<<20 }, "locked memory", Warn, "LimitMEMLOCK=infinity"},
		{"privileged", func(f *Facts) { f.LockedSoft, f.LockedHard, f.MayLock = 8<<20, 8<<20, true }, "locked memory", OK, "CAP_IPC_LOCK"},
		{"no huge pages", func(f *Facts) { f.HugePages, f.Transparent = 0, "never" }, "huge pages", Warn, "echo madvise"},
		{"no THP", func(f *Facts) { f.HugePages, f.Transparent = -1, "" }, "huge pages", Warn, "TRANSPARENT_HUGEPAGE"},
		{"no drive", func(f *Facts) { f.Drives = nil }, "drive", Warn, "lsblk"},
		{"turning", func(f *Facts) { f.Drives[0].Name, f.Drives[0].Rotational = "sda", 1 }, "drive", Warn, "milliseconds"},
		{"virtual", func(f *Facts) { f.Drives[0].Name, f.Drives[0].Rotational = "vda", 1 }, "drive", Warn, "echo 0 | sudo tee /sys/block/vda/queue/rotational"},
		{"large blocks", func(f *Facts) { f.Drives[0].Physical = 16384 }, "drive", Warn, "read and write the rest"},
		{"short queue", func(f *Facts) { f.Drives[0].Requests = 8 }, "drive", Warn, "nr_requests"},
		{"write back", func(f *Facts) { f.Drives[0].WriteCache = "write back" }, "drive", OK, "power-loss"},
		{"kyber", func(f *Facts) { f.Drives[0].Scheduler = "kyber" }, "scheduler", Warn, "echo none | sudo tee /sys/block/nvme0n1/queue/scheduler"},
		{"bfq, no none", func(f *Facts) {
			f.Drives[0].Scheduler, f.Drives[0].Schedulers = "bfq", []string{"bfq", "mq-deadline"}
		}, "scheduler", Warn, "echo mq-deadline"},
		{"far node", func(f *Facts) { f.CPUs = "2-3" }, "NUMA", Warn, "numactl --cpunodebind=0 --membind=0"},
		{"both nodes", func(f *Facts) { f.CPUs = "0-3" }, "NUMA", Warn, "some threads"},
		{"near node", func(f *Facts) { f.CPUs = "1" }, "NUMA", OK, "near the drive"},
		{"node unknown", func(f *Facts) { f.Drives[0].Node = -1 }, "NUMA", OK, "not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := healthy(root)
			facts := m.Gather(t.TempDir())
			facts.Mount = m.MountOf("/dir/x")
			facts.Drives = m.DrivesOf(facts.Mount)
			c.change(&facts)
			plan := Plan{CapacityBytes: 100 << 30}
			if facts.Store != nil {
				plan = Plan{}
			}
			found := false
			for _, check := range Examine(&facts, plan) {
				all := check.Found + "\n" + check.Means + "\n" + check.Remedy
				found = found || check.Name == c.check && check.Level == c.level && strings.Contains(all, c.text)
				if check.Name != c.check && check.Level == Bad && facts.DirErr == nil && facts.Stranger == "" {
					t.Errorf("bad too: %+v", check)
				}
			}
			if !found {
				t.Errorf("nothing says %s %s %q: %+v", c.check, c.level, c.text, Examine(&facts, plan))
			}
		})
	}
}

// TestHere looks at the machine that runs the test.
func TestHere(t *testing.T) {
	dir := t.TempDir()
	facts := This().Gather(dir)
	if facts.DirErr != nil || facts.ProbeErr != nil || facts.SpaceErr != nil || facts.Kernel == "" || facts.CPUs == "" || facts.Mount.Point == "" ||
		facts.FilesHard == 0 || facts.Space.TotalBytes == 0 || facts.Probed.Facts.FileSystem == "" {
		t.Errorf("%+v", facts)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
	if f := This().Gather(filepath.Join(dir, "a", "b", "c")); f.Missing != 3 || f.DirErr != nil {
		t.Errorf("%d missing, %v", f.Missing, f.DirErr)
	}
	if f := This().Gather("/proc/self/status"); f.DirErr == nil && f.ProbeErr == nil {
		t.Error("a file passes for a directory")
	}
}

func TestCPUSet(t *testing.T) {
	for list, want := range map[string]int{"": 0, "0": 1, "0-3": 4, "0-3,8": 5, "x": 0, "3-1": 0, "0-99999999": 0, "-1": 0} {
		if got := cpuSet(list); len(got) != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}

func TestShell(t *testing.T) {
	for word, want := range map[string]string{"/a/b": "/a/b", "a b": "'a b'", "": "''", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := shell(word); got != want {
			t.Errorf("%q: %s", word, got)
		}
	}
}

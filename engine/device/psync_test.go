package device_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/devicetest"
)

// onDisk adds to o what the temporary directory's file system needs.
func onDisk(t *testing.T, dir string, o device.Options) device.Options {
	t.Helper()
	d, err := device.OpenDir(dir, o)
	if err == nil {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	t.Logf("testing with buffered I/O: %v", err)
	o.AnyFileSystem, o.BufferedIO = true, true
	return o
}

func openDir(t *testing.T, dir string, o device.Options) device.Device {
	t.Helper()
	d, err := device.OpenDir(dir, onDisk(t, dir, o))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func closeDevice(t *testing.T, d device.Device) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestConformance(t *testing.T) {
	for _, o := range []device.Options{
		{Engine: device.EnginePsync}, {Engine: device.EnginePsync, QueueDepth: 1, QueueOps: 8}, {Engine: device.EnginePsync, QueueDepth: 3, QueueOps: 100},
		{Engine: device.EngineUring}, {Engine: device.EngineUring, QueueDepth: 1, QueueOps: 8}, {Engine: device.EngineUring, QueueDepth: 5, QueueOps: 100, Rings: 2},
		{Engine: device.EngineAuto, QueueDepth: 3, QueueOps: 100}, {Engine: device.EngineAuto, QueueOps: 8, QueueDepth: 8},
	} {
		t.Run(fmt.Sprintf("%s,depth=%d,ops=%d,rings=%d", o.Engine, o.QueueDepth, o.QueueOps, o.Rings), func(t *testing.T) {
			if o.Engine == device.EngineUring {
				wantRing(t)
			}
			devicetest.Run(t, func(t *testing.T) device.Device { return openDir(t, t.TempDir(), o) })
		})
	}
}

// mount mounts a file system for one test; only root can.
func mount(t *testing.T, kind, data string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("mounting %s needs root", kind)
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, kind, 0, data); err != nil {
		t.Skipf("mounting %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Errorf("a file is still open on %s: %v", kind, err)
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return dir
}

// unmount tries for a while: a worker of the kernel may let go of the file of a
// request on a ring a moment after the request's completion.
func unmount(dir string) error {
	for try := 0; ; try++ {
		err := unix.Unmount(dir, 0)
		if err != unix.EBUSY || try == 1000 {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestConformanceRamfs(t *testing.T) {
	parent := mount(t, "ramfs", "")
	n := 0
	devicetest.Run(t, func(t *testing.T) device.Device {
		n++
		var log bytes.Buffer
		d, err := device.OpenDir(filepath.Join(parent, fmt.Sprint(n)), device.Options{
			Engine: device.EnginePsync, Create: true, AnyFileSystem: true, BufferedIO: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		f := d.Facts()
		if f.Direct || f.FileSystem != "ramfs" || f.Preallocate || f.Xattrs {
			t.Errorf("facts of ramfs: %+v", f)
		}
		if len(f.Notes) != 3 { // extended attributes, fallocate, holes
			t.Errorf("notes: %q", f.Notes)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != 4 { // and direct I/O
			t.Errorf("%d warnings:\n%s", got, log.String())
		}
		return d
	})
}

func TestConformanceTmpfs(t *testing.T) {
	parent := mount(t, "tmpfs", "")
	n := 0
	devicetest.Run(t, func(t *testing.T) device.Device {
		n++
		d, err := device.OpenDir(filepath.Join(parent, fmt.Sprint(n)), device.Options{Create: true, AnyFileSystem: true, BufferedIO: true})
		if err != nil {
			t.Fatal(err)
		}
		f := d.Facts()
		if f.FileSystem != "tmpfs" {
			t.Errorf("file system %q", f.FileSystem)
		}
		if f.Direct && !slices.ContainsFunc(f.Notes, func(s string) bool { return strings.Contains(s, "in memory") }) {
			t.Errorf("direct I/O on tmpfs without a word: %q", f.Notes)
		}
		return d
	})
}

func TestUnsupported(t *testing.T) {
	dir := mount(t, "ramfs", "")
	for _, o := range []device.Options{{}, {BufferedIO: true}, {AnyFileSystem: true}} {
		d, err := device.OpenDir(dir, o)
		if err == nil {
			closeDevice(t, d)
			t.Fatalf("%+v: ramfs was accepted", o)
		}
		var u *device.UnsupportedError
		if !errors.As(err, &u) || u.Dir != dir || u.FileSystem != "ramfs" || u.Problem == "" || u.Remedy == "" {
			t.Fatalf("%+v: %v", o, err)
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v does not match errors.ErrUnsupported", err)
		}
		for _, part := range []string{u.Dir, u.FileSystem, u.Problem, u.Remedy} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
		wantFiles(t, dir, map[bool][]string{false: nil, true: {"LOCK"}}[o.AnyFileSystem]...)
	}
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

// TestFullDisk: what does not fit leaves nothing, and a full directory can be
// opened.
func TestFullDisk(t *testing.T) {
	dir := mount(t, "tmpfs", "size=1m")
	o := device.Options{AnyFileSystem: true, BufferedIO: true}
	d, err := device.OpenDir(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	before, err := d.Space()
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Create("big", 8<<20)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create of 8 MiB in 1 MiB: %v", err)
	}
	if err := d.WriteFile("state", make([]byte, 8<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteFile of 8 MiB in 1 MiB: %v", err)
	}
	wantFiles(t, dir, "LOCK")
	if after, err := d.Space(); err != nil || after != before {
		t.Errorf("space before %+v, after %+v, %v", before, after, err)
	}
	f, err := d.Create("rest", before.FreeBytes)
	if err != nil {
		t.Fatalf("Create of all that is free: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	closeDevice(t, d)

	d, err = device.OpenDir(dir, o)
	if err != nil {
		t.Fatalf("opening a full directory: %v", err)
	}
	if err := d.Remove("rest"); err != nil {
		t.Error(err)
	}
	closeDevice(t, d)
}

// TestFullExt4 is TestFullDisk with direct I/O.
func TestFullExt4(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%q: %v %s", command, err, out)
		}
	}
	defer func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	}()
	d := openDir(t, dir, device.Options{})
	if _, err := d.Create("big", 64<<20); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create of 64 MiB in 16 MiB: %v", err)
	}
	if names, err := d.List(); err != nil || len(names) != 0 {
		t.Errorf("a failed Create left %q, %v", names, err)
	}
	var sizes int64
	for size := int64(8 << 20); size >= 1<<10; size /= 2 { // until nothing is free
		f, err := d.Create(fmt.Sprint("f", size), size)
		if errors.Is(err, syscall.ENOSPC) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes += size
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if space, err := d.Space(); err != nil || space.FreeBytes > 16<<10 {
		t.Errorf("after %d bytes of files %+v, %v", sizes, space, err)
	}
	closeDevice(t, d)
	d = openDir(t, dir, device.Options{})
	if f := d.Facts(); !f.Direct || !f.Preallocate {
		t.Errorf("facts of a full directory: %+v", f)
	}
	closeDevice(t, d)
}

func wantInUse(t *testing.T, dir string, pid int) {
	t.Helper()
	d, err := device.OpenDir(dir, device.Options{AnyFileSystem: true, BufferedIO: true, LockWait: time.Millisecond})
	if err == nil {
		closeDevice(t, d)
		t.Fatalf("%s was opened twice", dir)
	}
	var inUse *device.InUseError
	if !errors.As(err, &inUse) || inUse.Dir != dir || !strings.HasPrefix(inUse.Holder, fmt.Sprintf("pid %d (", pid)) {
		t.Errorf("second opening: %v, want one that names pid %d", err, pid)
	}
}

func TestLockOneProcess(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, device.Options{})
	wantInUse(t, dir, os.Getpid())
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	wantInUse(t, link, os.Getpid())
	if err := d.WriteFile("works", []byte("still")); err != nil {
		t.Error(err)
	}
	closeDevice(t, d)
	closeDevice(t, openDir(t, dir, device.Options{}))
}

// TestLockFileRemoved: removing the lock file makes no room for a second holder.
func TestLockFileRemoved(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, device.Options{})
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	second, err := device.OpenDir(dir, device.Options{AnyFileSystem: true, BufferedIO: true, LockWait: time.Nanosecond})
	var inUse *device.InUseError
	if !errors.As(err, &inUse) || !strings.Contains(err.Error(), "lock file was removed") {
		t.Errorf("second opening: %v", err)
	}
	if err == nil {
		closeDevice(t, second)
	}
	closeDevice(t, d)
	closeDevice(t, openDir(t, dir, device.Options{}))
}

func TestLockBindMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir, bind := t.TempDir(), t.TempDir()
	if err := unix.Mount(dir, bind, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("bind mount: %v", err)
	}
	defer func() {
		if err := unmount(bind); err != nil {
			t.Error(err)
		}
	}()
	d := openDir(t, dir, device.Options{})
	wantInUse(t, bind, os.Getpid())
	closeDevice(t, d)
}

// holdInChild starts a process that has dir open.
func holdInChild(t *testing.T, dir string) (*exec.Cmd, io.Closer) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "locked\n" {
		_ = child.Process.Kill()
		_ = child.Wait()
		t.Fatalf("the child said %q, %v", line, err)
	}
	return child, stdin
}

func TestLockOtherProcess(t *testing.T) {
	dir := t.TempDir()
	child, _ := holdInChild(t, dir)
	wantInUse(t, dir, child.Process.Pid)
	if err := child.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	_ = child.Wait() // "signal: killed"
	// The kernel takes a dead process's rings down a moment later, and its lock
	// lasts until then.
	d, err := device.OpenDir(dir, device.Options{AnyFileSystem: true, BufferedIO: true, LockWait: time.Minute})
	if err != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	closeDevice(t, d)
}

// TestLockWaits: an opening that finds the lock taken gets it once it is free.
func TestLockWaits(t *testing.T) {
	dir := t.TempDir()
	child, stdin := holdInChild(t, dir)
	opened := make(chan error, 1)
	go func() {
		d, err := device.OpenDir(dir, device.Options{AnyFileSystem: true, BufferedIO: true, LockWait: time.Minute})
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	if err := stdin.Close(); err != nil { // lets the child close and exit
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	closeDevice(t, openDir(t, dir, device.Options{}))
	ours := []string{".spillway-tmp.7", ".spillway-probe.12"}
	others := []string{".spillway-tmp.x", ".spillway-tmp.", "state.tmp", "tmp.7"}
	for _, name := range append(slices.Clone(ours), others...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holder := openDirect(t, dir)
	for _, name := range ours { // as if made by a second process that fails to start
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wantInUse(t, dir, os.Getpid())
	wantFiles(t, dir, ".spillway-probe.12", ".spillway-tmp.", ".spillway-tmp.7", ".spillway-tmp.x", "LOCK", "state.tmp", "tmp.7")
	closeDevice(t, holder)
	d := openDirect(t, dir)
	wantFiles(t, dir, ".spillway-tmp.", ".spillway-tmp.x", "LOCK", "state.tmp", "tmp.7")
	names, err := d.List()
	if err != nil || !slices.Equal(names, []string{"state.tmp", "tmp.7"}) {
		t.Errorf("List = %q, %v", names, err)
	}
	closeDevice(t, d)
}

// openDirect opens dir without a first try.
func openDirect(t *testing.T, dir string) device.Device {
	t.Helper()
	d, err := device.OpenDir(dir, device.Options{AnyFileSystem: true, BufferedIO: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReservedNames(t *testing.T) {
	d := openDir(t, t.TempDir(), device.Options{})
	defer closeDevice(t, d)
	for _, name := range []string{"LOCK", ".spillway-tmp.1", ".spillway-x", strings.Repeat("n", 256)} {
		_, createErr := d.Create(name, 4096)
		_, openErr := d.Open(name)
		for _, err := range []error{createErr, openErr, d.Remove(name), d.Rename(name, "x"), d.WriteFile(name, nil)} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, device.Options{})
	defer closeDevice(t, d)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sub", "pipe", "away"} {
		if f, err := d.Open(name); err == nil {
			t.Errorf("%s was opened", name)
			_ = f.Close()
		}
	}
	if names, err := d.List(); err != nil || len(names) != 0 {
		t.Errorf("List = %q, %v", names, err)
	}
}

func TestMissingDirectory(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a")
	if _, err := device.OpenDir(dir, device.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without Create: %v", err)
	}
	if _, err := device.OpenDir(filepath.Join(dir, "b"), device.Options{Create: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create without a parent: %v", err)
	}
	wantFiles(t, parent)
	for range 2 { // made the first time, found the second
		closeDevice(t, openDir(t, dir, device.Options{Create: true}))
	}
	wantFiles(t, dir, "LOCK")
}

func TestValidate(t *testing.T) {
	for _, o := range []device.Options{{QueueDepth: -1}, {QueueDepth: 5000}, {QueueDepth: 8, QueueOps: 7}, {QueueOps: -1}, {QueueOps: 1 << 30}, {LockWait: -1}} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
		dir := t.TempDir()
		if _, err := device.OpenDir(dir, o); err == nil {
			t.Errorf("OpenDir accepts %+v", o)
		}
		wantFiles(t, dir)
	}
	if err := (device.Options{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestProgrammerErrorsPanic(t *testing.T) {
	d := openDir(t, t.TempDir(), device.Options{})
	defer closeDevice(t, d)
	other := openDir(t, t.TempDir(), device.Options{})
	defer closeDevice(t, other)
	f, err := other.Create("f", 4096)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := d.Create("f", 4096)
	if err != nil {
		t.Fatal(err)
	}
	done := func(*device.Op) { t.Error("Done was called") }
	for what, op := range map[string]*device.Op{
		"no Done":              {Kind: device.Sync, File: mine},
		"no Kind":              {File: mine, Done: done},
		"unknown Kind":         {Kind: device.Punch + 1, File: mine, Done: done},
		"no File":              {Kind: device.Sync, Done: done},
		"another device's one": {Kind: device.Sync, File: f, Done: done},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			d.Submit([]*device.Op{op})
		}()
	}
	for _, f := range []device.File{f, mine} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	d := openDir(t, t.TempDir(), device.Options{})
	f, err := d.Create("f", 4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "1 files still open") {
		t.Errorf("Close with an open file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("File.Close after Device.Close: %v", err)
	}
	if err := f.Close(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("second File.Close: %v", err)
	}
	if err := f.SetAttr("a", nil); !errors.Is(err, device.ErrClosed) {
		t.Errorf("SetAttr on a closed file: %v", err)
	}
	if err := d.Close(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	_, listErr := d.List()
	_, spaceErr := d.Space()
	for _, err := range []error{listErr, spaceErr, d.SyncDir(), d.Remove("f"), d.WriteFile("g", nil)} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("on a closed device: %v", err)
		}
	}
}

func TestFileLimitIsRaised(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	low := was
	low.Cur = 512
	if low.Cur >= low.Max {
		t.Skipf("the hard limit is %d", low.Max)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	closeDevice(t, openDir(t, t.TempDir(), device.Options{}))
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	if now.Cur != low.Max {
		t.Errorf("the soft limit is %d, the hard one %d", now.Cur, low.Max)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
}

// TestHuge moves more than 2 GiB in one op; it is heavy.
func TestHuge(t *testing.T) {
	if os.Getenv("SPILLWAY_LONG") != "1" || testing.Short() {
		t.Skip("set SPILLWAY_LONG=1 to move more than 2 GiB in one op")
	}
	d := openDir(t, t.TempDir(), device.Options{})
	defer closeDevice(t, d)
	const piece, pieces = 192<<20 + 4096, 12 // 2.25 GiB
	f, err := d.Create("huge", piece*pieces)
	if err != nil {
		t.Fatal(err)
	}
	// All pieces are one memory for the write; each read is checked by its own.
	memory := device.AlignedBuffer(piece, 4096)
	for i := range memory {
		memory[i] = byte(i>>12) ^ byte(i)
	}
	op := &device.Op{Kind: device.Write, File: f}
	for range pieces {
		op.Bufs = append(op.Bufs, memory)
	}
	if err := device.Do(d, op); err != nil || op.N != piece*pieces {
		t.Fatalf("write: N = %d of %d, %v", op.N, piece*pieces, err)
	}
	for i := range pieces {
		got := device.AlignedBuffer(piece, 4096)
		if err := device.Do(d, &device.Op{Kind: device.Read, File: f, Offset: int64(i * piece), Bufs: [][]byte{got}}); err != nil || !bytes.Equal(got, memory) {
			t.Fatalf("piece %d: equal %v, %v", i, bytes.Equal(got, memory), err)
		}
	}
	op.Kind = device.Read
	if err := device.Do(d, op); err != nil || op.N != piece*pieces {
		t.Fatalf("read: N = %d of %d, %v", op.N, piece*pieces, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

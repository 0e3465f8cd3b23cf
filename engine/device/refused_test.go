package device_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/devicetest"
)

// What a child process does without, by environment.
const (
	seccompEnv = "SPILLWAY_TEST_SECCOMP" // an errno: answer io_uring_setup with it
	memlockEnv = "SPILLWAY_TEST_MEMLOCK" // be nobody, with so many bytes of locked memory
)

// restrict applies the environment to this process, before any test runs.
func restrict() error {
	if text := os.Getenv(seccompEnv); text != "" {
		errno, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		return refuseSetup(uint32(errno))
	}
	if text := os.Getenv(memlockEnv); text != "" {
		limit, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
		const nobody = 65534
		return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)) // all threads
	}
	return nil
}

// refuseSetup gives every thread of the process a filter that answers
// io_uring_setup with errno and allows everything else.
func refuseSetup(errno uint32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_IO_URING_SETUP},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	return nil
}

// runChild runs one test of this binary in a child process with env set.
func runChild(t *testing.T, test, env string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.short="+strconv.FormatBool(testing.Short()))
	child.Env = append(os.Environ(), env, "TMPDIR="+openTempDir(t))
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("%s: %v\n%s", env, err, out)
	}
}

// openTempDir is a directory that everybody may use.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSeccomp runs TestUnderSeccomp in children whose filter refuses io_uring the
// way that containers do.
func TestSeccomp(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
		runChild(t, "TestUnderSeccomp", fmt.Sprintf("%s=%d", seccompEnv, errno))
	}
}

func TestUnderSeccomp(t *testing.T) {
	text := os.Getenv(seccompEnv)
	if text == "" {
		t.Skip("TestSeccomp runs this in a child process")
	}
	number, _ := strconv.Atoi(text)
	errno := syscall.Errno(number)
	dir := t.TempDir()
	o := device.Options{Engine: device.EngineUring, AnyFileSystem: true, BufferedIO: true}
	_, err := device.OpenDir(dir, o)
	var u *device.UnsupportedError
	if !errors.As(err, &u) || !errors.Is(err, errno) || !strings.Contains(err.Error(), "seccomp") || !strings.Contains(u.Remedy, "psync") {
		t.Fatalf("explicit: %v", err)
	}
	devicetest.Run(t, func(t *testing.T) device.Device {
		var log bytes.Buffer
		d, err := device.OpenDir(t.TempDir(), device.Options{AnyFileSystem: true, BufferedIO: true, Logger: textLogger(&log)})
		if err != nil {
			t.Fatal(err)
		}
		if f := d.Facts(); f.Device != "psync" || !hasNote(f, "seccomp") || strings.Count(log.String(), "io_uring is not available") != 1 {
			t.Errorf("auto: device %q, notes %q, log\n%s", f.Device, f.Notes, log.String())
		}
		return d
	})
	null, err := device.NewNull(device.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := null.Create("f", 4096)
	if err != nil {
		t.Fatal(err)
	}
	submitAndWait(null, reads(f, 4, nil))
	closeFile(t, f)
	closeDevice(t, null)
}

// TestMemlock runs TestUnderMemlock as nobody, with 64 KiB of locked memory.
func TestMemlock(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	wantRing(t)
	runChild(t, "TestUnderMemlock", memlockEnv+"=65536")
}

func TestUnderMemlock(t *testing.T) {
	if os.Getenv(memlockEnv) == "" {
		t.Skip("TestMemlock runs this in a child process")
	}
	if os.Geteuid() == 0 {
		t.Fatal("still root")
	}
	d := openRing(t, device.Options{}, device.SetUp{})
	f := ringFile(t, d, 8)
	mem := mapped(t, 1<<20)
	m := d.(device.MemoryRegistrar)
	for range 2 {
		_, err := m.RegisterMemory(mem)
		var u *device.UnsupportedError
		if !errors.As(err, &u) || !errors.Is(err, syscall.ENOMEM) {
			t.Fatalf("1 MiB under a limit of 64 KiB: %v", err)
		}
		for _, part := range []string{"1048576", "65536", "ulimit -l"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %s", err, part)
			}
		}
	}
	notes := slices.DeleteFunc(slices.Clone(d.Facts().Notes), func(note string) bool { return strings.HasPrefix(note, "tmpfs ") })
	if len(notes) != 2 { // the rings, and this
		t.Errorf("notes %q", notes)
	}
	if fixedRead(t, d, f, mem[:4096]) {
		t.Error("a fixed read of memory that is not registered")
	}
	release, err := m.RegisterMemory(mem[:16<<10])
	if err != nil {
		t.Fatalf("16 KiB under a limit of 64 KiB: %v", err)
	}
	if !fixedRead(t, d, f, mem[:4096]) {
		t.Error("registered memory is not used")
	}
	release()
	closeFile(t, f)
	closeDevice(t, d)
}

// TestSysctl switches io_uring off for the whole machine for some milliseconds,
// so it runs only when asked for.
func TestSysctl(t *testing.T) {
	if os.Getenv("SPILLWAY_LONG") != "1" || os.Geteuid() != 0 {
		t.Skip("set SPILLWAY_LONG=1, as root, to switch kernel.io_uring_disabled for a moment")
	}
	wantRing(t)
	const path = "/proc/sys/kernel/io_uring_disabled"
	was, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	restore := func() {
		if err := os.WriteFile(path, was, 0o644); err != nil {
			t.Errorf("%s stays changed: %v", path, err)
		}
	}
	defer restore()
	if err := os.WriteFile(path, []byte("2\n"), 0o644); err != nil {
		t.Skip(err)
	}
	o := device.Options{Engine: device.EngineUring, AnyFileSystem: true, BufferedIO: true}
	_, explicit := device.OpenDir(t.TempDir(), o)
	o.Engine = device.EngineAuto
	d, err := device.OpenDir(t.TempDir(), o)
	restore()
	if !errors.Is(explicit, syscall.EPERM) || !strings.Contains(fmt.Sprint(explicit), "kernel.io_uring_disabled is 2") {
		t.Errorf("explicit: %v", explicit)
	}
	if err != nil {
		t.Fatal(err)
	}
	if f := d.Facts(); f.Device != "psync" || !hasNote(f, "sysctl -w kernel.io_uring_disabled=0") {
		t.Errorf("auto: %+v", f)
	}
	closeDevice(t, d)
}
